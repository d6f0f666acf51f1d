"""Until every rule is written anew: the old way to enter a rule, on top of rules/api.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ibcmtool.evidence import Ground, unopposed, weakened
from ibcmtool.model import EVENT_KINDS, CmMessage, Confidence, Connection, Event, Severity, Step
from ibcmtool.rules import api
from ibcmtool.rules.api import CATALOGUE as CATALOGUE
from ibcmtool.rules.api import severity_under as severity_under
from ibcmtool.rules.context import Context


class Verdict(NamedTuple):
    message: str
    steps: tuple[Step, ...]
    evidence: dict[str, Any]
    confidence: Confidence = "certain"
    severity: Severity | None = None
    connection: Connection | None = None
    related: tuple[Connection, ...] = ()
    advice: str | None = None
    policy: api.PolicyScope = "both"


RuleFunction = Callable[[Event, Context], Iterable[Verdict]]
StepTest = Callable[[Connection, Step], bool]
GROUNDS: dict[Confidence, tuple[Ground, ...]] = {
    "certain": (),
    "probable": (unopposed("complete"),),
    "possible": (weakened("complete"),),
}


def rule(
    code: str,
    name: str,
    title: str,
    *,
    severity: Severity,
    on: tuple[str, ...],
    clause: str,
    explanation: str,
    false_positives: str,
    advice: str,
    history: Callable[[str], bool] | None = None,
    when: StepTest | None = None,
    settings: Callable[[CmMessage], bool] | None = None,
) -> Callable[[RuleFunction], RuleFunction]:
    entry = api.rule(
        code,
        name,
        title,
        severity=severity,
        clause=clause,
        explanation=explanation,
        false_positives=false_positives,
        advice=advice,
    )

    def enter(judge: RuleFunction) -> RuleFunction:
        def event(event: Event, context: Context) -> Iterable[api.Verdict]:
            for verdict in judge(event, context):
                yield api.Verdict(
                    verdict.message,
                    verdict.steps,
                    verdict.evidence,
                    GROUNDS[verdict.confidence],
                    verdict.severity,
                    verdict.connection,
                    verdict.related,
                    verdict.advice,
                    verdict.policy,
                )

        def stepped(connection: Connection, step: Step, context: Context) -> Iterable[api.Verdict]:
            return event(Event(step.message.type, step.message.time, connection, step), context)

        def condition(connection: Connection, step: Step) -> bool:
            if settings is not None and not settings(step.message):
                return False
            return when is None or when(connection, step)

        kinds = [kind for kind in on if kind in EVENT_KINDS]
        types = [kind for kind in on if kind not in EVENT_KINDS]
        entry.on_event(*kinds, history=history)(event)
        entry.on_step(*types, history=history, when=condition)(stepped)
        return judge

    return enter
