"""The judges: rules over the tracker's events.

One module per family; each rule stands beside its texts, in the catalogue (catalogue.py). A rule is a function from
an event to verdicts: it sees the connection as it is at that moment and never changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ibcmtool.model import Event, Finding, Policy
from ibcmtool.rules import (
    cross,
    half_open,
    handshake,
    handshake_end,
    handshake_fields,
    quality,
    response_times,
    retries,
    stale,
    timewait,
)
from ibcmtool.rules.catalogue import CATALOGUE, Rule, Verdict
from ibcmtool.rules.view import View

__all__ = ["CATALOGUE", "Judge", "Rule"]

# Importing a family enters its rules into the catalogue, in this order.
FAMILIES = (
    stale,
    half_open,
    timewait,
    handshake,
    handshake_fields,
    handshake_end,
    retries,
    response_times,
    cross,
    quality,
)


class Judge:
    """Shows each event to the rules that asked for its kind, and makes findings of their verdicts."""

    def __init__(self, policy: Policy = "relaxed", rules: Iterable[Rule] | None = None) -> None:
        self.view = View(policy)
        self._by_kind: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in CATALOGUE.values() if rules is None else rules:
            for kind in rule.on:
                self._by_kind[kind].append(rule)

    def judge(self, event: Event) -> Iterator[Finding]:
        """The findings that this event brings to light."""
        view = self.view
        view.now = max(view.now, event.time)
        if event.step is not None:
            view.start = view.start or event.time
            view.heard.add(event.step.message.source)
        for rule in self._by_kind.get(event.kind, ()):
            for verdict in rule.judge(event, view):
                yield finding(rule, verdict, event)


def finding(rule: Rule, verdict: Verdict, event: Event) -> Finding:
    """The record for the reports: the rule's texts around the verdict's sentence and numbers."""
    messages = [step.message for step in verdict.steps]
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=verdict.severity or rule.severity,
        confidence=verdict.confidence,
        policy=verdict.policy,
        connection=(verdict.connection or event.connection).id,
        related=tuple(connection.id for connection in verdict.related),
        frames=tuple((message.file, message.frame) for message in messages),
        message=verdict.message,
        advice=verdict.advice or rule.advice,
        evidence=verdict.evidence,
        time=messages[-1].time if messages else event.time,
    )
