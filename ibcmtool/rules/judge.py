"""The judge: feeds the facts, shows each event to the rules that may have something to say, makes findings of verdicts.

What a kind of event after some history means to the rules is found out once: nearly all connections of a capture share
a handful of histories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from ibcmtool.analysis import Finding, InputInfo, Policy
from ibcmtool.connections.traces import Traces
from ibcmtool.evidence import Ground, confidence, refuted
from ibcmtool.model import EVENT_KINDS, Connection, Event, Step
from ibcmtool.packets import Neighbour, Undelivered
from ibcmtool.rules import api
from ibcmtool.rules.api import CATALOGUE, FAMILIES, Conditions, Context, Rule, Verdict, Verdicts
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.rules.timeless import DEADLINES, rests_on_time

# Histories remembered for each kind of event, and their length: endless ones shall not fill the memory.
MOST_HISTORIES = 1024
LONGEST_HISTORY: Final = 64
MOST_SUBJECTS = 4096  # that a rule remembers having spoken of, the newest

_NO_MESSAGE: Final = frozenset(EVENT_KINDS)


class Asked(NamedTuple):
    """A rule's function that may have something to say of a message, and its place among all."""

    place: int
    rule: Rule
    judge: api.StepJudge
    conditions: Conditions


class Plan(NamedTuple):
    """What a message of some type after some history calls for."""

    word: bool  # it is the first message of its sender in this connection
    always: Sequence[Asked]
    tests: Sequence[tuple[api.StepTest, Sequence[Asked]]]  # those of rules that share a test, which is asked once


OfEvent = tuple[Rule, api.EventJudge, Conditions]
P = TypeVar("P")


class Judge:
    """Feed it, in the order of the merged inputs, the events that the tracker makes of messages."""

    def __init__(
        self,
        policy: Policy = "relaxed",
        coverage: Coverage | None = None,
        rules: Iterable[Rule] | None = None,
        traces: Traces | None = None,
        *,
        timeless: bool = False,
    ) -> None:
        """rules: those that are asked (None: all). timeless: times are not real, so none of those that rest on them."""
        self.context = Context(policy, coverage, traces)
        self._steps: defaultdict[str, list[Asked]] = defaultdict(list)  # by message type
        self._events: defaultdict[str, list[OfEvent]] = defaultdict(list)  # by kind
        self._ends: list[tuple[Rule, api.EndJudge]] = []
        catalogue = CATALOGUE.values() if rules is None else rules
        if timeless:
            catalogue = [rule for rule in catalogue if not rests_on_time(rule)]
        for rule in sorted(catalogue, key=lambda rule: (FAMILIES.index(rule.code[0]), rule.code)):
            for kind, of_step, conditions in rule.steps:
                self._steps[kind].append(Asked(len(self._steps[kind]), rule, of_step, conditions))
            for kind, of_event, conditions in rule.events:
                if not (timeless and kind in DEADLINES):
                    self._events[kind].append((rule, of_event, conditions))
            self._ends += [(rule, judge) for judge in rule.ends]
        self._plans: dict[str, dict[str, Plan]] = {}  # by message type and history
        self._event_plans: dict[str, dict[str, list[OfEvent]]] = {}  # by kind and history
        self._subjects: defaultdict[str, dict[Hashable, None]] = defaultdict(dict)  # by code

    def neighbour(self, neighbour: Neighbour) -> None:
        """What the capture tells beside CM messages: who has an IP address."""
        self.context.neighbour(neighbour)

    def undelivered(self, undelivered: Undelivered) -> None:
        """A packet that did not get to its port, as ICMP says."""
        self.context.undelivered.note(undelivered)

    def judge(self, event: Event) -> Sequence[Finding]:
        """The findings that this event brings to light, in the order of families and codes."""
        kind, connection, step = event.kind, event.connection, event.step
        if kind in _NO_MESSAGE or step is None:
            if kind == "ENDED":
                self.context.ended(event)
            elif kind == "STALE_DUTY":
                self.context.refusals.note(event)
            elif kind == "SIGHTING" and step is not None:
                self.context.sighting(step)
            return self._judge_event(event) if kind in self._events else ()
        try:
            plan = self._plans[kind][connection.history]
        except KeyError:
            plan = self._plan(kind, connection.history)
        shown = self.context.step(connection, step, word=plan.word)
        asked = plan.always
        for test, others in plan.tests:
            if test(connection, step):
                asked = sorted([*asked, *others], key=itemgetter(0))
        found: list[Finding] = []
        for _, rule, judge, conditions in asked:
            if not conditions.needs or _met(conditions.needs, connection, step):
                verdicts = judge(connection, step, self.context)
                if verdicts:
                    found += self._findings(rule, conditions, verdicts, event)
        for sign in shown:
            if sign in self._events:
                found += self._judge_event(Event(sign, event.time, connection, step))
        return found

    def capture_end(self, inputs: Sequence[InputInfo], forgotten: int = 0) -> Iterator[Finding]:
        """What concerns the whole, when all is read. `forgotten`: connections that the tracker let go of early."""
        end = api.CaptureEnd(inputs, forgotten)
        for rule, judge in self._ends:
            for verdict in judge(end, self.context):
                yield finding(rule, verdict)

    def _judge_event(self, event: Event) -> list[Finding]:
        kind, connection = event.kind, event.connection
        try:
            asked = self._event_plans[kind][connection.history]
        except KeyError:
            asked = self._event_plan(kind, connection.history)
        found: list[Finding] = []
        for rule, judge, conditions in asked:
            if not conditions.needs or _met(conditions.needs, connection, event.step):
                verdicts = judge(connection, event, self.context)
                if verdicts:
                    found += self._findings(rule, conditions, verdicts, event)
        return found

    def _findings(self, rule: Rule, conditions: Conditions, verdicts: Verdicts, event: Event) -> Iterator[Finding]:
        for verdict in verdicts:
            grounds = list(verdict.rests_on)
            if rule.rests_on:
                connections = (event.connection, *verdict.related)
                if not self.context.traces.in_one_stretch(step for one in connections for step in one.steps):
                    continue  # nothing is known of what lies between
                if "complete" in rule.rests_on:
                    grounds += self.context.witness.gaps(connections, event.time)
            if refuted(grounds):
                continue
            if conditions.once is None or self._is_new(rule, conditions.once, verdict, event):
                yield finding(rule, verdict, event, grounds)

    def _plan(self, kind: str, history: str) -> Plan:
        """Find out what such a message calls for, and remember it."""
        earlier = history[:-1]
        others = earlier.lower() if history[-1:].isupper() else earlier.upper()
        always: list[Asked] = []
        tests: dict[api.StepTest, list[Asked]] = {}
        for asked in self._steps.get(kind, ()):
            history_test, when = asked.conditions.history, asked.conditions.when
            if history_test is None or history_test(history):
                (always if when is None else tests.setdefault(when, [])).append(asked)
        return _kept(self._plans, kind, history, Plan(earlier == others, always, list(tests.items())))

    def _event_plan(self, kind: str, history: str) -> list[OfEvent]:
        """The same for an event that no message carries."""
        asked = [one for one in self._events[kind] if one[2].history is None or one[2].history(history)]
        return _kept(self._event_plans, kind, history, asked)

    def _is_new(self, rule: Rule, once: api.Once, verdict: Verdict, event: Event) -> bool:
        """Whether the rule has not spoken of this subject yet; from now on it has."""
        subject: Hashable = None
        if once == "port":
            subject = _steps(verdict, event)[-1].message.source
        elif once == "connection":
            subject = event.connection.id
        elif once == "subject":
            subject = verdict.subject
        known = self._subjects[rule.code]
        if subject in known:
            return False
        known[subject] = None
        if len(known) > MOST_SUBJECTS:
            del known[next(iter(known))]
        return True


def _kept(plans: dict[str, dict[str, P]], kind: str, history: str, plan: P) -> P:
    """Remember a plan for a kind of event after some history."""
    if len(history) <= LONGEST_HISTORY:
        known = plans.setdefault(kind, {})
        if len(known) >= MOST_HISTORIES:
            known.clear()
        known[history] = plan
    return plan


def _met(needs: Sequence[api.Need], connection: Connection, step: Step | None) -> bool:
    """Whether all is known that a rule needs."""
    for need in needs:
        if need == "request":
            known = connection.request is not None
        elif need == "reply":
            known = connection.reply is not None
        elif need == "sender":
            known = step is not None and step.sender != "unknown"
        else:
            known = step is not None and step.message.icrc_ok is not False
        if not known:
            return False
    return True


def _steps(verdict: Verdict, event: Event | None) -> Sequence[Step]:
    """The messages that a verdict speaks of."""
    if verdict.steps is not None:
        return verdict.steps
    return () if event is None or event.step is None else (event.step,)


def finding(
    rule: Rule, verdict: Verdict, event: Event | None = None, grounds: Sequence[Ground] | None = None
) -> Finding:
    """The record for the reports: the rule's texts around the verdict's sentence and numbers.

    What is only possible accuses nobody: it is information, and says what makes it doubtful.
    """
    grounds = verdict.rests_on if grounds is None else grounds
    sure = confidence(grounds)
    signs = dict.fromkeys(ground.sign for ground in grounds if ground.strength == "weakened" and ground.sign)
    messages = [step.message for step in _steps(verdict, event)]
    time = verdict.time
    if time is None and messages:
        time = messages[-1].time
    elif time is None and event is not None:
        time = event.time
    return Finding(
        code=rule.code,
        name=rule.name,
        severity="info" if sure == "possible" else verdict.severity or rule.severity,
        confidence=sure,
        policy=verdict.policy,
        connection=None if event is None else event.connection.id,
        related=tuple(other.id for other in verdict.related),
        frames=tuple((message.file, message.frame) for message in messages) or tuple(verdict.frames),
        message=f"{verdict.message} Only possible: {'; '.join(signs)}." if signs else verdict.message,
        advice=verdict.advice or rule.advice,
        evidence=verdict.evidence,
        time=time,
    )
