"""H12, H19: whether the receiver of a REJ can find the attempt that it ends, and whether it obeyed (IBA 12.6.7).

Linux (cm_acquire_rejected_id) finds the attempt of a refused REQ by the requester's own Communication ID alone. For
any other message the REJ's Local Communication ID must also be the one that it knows of the peer, and that is 0 until
the REP has come. A REJ with reason 4 is found by the CA GUID instead.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import OTHER_REJECTED, REP_REJECTED, REQ_REJECTED, TIMEOUT
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import comm_id, count, times
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, rejected
from ibcmtool.rules.steps import DISORDER, between, fields_of, how_much_later, of_type, until
from ibcmtool.values import CommId, Duration, known

UNDEFINED: Final = 3  # of Message Rejected
LOST_ON_PASSIVE: Final = " Linux drops it, for it looks for that REQ among its own that wait for a REP."

H12 = rule(
    "H12",
    "rej-message-inconsistent",
    "A REJ says that it rejects another message than it can",
    severity="warning",
    clause="IBA table of REJ (Message Rejected); Linux cm_acquire_rejected_id",
    explanation="Message Rejected tells whether a REQ (0), a REP (1) or no such message (2) is refused; 3 is"
    " undefined. The active side cannot refuse a REQ, which it sends itself, nor the passive side a REP. Nor is there"
    " anything but the REQ to refuse as long as no REP was sent. Linux finds the attempt of a REJ that is not about a"
    " REQ only if its Local Communication ID is the one that it knows of the peer: 0 until the REP came. Otherwise it"
    " drops the REJ and goes on repeating its REQ or REP; the finding says if that was seen.",
    false_positives="Reason 4 is exempt: its receiver goes by the CA GUID, and Linux puts 2 there, illumos what was"
    " not answered. A passive side that had sent a REP says 2 rightly. If a REP may be missing from the capture (the"
    " REJ has a Local Communication ID), only a requester that went on repeating its REQ makes this a possible"
    " finding: then either the field is wrong or the REP never came.",
    advice="Look at the CM or proxy that sent the REJ. A requester that goes on will end with a timeout instead of it.",
)


@H12.on_event("ENDED", history=rejected)
def rej_message_inconsistent(connection: Connection, event: Event, context: Context) -> Verdicts:
    for reject in of_type(connection, "REJ"):
        wrong = _wrong_message(connection, reject)
        if not wrong:
            continue
        fields = fields_of(reject, Rej)
        again = _repeated_after(connection, reject)
        gaps = [between(reject, step) for step in again]
        yield Verdict(
            f"REJ (reason {fields.reason}) of the {reject.sender} side has Message Rejected {fields.message_rejected},"
            f" {wrong}.{_dropped(connection, reject)}{_went_on(reject, gaps)}",
            {
                "message_rejected": fields.message_rejected,
                "reason": fields.reason,
                "local_comm_id": known(CommId, fields.local_comm_id),
                "repeated": len(again),
                "repeated_after": [Duration(gap) for gap in gaps],
            },
            (weakened("complete"),) if fields.message_rejected == OTHER_REJECTED and fields.local_comm_id else (),
            steps=(reject, *again),
        )
        return


def _wrong_message(connection: Connection, reject: Step) -> str:
    """Why the Message Rejected of this REJ cannot be right, as half a sentence; empty when it can."""
    fields = fields_of(reject, Rej)
    named = fields.message_rejected
    if connection.request is None or reject.sender == "unknown" or fields.reason in (TIMEOUT, None):
        return ""
    if named == UNDEFINED:
        return "which is undefined"
    if (named, reject.sender) in ((REQ_REJECTED, "active"), (REP_REJECTED, "passive")):
        return f"a {'REQ' if named == REQ_REJECTED else 'REP'}, a message that this side sends itself"
    if named != OTHER_REJECTED or reject.sender == "active" or _reply_before(connection, reject):
        return ""
    if fields.local_comm_id == 0:
        return "no message, but there was nothing except the REQ to reject"
    return "no message, but no REP was captured" if _repeated_after(connection, reject) else ""


def _reply_before(connection: Connection, reject: Step) -> bool:
    """Whether a REP came before this REJ, or an RTU shows that there was one."""
    return bool(until(of_type(connection, "REP", "RTU"), reject))


def _repeated_after(connection: Connection, reject: Step) -> list[Step]:
    """The repetitions of the REQ (of the REP, when the active side rejects) after a REJ that did not just cross it."""
    asked = of_type(connection, _question(reject))
    return [step for step in asked if step.retransmission_of is not None and between(reject, step) > DISORDER]


def _question(reject: Step) -> str:
    """What the receiver of a REJ sends again until it is answered."""
    return "REQ" if reject.sender == "passive" else "REP"


def _dropped(connection: Connection, reject: Step) -> str:
    """Why Linux does not find the attempt of this REJ, as a sentence; empty if it does."""
    fields = fields_of(reject, Rej)
    if reject.sender == "active":
        return LOST_ON_PASSIVE if fields.message_rejected == REQ_REJECTED else ""
    if fields.local_comm_id == 0 or _reply_before(connection, reject):
        return ""
    return f" Linux drops it for its Local Communication ID {comm_id(fields.local_comm_id)} while it waits for the REP."


def _went_on(reject: Step, gaps: list[int]) -> str:
    """How the receiver went on after the REJ, as a sentence; empty if it did not."""
    if not gaps:
        return ""
    return f" It was not obeyed: the {_question(reject)} came again {times(len(gaps))}, {how_much_later(gaps)}."


H19 = rule(
    "H19",
    "req-after-rej",
    "The REQ came again after it had been rejected",
    severity="info",
    clause="IBA 12.9.7.1 (a REJ ends the attempt); Linux sends a REJ once and answers a repeated REQ anew",
    explanation="A REJ ends the attempt, so the same REQ does not come again unless the REJ was lost or ignored. The"
    " receiver has forgotten the first and takes the repeated one for a new request: it is rejected again, or accepted"
    " if somebody listens now. A requester that never got the REP cannot match a REJ that refers to it; Linux drops"
    " that REJ and repeats its REQ.",
    false_positives="Within 50 ms of the REJ the two crossed: not reported. Copies of one packet are not counted. A"
    " REQ repeated after the requester's own REJ 10 (of a stale REP) is as it should be. For a REJ that names the"
    " wrong message see H12.",
    advice="Look for loss of CM packets from the passive to the active side if it takes long until the REJ is obeyed.",
)


@H19.on_event("ENDED", history=matches(r"[^j]*j.*\^Q.*"))
def req_after_rej(connection: Connection, event: Event, context: Context) -> Verdicts:
    rejects = of_type(connection, "REJ", sender="passive")
    reject = rejects[0]
    again = _repeated_after(connection, reject)
    if not again or _wrong_message(connection, reject):
        return
    fields = fields_of(reject, Rej)
    gaps = [between(reject, step) for step in again]
    unfindable = bool(fields.message_rejected) and _reply_before(connection, reject)
    yield Verdict(
        f"REQ sent again {times(len(again))} after the REJ (reason {fields.reason}), {how_much_later(gaps)}: "
        + (
            "the REP before it was lost, and without that Linux drops this REJ."
            if unfindable
            else "the REJ was lost on its way, or not obeyed."
        )
        + (f" {count(len(rejects), 'REJ')} captured in all." if len(rejects) > 1 else ""),
        {"repeated": len(again), "rejects": len(rejects), "reason": fields.reason, "first_after": Duration(gaps[0])},
        (unopposed("received"), one_clock(reject, again[0], otherwise="weakened")),
        steps=(reject, *again),
    )
