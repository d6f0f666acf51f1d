"""R: who let the other wait, by the times that both had agreed on in the REQ (IBA 12.6.6, 12.7).

A response is timed from the last send before it, as the capture saw both: in one input that is exact at the
responder's port and too long by the round trip at the requester's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ibcmtool.connections.lapses import SLACK
from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.history import DISORDER, before, gave_up, heard, of_type, one_capture, sends
from ibcmtool.rules.occasions import ANSWER_TIMES, TIMEOUT, first, late, with_mra
from ibcmtool.rules.view import View
from ibcmtool.words import duration, end_name

MRA_OF_REQ, MRA_OF_REP, MRA_OF_LAP = 0, 1, 2
QUESTIONS = {MRA_OF_REQ: "REQ", MRA_OF_REP: "REP", MRA_OF_LAP: "LAP"}
ANSWERS_LOST = 3  # so many in a row may be lost on the way
ASKED_AGAIN = " The other side asked again in between: an earlier answer may have been lost."
TOLD_KEPT = 4096  # connections that R07 has spoken of; far more than wait for a DREP at one time
# What answers the message that an MRA acknowledged.
ANSWERS = {MRA_OF_REQ: ("REP", "REJ"), MRA_OF_REP: ("RTU", "REJ"), MRA_OF_LAP: ("APR", "REJ")}


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
    when=late,
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
def passive_too_slow(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender != "passive":
        return
    wait = response_wait(connection.request, "active")
    if wait.assumed:
        return
    answer = _first_answer(connection, step, "REQ")
    if answer is None or (step.message.type == "REP" and gave_up(connection, step) is not None):
        return
    begins = connection.opened - view.start <= DISORDER
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
def active_too_slow(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.reply is None:
        return
    if step.message.type == "REJ" and step.message.fields.reason == TIMEOUT:
        return  # gave up: no REP had arrived that it could have answered
    wait = response_wait(connection.request, "passive")
    answer = _first_answer(connection, step, "REP")
    if answer is not None:
        retries = max_cm_retries(connection.request)
        yield from _late(step, answer, wait.nominal, retries, "the Local CM Response Timeout", "active")


@rule(
    "R06",
    "mra-promise-broken",
    "An MRA promised an answer that came too late or never",
    severity="warning",
    on=("REP", "REJ", "RTU", "APR", "ENDED"),
    history=with_mra,
    clause="IBA 12.6.6 (Service Timeout)",
    explanation=(
        "The sender of an MRA promises its answer (REP or REJ; RTU or REJ; APR) within the Service Timeout. Later, the"
        " other side may have given up. The last MRA for a message counts."
    ),
    false_positives=(
        "Silent when the other side ended the attempt first, or when the capture ends before the promise is due. An"
        " answer that the capture dropped looks like none (then probable). Information where the other side repeated"
        " its message up to three times after the MRA, as answers to it may have been lost; and where it should have"
        " repeated it, but did not."
    ),
    advice="Look at the consumer that asked for time: it hangs, or needs a longer Service Timeout.",
)
def mra_promise_broken(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is not None:
        if step.retransmission_of is None and step.sender != "unknown":
            yield from _late_promise(connection, step, step.sender)
        return
    for role in PEER:
        yield from _forgotten_promise(event, connection, role)


def _late_promise(connection: Connection, step: Step, role: Role) -> Iterator[Verdict]:
    mra = _newest_mra(connection, step)
    if mra is None:
        return
    fields = mra.message.fields
    if fields.service_timeout is None or step.message.type not in ANSWERS.get(fields.message_mraed, ()):
        return
    gap, promised = step.message.time - mra.message.time, exponent(fields.service_timeout)
    if gap <= promised:
        return
    asked_again = 1 <= _asked_again(connection, mra, role) <= ANSWERS_LOST
    yield Verdict(
        f"{step.message.type} came {duration(gap)} after the MRA that promised it within {duration(promised)}."
        + (ASKED_AGAIN if asked_again else ""),
        (mra, step),
        {"gap_ns": gap, "service_timeout": fields.service_timeout, "promised_ns": promised},
        confidence="possible" if asked_again else "certain" if one_capture(mra, step) else "probable",
        severity="info" if asked_again else None,
    )


def _asked_again(connection: Connection, mra: Step, role: Role) -> int:
    """How often the side that got this MRA has sent anything after it: its message again, for want of the answer."""
    return sum(step.sender == PEER[role] for step in connection.steps if step.message.time > mra.message.time)


def _newest_mra(connection: Connection, step: Step) -> Step | None:
    """The MRA of the same side whose promise `step` keeps; None if it was answered already."""
    for earlier in before(connection, step):
        if earlier.sender == step.sender:
            return earlier if earlier.message.type == "MRA" else None
    return None


def _forgotten_promise(event: Event, connection: Connection, role: Role) -> Iterator[Verdict]:
    """An MRA that nothing followed from either side, although the capture goes on beyond its promise."""
    mras = of_type(connection, "MRA", sender=role)
    if not mras:
        return
    mra = mras[-1]
    fields = mra.message.fields
    if fields.service_timeout is None:
        return
    promised = exponent(fields.service_timeout)
    due = mra.message.time + promised
    for step in connection.steps:
        if step.message.time <= mra.message.time:
            continue
        if step.sender == role and step.message.type != "MRA":
            return  # answered, in time or not: told when it came
        if step.sender == PEER[role] and step.message.type in ("REJ", "DREQ", "DREP") and step.message.time <= due:
            return  # the other side ended it first
    if event.time <= due or role in connection.first_data:
        return
    doubt = _doubt(event, connection, mra, role, due)
    yield Verdict(
        f"The {role} side's MRA promised an answer within {duration(promised)}; none was captured in the"
        f" {duration(event.time - mra.message.time)} that followed.{doubt}",
        (mra,),
        {
            "service_timeout": fields.service_timeout,
            "promised_ns": promised,
            "waited_ns": event.time - mra.message.time,
        },
        confidence="possible" if doubt else "probable",
        severity="info" if doubt else None,
    )


def _doubt(event: Event, connection: Connection, mra: Step, role: Role, due: int) -> str:
    """Why the answer that is missing may have been given all the same; empty if that is unlikely."""
    asked_again = _asked_again(connection, mra, role)
    if asked_again:
        return ASKED_AGAIN if asked_again <= ANSWERS_LOST else ""
    question = QUESTIONS.get(mra.message.fields.message_mraed, "")
    sends, retries = len(of_type(connection, question, sender=PEER[role])), max_cm_retries(connection.request)
    wait = response_wait(connection.request, PEER[role]).nominal
    if sends > (retries or 0) or event.time <= due + wait + wait // SLACK:
        return ""
    return f" Nor was the {question} sent again: its sender ended, or the capture lacks messages."


@rule(
    "R07",
    "drep-missing",
    "A DREQ got no DREP",
    severity="warning",
    on=("DREQ_LAPSED", "DREQ_EXHAUSTED"),
    clause="IBA 12.9.7 (DREQ sent: to TimeWait when the retries are used up); Linux cm_process_send_error",
    explanation=(
        "A DREQ is repeated until its DREP comes. Without one, the sender waits through every retry (73 s with upstream"
        " RoCE defaults, minutes with OFED's) before its timewait begins, and the other side may hold the connection"
        " still. Warning when every send allowed was captured, information when the sender stopped earlier. A DREQ sent"
        " exactly once is told by S12."
    ),
    false_positives=(
        "If nothing was captured from the other side's address, its direction is probably missing (possible only); a"
        " DREP lost before the capture point looks like none. Linux ignores a DREQ whose Remote QPN is wrong (T05)."
    ),
    advice=(
        "See whether the peer is alive. If it is, it dropped or never got the DREQ: its end of the connection stays"
        " open until it notices, and a REQ that reuses the QPN will be refused as stale."
    ),
)
def drep_missing(event: Event, view: View) -> Iterator[Verdict]:
    connection, told = event.connection, view.memory["R07"]
    role = event.role or "active"
    dreqs = of_type(connection, "DREQ", sender=role)
    if not dreqs:
        return
    tries = sends(connection, dreqs[-1])
    retries = max_cm_retries(connection.request)
    exhausted = retries is not None and len(tries) > retries
    if exhausted != (event.kind == "DREQ_EXHAUSTED") or (len(tries) == 1 and retries != 0):
        return
    if not exhausted:
        if connection.id in told or tries[-1].message.time > event.time:
            return  # sent again after all: not the end yet
        told[connection.id] = True  # the newest last
        while len(told) > TOLD_KEPT:
            del told[next(iter(told))]
    span = tries[-1].message.time - tries[0].message.time
    peer = connection.peer(role)
    known = heard(view, connection, PEER[role])
    sent = f"{len(tries)} of {retries + 1}" if retries is not None else f"{len(tries)}"
    yield Verdict(
        f"{sent} sends of the {role} side's DREQ over {duration(span)}, and no DREP from {end_name(peer)} was captured."
        + ("" if known else " Nothing of that address was: perhaps only one direction is captured."),
        (tries[0], tries[-1]) if len(tries) > 1 else (tries[0],),
        {"sends": len(tries), "allowed": None if retries is None else retries + 1, "span_ns": span},
        confidence="certain" if known and exhausted else "probable" if known else "possible",
        severity="warning" if exhausted and known else "info",
    )
