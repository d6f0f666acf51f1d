"""What a rule is, what it says, and the one catalogue of all rules.

`explain`, docs/rules.md, the reports and the judge all read CATALOGUE; nothing else says what a code means. A code,
once released, keeps its meaning. The families follow the letters: S stale connections, T timewait and reuse, H
handshake order and matching, R retries and timing, F fields, L alternate paths, I SIDR, X across connections, C quality
of the capture.

    S01 = rule("S01", "stale-req-accepted", "A REQ with the QPN of a connected QP was accepted", severity="error", ...)

    @S01.on_step("REP", history=first, when=entangled)
    def stale_req_accepted(connection: Connection, step: Step, context: Context) -> Verdicts:
        ...

A rule may have several such functions. None of them changes what it is given, and none depends on another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ibcmtool.analysis import InputInfo, Severity
from ibcmtool.evidence import Assumption, Ground
from ibcmtool.model import EVENT_KINDS, Connection, Event, Step
from ibcmtool.rules.context import Context as Context
from ibcmtool.values import Evidence

PolicyScope = Literal["both", "strict", "relaxed"]
Need = Literal[
    "request",  # the REQ's fields were captured
    "reply",  # the REP's were
    "sender",  # it is known which end sent the message
    "intact",  # its ICRC is not wrong: its receiver has read it
]
Once = Literal["port", "connection", "capture", "subject"]  # for each sender, or connection, or Verdict.subject


class Verdict(NamedTuple):
    """What one rule says of what it was shown. The judge makes the Finding from it and from the rule's own texts."""

    message: str  # one or two sentences with the numbers in them
    evidence: Evidence  # the numbers that it was computed from
    rests_on: Sequence[Ground] = ()  # the confidence follows from it; nothing: certain, as the frames say it
    severity: Severity | None = None  # None: the rule's own
    steps: Sequence[Step] | None = None  # the messages it speaks of, for their frames; None: that of the event
    related: Sequence[Connection] = ()
    advice: str | None = None  # None: the rule's own
    policy: PolicyScope = "both"
    frames: Sequence[tuple[int, int]] = ()  # (file, frame), where it speaks of no steps
    time: int | None = None  # None: that of the last step, or of the event
    subject: Hashable = None  # what a rule with once="subject" speaks of


Verdicts = Iterable[Verdict]  # what a rule's function gives: none, one or several


class CaptureEnd(NamedTuple):
    """All inputs were read."""

    inputs: Sequence[InputInfo]
    forgotten: int  # connections that the tracker let go of before their time


StepJudge = Callable[[Connection, Step, Context], Verdicts]
EventJudge = Callable[[Connection, Event, Context], Verdicts]
EndJudge = Callable[[CaptureEnd, Context], Verdicts]
HistoryTest = Callable[[str], bool]  # of the connection's history, which ends with the message
StepTest = Callable[[Connection, Step], object]  # whether there is something to look at, or what


class Conditions(NamedTuple):
    """What has to hold for a rule's function to be asked, and for what it says to count."""

    history: HistoryTest | None
    needs: Sequence[Need]
    once: Once | None
    when: StepTest | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule: its texts, and its functions by what they want to see."""

    code: str
    name: str  # kebab-case, stable like the code
    title: str  # one line, what was seen
    severity: Severity  # the usual one; a verdict may differ, the explanation says when
    clause: str  # spec clause or kernel behaviour that it rests on
    explanation: str
    false_positives: str  # what can make it wrong, and how it guards itself
    advice: str  # what to do next
    rests_on: Sequence[Assumption]  # what all its verdicts rest on, beside what each of them names
    steps: list[tuple[str, StepJudge, Conditions]] = field(default_factory=list)  # by message type
    events: list[tuple[str, EventJudge, Conditions]] = field(default_factory=list)  # by kind
    ends: list[EndJudge] = field(default_factory=list)

    def on_step(
        self,
        *types: str,
        history: HistoryTest | None = None,
        when: StepTest | None = None,
        needs: Sequence[Need] = (),
        once: Once | None = None,
    ) -> Callable[[StepJudge], StepJudge]:
        """Ask the decorated function at messages of these types that became a step of a connection."""

        def enter(judge: StepJudge) -> StepJudge:
            self.steps.extend((kind, judge, Conditions(history, needs, once, when)) for kind in types)
            return judge

        return enter

    def on_event(
        self, *kinds: str, history: HistoryTest | None = None, needs: Sequence[Need] = (), once: Once | None = None
    ) -> Callable[[EventJudge], EventJudge]:
        """Ask it at events of these kinds (model.EVENT_KINDS)."""
        unknown = set(kinds) - set(EVENT_KINDS)
        if unknown:
            raise ValueError(f"{self.code}: no such events: {', '.join(sorted(unknown))}")

        def enter(judge: EventJudge) -> EventJudge:
            self.events.extend((kind, judge, Conditions(history, needs, once)) for kind in kinds)
            return judge

        return enter

    def on_capture_end(self, judge: EndJudge) -> EndJudge:
        """Ask it when all inputs were read."""
        self.ends.append(judge)
        return judge


FAMILIES: Final = "STHRFLIXC"  # findings of one event come in this order, and in that of their codes
OF_EVENTS: Final = "STHRIXL"  # families about what happened, not about what a message or a capture says
CATALOGUE: Final[dict[str, Rule]] = {}


def rule(
    code: str,
    name: str,
    title: str,
    *,
    severity: Severity,
    clause: str,
    explanation: str,
    false_positives: str,
    advice: str,
    rests_on: Sequence[Assumption] | None = None,
) -> Rule:
    """Enter a rule into the catalogue. rests_on: None for the usual: no message of the connection is missing."""
    if code in CATALOGUE:
        raise ValueError(f"two rules with code {code}")
    usual: Sequence[Assumption] = ("complete",) if code[0] in OF_EVENTS else ()
    texts = (explanation, false_positives, advice)
    entry = CATALOGUE[code] = Rule(
        code, name, title, severity, clause, *texts, rests_on=usual if rests_on is None else rests_on
    )
    return entry
