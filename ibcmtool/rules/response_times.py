"""R04, R05: who let the other wait, by the times that both had agreed on in the REQ (IBA 12.6.6, 12.7).

A response is timed from the last send before it, as the capture saw both: in one input that is exact at the
responder's port and too long by the round trip at the requester's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.formatting import duration
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import ANSWER_TIMES, first, late, slow
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, gave_up, one_capture


class _Answer(NamedTuple):
    """A first answer, and how long the asking side had to wait for it."""

    asked: list[Step]  # the sends of the message that it answers
    since_last: int
    since_first: int


def _first_answer(connection: Connection, step: Step, question: str) -> _Answer | None:
    """The timing of `step` as the first answer of its side to `question`; None if it answered before."""
    asked: list[Step] = []
    ahead: Step | None = None  # an answer that the capture may have before its question
    for earlier in connection.steps:
        if earlier is step:
            break
        if earlier.message.icrc_ok is False:
            continue  # its receiver dropped it
        if earlier.message.type == question:
            if ahead is not None and earlier.message.time - ahead.message.time <= DISORDER:
                return None
            asked.append(earlier)
        elif earlier.message.type == "REQ":
            asked = []  # repeated, so no REP had arrived until then
        elif earlier.sender == step.sender and asked:
            return None
        elif earlier.sender == step.sender:
            ahead = earlier
    if not asked:
        return None
    time = step.message.time
    return _Answer(asked, time - asked[-1].message.time, time - asked[0].message.time)


def _late(
    step: Step, answer: _Answer, allowed: int, retries: int | None, allowance: str, side: str, *, begins: bool = False
) -> Iterator[Verdict]:
    """The verdict on a first answer: late for certain, or late only if the first sends arrived."""
    kind, question = step.message.type, answer.asked[0].message.type
    evidence: dict[str, Any] = {
        "since_last_ns": answer.since_last,
        "since_first_ns": answer.since_first,
        "allowed_ns": allowed,
        "sends": len(answer.asked),
    }
    if answer.since_last > allowed:
        # The asking side waits no longer than that and sends again, so the capture has missed a later one.
        missed = len(answer.asked) <= (retries or 0)
        yield Verdict(
            f"{kind} came {duration(answer.since_last)} after the {'last ' if len(answer.asked) > 1 else ''}{question};"
            f" {allowance} allows {duration(allowed)}."
            + (" The capture begins there: what came before is unknown." if begins else "")
            + (f" A repeated {question} in between is missing from the capture." if missed and not begins else ""),
            (answer.asked[-1], step),
            evidence,
            confidence="probable" if one_capture(answer.asked[-1], step) and not (begins or missed) else "possible",
            severity="info" if begins or missed else None,
        )
    elif answer.since_first > allowed:
        yield Verdict(
            f"First answer ({kind}) {duration(answer.since_first)} after the first of {len(answer.asked)} {question}s;"
            f" {allowance} allows {duration(allowed)}: the {side} side was slow, or earlier {question}s were lost.",
            (answer.asked[0], step),
            evidence,
            confidence="probable" if kind == "MRA" else "possible",
            severity="info",
        )


def _slow_active(connection: Connection, step: Step) -> bool:
    """Whether this answer of the active side comes later, after the first message, than it may after a REP."""
    request = connection.request
    if request is None or step.sender != "active":
        return False
    allowed = request.local_cm_response_timeout
    return allowed is not None and step.message.time - connection.opened > ANSWER_TIMES[allowed]


@rule(
    "R04",
    "passive-too-slow",
    "The passive side answered a REQ later than it may",
    severity="warning",
    on=("REP", "REJ", "MRA"),
    history=first,
    when=slow,
    clause="IBA 12.7 (Remote CM Response Timeout); a slower side owes an MRA (12.6.6)",
    explanation=(
        "The Remote CM Response Timeout of the REQ is what the active side expects of the passive one; two packet lives"
        " of the path come on top. A first REP, REJ or MRA later than that after the last REQ allowed is a warning;"
        " after an earlier one it is information, as the active side has sent it again since and the capture lacks"
        " that. If it is late only by the first REQ, the earlier ones may have been lost: information (Linux sends an"
        " MRA only for a repeated REQ, so an MRA tells that the first did arrive)."
    ),
    false_positives=(
        "Captured at the active end, the round trip is counted in (two packet lives are granted). REQs lost behind the"
        " capture point, or repeated and not captured, look like slowness (never certain). If the capture begins with"
        " the REQ, an MRA may have come before it (information only). Silent when the requester had given up (H02)."
    ),
    advice="Look at the accepting consumer (slow accept, full backlog), or raise the requester's response timeout.",
)
def passive_too_slow(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender != "passive" or not late(connection, step):
        return
    wait = response_wait(connection.request, "active")
    if wait.assumed:
        return
    answer = _first_answer(connection, step, "REQ")
    if answer is None or (step.message.type == "REP" and gave_up(connection, step) is not None):
        return
    if not view.covered(connection, answer.asked[0].message.time, step.message.time):
        return
    opened = connection.opened
    begins = opened - view.start <= DISORDER or not view.covered(connection, opened - DISORDER, opened)
    retries = max_cm_retries(connection.request)
    yield from _late(
        step, answer, wait.nominal, retries, "the Remote CM Response Timeout with its path", "passive", begins=begins
    )


@rule(
    "R05",
    "active-too-slow",
    "The active side answered a REP later than it may",
    severity="warning",
    on=("RTU", "REJ", "MRA"),
    history=first,
    when=_slow_active,
    clause="IBA 12.7 (Local CM Response Timeout); a slower side owes an MRA (12.6.6)",
    explanation=(
        "The Local CM Response Timeout of the REQ is what the passive side may expect of the active one. A first RTU,"
        " REJ or MRA later than that after the last REP allowed is a warning; after an earlier one it is information,"
        " as the passive side has sent it again since and the capture lacks that. If it is late only by the first REP,"
        " the earlier ones may have been lost: information. REPs that were followed by a repeated REQ were lost and do"
        " not count."
    ),
    false_positives=(
        "Captured at the passive end, the round trip is counted in; Linux has no path time on this side. REPs lost"
        " behind the capture point look like slowness."
    ),
    advice="Look at the connecting consumer between REP and RTU (QP set-up, blocked event loop), or at the path to it.",
)
def active_too_slow(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.reply is None:
        return
    if step.message.type == "REJ" and step.message.fields.reason == TIMEOUT:
        return  # gave up: no REP had arrived that it could have answered
    wait = response_wait(connection.request, "passive")
    answer = _first_answer(connection, step, "REP")
    if answer is not None and view.covered(connection, answer.asked[0].message.time, step.message.time):
        retries = max_cm_retries(connection.request)
        yield from _late(step, answer, wait.nominal, retries, "the Local CM Response Timeout", "active")
