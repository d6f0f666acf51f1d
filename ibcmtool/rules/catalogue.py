"""What a rule is, and the one catalogue of all rules.

`explain`, docs/rules.md, the reports and the judge all read CATALOGUE; nothing else says what a code means.
A code, once released, keeps its meaning. The families follow the letters: S stale connections, T timewait and reuse,
H handshake order and matching, R retries and timing, X across connections, C quality of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ibcmtool.model import CmMessage, Confidence, Connection, Event, Policy, Severity, Step
from ibcmtool.rules.view import View

PolicyScope = Literal["both", "strict", "relaxed"]


class Verdict(NamedTuple):
    """What one rule says of one event. The judge makes the Finding from it and from the rule's own texts."""

    message: str  # one or two sentences with the numbers in them
    steps: tuple[Step, ...]  # the messages it speaks of; their frames become the finding's frames
    evidence: dict[str, Any]  # the numbers that it was computed from (ns under keys that end in _ns)
    confidence: Confidence = "certain"
    severity: Severity | None = None  # None: the rule's own
    connection: Connection | None = None  # None: the event's
    related: tuple[Connection, ...] = ()
    advice: str | None = None  # None: the rule's own
    policy: PolicyScope = "both"


# Mostly a generator. One that is asked at ordinary messages is a plain function that returns () for nothing: making a
# generator takes longer than such a look.
RuleFunction = Callable[[Event, View], Iterable[Verdict]]
HistoryTest = Callable[[str], bool]
StepTest = Callable[[Connection, Step], bool]
SettingsTest = Callable[[CmMessage], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its texts, and the events that it wants to see (occasions.py)."""

    code: str
    name: str  # kebab-case, stable like the code
    title: str  # one line, what was seen
    severity: Severity  # the usual one; a verdict may differ, the explanation says when
    on: tuple[str, ...]  # message types and EVENT_KINDS
    clause: str  # spec clause or kernel behaviour that it rests on
    explanation: str
    false_positives: str  # what can make it wrong, and how it guards itself
    advice: str  # what to do next
    judge: RuleFunction
    history: HistoryTest | None  # None: whatever came before
    when: StepTest | None  # of messages; None: always
    settings: SettingsTest | None  # of messages; None: whatever they are


Placed = tuple[int, Rule]  # a rule with its place in the catalogue
CATALOGUE: dict[str, Rule] = {}


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
    history: HistoryTest | None = None,
    when: StepTest | None = None,
    settings: SettingsTest | None = None,
) -> Callable[[RuleFunction], RuleFunction]:
    """Enter a rule into the catalogue; the decorated function judges one event and gives a Verdict per breach.

    It is asked at events of a kind in `on` if its tests say so: `history` of the connection's history, which ends with
    the event's message; of messages also `settings`, of the message's settings and nothing else (settings.py), and
    `when`, of the connection and the step.
    """

    def enter(judge: RuleFunction) -> RuleFunction:
        if code in CATALOGUE:
            raise ValueError(f"two rules with code {code}")
        CATALOGUE[code] = Rule(
            code,
            name,
            title,
            severity,
            on,
            clause,
            explanation,
            false_positives,
            advice,
            judge,
            history,
            when,
            settings,
        )
        return judge

    return enter


def severity_under(policy: Policy, strict: Severity, relaxed: Severity) -> Severity:
    """The severity of a finding on which the two readings of the specification differ."""
    return strict if policy == "strict" else relaxed
