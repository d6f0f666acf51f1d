"""R04, R05: who let the other wait, by the times that both had agreed on in the REQ (IBA 12.6.6, 12.7).

A response is timed from the last send before it, as the capture saw both: in one input that is exact at the
responder's port and too long by the round trip at the requester's.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.timers import most_sends, response_wait
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import duration
from ibcmtool.model import PEER, Connection, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import answer_time, first, late, timed_out
from ibcmtool.rules.steps import DISORDER, between, gave_up, sender_of
from ibcmtool.values import Duration, Evidence

# What gives the answering side its time.
AT_ONCE: Final = 20  # an answer in such a part of the time allowed is to the message just before it
ALLOWANCES: Final[dict[Role, str]] = {
    "passive": "the Remote CM Response Timeout with its path",
    "active": "the Local CM Response Timeout",
}

R04 = rule(
    "R04",
    "passive-too-slow",
    "The passive side answered a REQ later than it may",
    severity="warning",
    clause="IBA 12.7 (Remote CM Response Timeout); a slower side owes an MRA (12.6.6)",
    explanation="The Remote CM Response Timeout of the REQ is what the active side expects of the passive one; two"
    " packet lives of the path come on top. A first REP, REJ or MRA later than that after the last REQ allowed is a"
    " warning; after an earlier one it is information, as the active side has sent it again since and the capture"
    " lacks that. If it is late only by the first REQ, the earlier ones may have been lost: information (Linux sends"
    " an MRA only for a repeated REQ, in 7.2 as before, so an MRA tells that the first did arrive). If the last one was"
    " answered at once, they or their answers were lost, and the finding says so.",
    false_positives="Captured at the active end, the round trip is counted in (two packet lives are granted). REQs"
    " lost behind the capture point, or repeated and not captured, look like slowness (never certain); REQs that"
    " another input shows not to have arrived do not count (C05). If the capture begins with the REQ,"
    " an MRA may have come before it (information only). Not reported when the requester had given up (H02).",
    advice="Look at the accepting consumer (slow accept, full backlog), or raise the requester's response timeout.",
)


@R04.on_step("REP", "REJ", "MRA", history=first, when=late)
def passive_too_slow(connection: Connection, step: Step, context: Context) -> Verdicts:
    if step.sender != "passive" or response_wait(connection.request, "active").assumed:
        return
    asked = _seen_as_far(context, _answered(connection, step, "REQ"))
    if not asked or (step.message.type == "REP" and gave_up(connection, step) is not None):
        return
    if context.covered(connection, asked[0].message.time, step.message.time):
        opened = connection.opened
        begins = opened - context.start <= DISORDER or not context.covered(connection, opened - DISORDER, opened)
        yield from _late(connection, step, asked, begins=begins)


R05 = rule(
    "R05",
    "active-too-slow",
    "The active side answered a REP later than it may",
    severity="warning",
    clause="IBA 12.7 (Local CM Response Timeout); a slower side owes an MRA (12.6.6)",
    explanation="The Local CM Response Timeout of the REQ is what the passive side may expect of the active one. A"
    " first RTU, REJ or MRA later than that after the last REP allowed is a warning; after an earlier one it is"
    " information, as the passive side has sent it again since and the capture lacks that. If it is late only by the"
    " first REP, the earlier ones may have been lost: information, and if the last one was answered at once, they were."
    " REPs that were followed by a repeated REQ, or that another input shows not to have arrived, do not count.",
    false_positives="Captured at the passive end, the round trip is counted in; Linux has no path time on this side."
    " REPs lost behind the capture point look like slowness (information where several were sent).",
    advice="Look at the connecting consumer between REP and RTU (QP set-up, blocked event loop), or at the path to it.",
)


def _slow_active(connection: Connection, step: Step) -> bool:
    """Whether this answer of the active side comes later, after the first message, than it may after a REP."""
    allowed = answer_time(connection, "active") if step.sender == "active" else None
    return allowed is not None and step.message.time - connection.opened > allowed


@R05.on_step("RTU", "REJ", "MRA", history=first, when=_slow_active, needs=("reply",))
def active_too_slow(connection: Connection, step: Step, context: Context) -> Verdicts:
    if timed_out(connection, step):
        return  # gave up: no REP had arrived that it could have answered
    asked = _seen_as_far(context, _answered(connection, step, "REP"))
    if asked and context.covered(connection, asked[0].message.time, step.message.time):
        yield from _late(connection, step, asked)


def _answered(connection: Connection, step: Step, question: str) -> list[Step]:
    """The sends of a message that `step` is the first answer of its side to; none if it answered before."""
    asked: list[Step] = []
    ahead: Step | None = None  # an answer that the capture may have before its question
    for earlier in connection.steps:
        if earlier is step:
            break
        if earlier.message.icrc_ok is False:
            continue  # its receiver dropped it
        if earlier.message.type == question:
            if ahead is not None and between(ahead, earlier) <= DISORDER:
                return []
            asked.append(earlier)
        elif earlier.message.type == "REQ":
            asked = []  # repeated, so no REP had arrived until then
        elif earlier.sender == step.sender and asked:
            return []
        elif earlier.sender == step.sender:
            ahead = earlier
    return asked


def _seen_as_far(context: Context, asked: list[Step]) -> list[Step]:
    """Those of some sends that got as far as the last: another one was lost where an input saw the last, but not it."""
    if not context.coverage.several or not asked:
        return asked
    places = context.coverage.places()

    def seen(step: Step) -> set[int]:
        return {places[step.message.file], *(places[one.file] for one in step.sightings)}

    def lost(step: Step) -> bool:
        time = step.message.time
        return any(context.coverage.place_covers(place, time, time) for place in seen(asked[-1]) - seen(step))

    return [step for step in asked if not lost(step)]


def _late(connection: Connection, step: Step, asked: list[Step], *, begins: bool = False) -> Verdicts:
    """The verdict on a first answer: late for certain, or late only if the first sends arrived.

    begins: the capture does, with the message that is answered.
    """
    kind, question, side = step.message.type, asked[0].message.type, sender_of(step)
    allowed, allowance = response_wait(connection.request, PEER[side]).nominal, ALLOWANCES[side]
    since_last, since_first = between(asked[-1], step), between(asked[0], step)
    evidence: Evidence = {
        "since_last": Duration(since_last),
        "since_first": Duration(since_first),
        "allowed": Duration(allowed),
        "sends": len(asked),
    }
    if since_last > allowed:
        # The asking side waits no longer than that and sends again, so the capture has missed a later one.
        missed = len(asked) < most_sends(connection.request)
        # One that answers none of several REPs may have got none of them; its answer was held up, or is to none.
        lost = question == "REP" and len(asked) > 1
        doubtful = begins or missed or lost
        yield Verdict(
            f"{kind} came {duration(since_last)} after the {'last ' if len(asked) > 1 else ''}{question};"
            f" {allowance} allows {duration(allowed)}."
            + (" The capture begins there: what came before is unknown." if begins else "")
            + (f" A repeated {question} in between is missing from the capture." if missed and not begins else "")
            + (" The REPs may have been lost, or the answer held up on its way." if lost else ""),
            evidence,
            (
                (weakened if begins or missed else unopposed)("complete"),
                *((weakened("received"),) if lost else ()),
                one_clock(asked[-1], step, otherwise="weakened"),
            ),
            steps=(asked[-1], step),
            severity="info" if doubtful else None,
        )
    elif since_first > allowed:
        at_once = kind != "MRA" and since_last * AT_ONCE <= allowed
        yield Verdict(
            f"First answer ({kind}) {duration(since_first)} after the first of {len(asked)} {question}s, "
            + (
                f"but {duration(since_last)} after the last: the earlier {question}s or their answers were lost, the"
                f" {side} side was not slow."
                if at_once
                else f"{duration(since_last)} after the last; {allowance} allows {duration(allowed)}: the {side} side"
                f" was slow, or earlier {question}s or their answers were lost."
            ),
            evidence,
            ((unopposed if kind == "MRA" else weakened)("received"),),
            steps=(asked[0], step),
            severity="info",
        )
