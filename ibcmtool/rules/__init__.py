"""The judges: rules over the tracker's events.

One module per family; each rule stands beside its texts, in the catalogue (catalogue.py). A rule is a function from
an event to verdicts: it sees the connection as it is at that moment and never changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

from ibcmtool.model import EVENT_KINDS, CmMessage, Event, Finding, InputInfo, Neighbour, Policy
from ibcmtool.rules import (
    alternate,
    budgets,
    comm_ids,
    completeness,
    cross,
    drep,
    dreq_qpns,
    envelope_fields,
    half_open,
    handshake,
    handshake_end,
    handshake_fields,
    handshake_late,
    handshake_rejects,
    handshake_repeats,
    implementations,
    integrity,
    loss,
    mra,
    neighbours,
    path_fields,
    peer_to_peer,
    qp_fields,
    quality,
    reject_message,
    response_times,
    retries,
    service_fields,
    sidr,
    slow_answers,
    stale,
    stale_refusals,
    starting_psns,
    timewait,
)
from ibcmtool.rules.catalogue import CATALOGUE, Placed, Rule, StepTest, Verdict
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.rules.settings import Settings
from ibcmtool.rules.view import View

__all__ = ["CATALOGUE", "Judge", "Rule"]

# Importing a family enters its rules into the catalogue, in this order.
FAMILIES = (
    stale,
    stale_refusals,
    half_open,
    timewait,
    comm_ids,
    dreq_qpns,
    handshake,
    handshake_fields,
    handshake_rejects,
    reject_message,
    handshake_late,
    handshake_repeats,
    handshake_end,
    peer_to_peer,
    retries,
    response_times,
    mra,
    drep,
    budgets,
    slow_answers,
    qp_fields,
    starting_psns,
    path_fields,
    envelope_fields,
    service_fields,
    alternate,
    sidr,
    cross,
    completeness,
    implementations,
    neighbours,
    integrity,
    quality,
    loss,
)


# Histories remembered for each kind of event, and their length: endless ones shall not fill the memory.
MOST_HISTORIES = 1024
LONGEST_HISTORY = 64


@dataclass(frozen=True, slots=True)
class Agenda:
    """What an event of some kind after some history calls for."""

    first_word: bool  # its message is the first of its sender in this connection
    always: tuple[Placed, ...]  # rules that are asked each time
    tests: tuple[tuple[StepTest, tuple[Placed, ...]], ...]  # and those that are asked if their test says so
    settings: Settings | None  # and those that go by the settings in the message


class Judge:
    """Shows each event to the rules that may have something to say, and makes findings of their verdicts.

    What a kind of event after some history means to the rules is found out once: nearly all connections of a capture
    share a handful of histories. An ordinary message then takes a look-up and the few tests that really must look.
    """

    def __init__(
        self, policy: Policy = "relaxed", coverage: Coverage | None = None, rules: Iterable[Rule] | None = None
    ) -> None:
        self.view = View(policy, coverage=coverage or Coverage())
        self._completeness = completeness.Completeness()
        self._by_kind: defaultdict[str, list[Placed]] = defaultdict(list)
        for place, rule in enumerate(CATALOGUE.values() if rules is None else rules):
            for kind in rule.on:
                self._by_kind[kind].append((place, rule))
        self._agendas: dict[str, dict[str, Agenda]] = {}  # by kind and history
        self._settings: dict[tuple[str, tuple[int, ...]], Settings] = {}  # by kind of message and places of rules

    def message(self, message: CmMessage) -> None:
        """A CM message, before its events; of each input in its order."""
        self._completeness.note(message)

    def neighbour(self, neighbour: Neighbour) -> None:
        """What the capture tells beside CM messages: who has an IP address."""
        self.view.learn(neighbour)

    def capture_end(self, inputs: Sequence[InputInfo], forgotten: int = 0) -> Iterator[Finding]:
        """What concerns the whole, when all is read. `forgotten`: connections that the tracker let go of early."""
        yield from quality.capture_findings(inputs, forgotten)
        yield from self._completeness.findings(inputs, self.view)

    def judge(self, event: Event) -> Sequence[Finding]:
        """The findings that this event brings to light, in the order of the catalogue."""
        if event.kind == "ENDED":
            self._completeness.ended(event.connection)
        kind, connection, step = event.kind, event.connection, event.step
        try:
            agenda = self._agendas[kind][connection.history]
        except KeyError:
            agenda = self._agenda(kind, connection.history)
        view, asked = self.view, agenda.always
        if step is None:
            if kind == "ENDED" and event.time - connection.opened > view.longest:
                view.longest = event.time - connection.opened
        else:
            if agenda.first_word:
                view.start = view.start or event.time
                view.hear(step.message)
            for when, rules in agenda.tests:
                if when(connection, step):
                    asked += rules
            if agenda.settings is not None:
                for placed in agenda.settings.call_for(step.message):
                    last_test = placed[1].when
                    if last_test is None or last_test(connection, step):
                        asked += (placed,)
        found: list[tuple[int, Finding]] | None = None
        for place, rule in asked:
            for verdict in rule.judge(event, view):
                if found is None:
                    found = []
                found.append((place, finding(rule, verdict, event)))
        if found is None:
            return ()
        found.sort(key=itemgetter(0))
        return [told for _, told in found]

    def _agenda(self, kind: str, history: str) -> Agenda:
        """Find out what such an event calls for, and remember it."""
        always: list[Placed] = []
        by_test: defaultdict[StepTest, list[Placed]] = defaultdict(list)
        by_settings: list[Placed] = []
        for placed in self._by_kind.get(kind, ()):
            rule = placed[1]
            if rule.history is not None and not rule.history(history):
                continue
            if kind in EVENT_KINDS or (rule.settings is None and rule.when is None):
                always.append(placed)
            elif rule.settings is not None:
                by_settings.append(placed)
            elif rule.when is not None:
                by_test[rule.when].append(placed)
        earlier = history[:-1]
        others = earlier.lower() if history[-1:].isupper() else earlier.upper()
        tests = tuple((when, tuple(asked)) for when, asked in by_test.items())
        settings = self._settings_of(kind, tuple(by_settings)) if by_settings else None
        agenda = Agenda(earlier == others, tuple(always), tests, settings)
        if len(history) <= LONGEST_HISTORY:
            known = self._agendas.setdefault(kind, {})
            if len(known) >= MOST_HISTORIES:
                known.clear()
            known[history] = agenda
        return agenda

    def _settings_of(self, kind: str, rules: tuple[Placed, ...]) -> Settings:
        """What these rules found out about the settings in such messages, after whatever history."""
        key = kind, tuple(place for place, _ in rules)
        if key not in self._settings:
            self._settings[key] = Settings(kind, rules)
        return self._settings[key]


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
