"""H12: what a REJ says that it rejects, and whether its receiver can find the attempt by that (IBA 12.6.7).

Linux (cm_acquire_rejected_id) finds the attempt of a refused REQ by the requester's own Communication ID alone. For
any other message the REJ's Local Communication ID must also be the one that it knows of the peer, and that is 0 until
the REP has come. A REJ with reason 4 is found by the CA GUID instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.formatting import comm_id, duration, times
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import rejected
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, of_type

REQ_REJECTED, REP_REJECTED, OTHER_REJECTED, UNDEFINED = 0, 1, 2, 3  # Message Rejected
LOST_ON_PASSIVE = " Linux drops it, for it looks for that REQ among its own that wait for a REP."


@rule(
    "H12",
    "rej-message-inconsistent",
    "A REJ says that it rejects another message than it can",
    severity="warning",
    on=("ENDED",),
    history=rejected,
    clause="IBA table of REJ (Message Rejected); Linux cm_acquire_rejected_id",
    explanation=(
        "Message Rejected tells whether a REQ (0), a REP (1) or no such message (2) is refused; 3 is undefined. The"
        " active side cannot refuse a REQ, which it sends itself, nor the passive side a REP. Nor is there anything but"
        " the REQ to refuse as long as no REP was sent. Linux finds the attempt of a REJ that is not about a REQ only"
        " if its Local Communication ID is the one that it knows of the peer: 0 until the REP came. Otherwise it drops"
        " the REJ and goes on repeating its REQ or REP; the finding says if that was seen."
    ),
    false_positives=(
        "Reason 4 is exempt: its receiver goes by the CA GUID, and Linux puts 2 there, illumos what was not answered. A"
        " passive side that had sent a REP says 2 rightly. If a REP may be missing from the capture (the REJ has a"
        " Local Communication ID), only a requester that went on repeating its REQ makes this a possible finding: then"
        " either the field is wrong or the REP never came."
    ),
    advice="Look at the CM or proxy that sent the REJ. A requester that goes on will end with a timeout instead of it.",
)
def rej_message_inconsistent(event: Event, view: Context) -> Iterable[Verdict]:
    connection = event.connection
    for step in connection.steps:
        if step.message.type == "REJ" and wrong_message(connection, step):
            return (_inconsistent(connection, step),)
    return ()


def wrong_message(connection: Connection, reject: Step) -> str:
    """Why the Message Rejected of this REJ cannot be right, as half a sentence; empty when it can."""
    fields = reject.message.fields
    named = fields.message_rejected
    if connection.request is None or reject.sender == "unknown" or fields.reason in (TIMEOUT, None):
        return ""
    if named == UNDEFINED:
        return "which is undefined"
    if (named, reject.sender) in ((REQ_REJECTED, "active"), (REP_REJECTED, "passive")):
        return f"a {'REQ' if named == REQ_REJECTED else 'REP'}, a message that this side sends itself"
    if named != OTHER_REJECTED or reject.sender == "active" or reply_before(connection, reject):
        return ""
    if fields.local_comm_id == 0:
        return "no message, but there was nothing except the REQ to reject"
    return "no message, but no REP was captured" if repeated_after(connection, reject) else ""


def reply_before(connection: Connection, reject: Step) -> bool:
    """Whether a REP came before this REJ, or an RTU shows that there was one."""
    latest = reject.message.time + DISORDER
    return any(step.message.time <= latest for step in of_type(connection, "REP", "RTU"))


def repeated_after(connection: Connection, reject: Step) -> list[Step]:
    """The repetitions of the REQ (of the REP, when the active side rejects) after a REJ that did not just cross it."""
    earliest = reject.message.time + DISORDER
    return [
        step
        for step in of_type(connection, _question(reject))
        if step.retransmission_of is not None and step.message.time > earliest
    ]


def _question(reject: Step) -> str:
    """What the receiver of a REJ sends again until it is answered."""
    return "REQ" if reject.sender == "passive" else "REP"


def _inconsistent(connection: Connection, reject: Step) -> Verdict:
    fields = reject.message.fields
    named, local = fields.message_rejected, comm_id(fields.local_comm_id)
    again = repeated_after(connection, reject)
    gaps = [step.message.time - reject.message.time for step in again]
    return Verdict(
        f"REJ (reason {fields.reason}) of the {reject.sender} side has Message Rejected {named},"
        f" {wrong_message(connection, reject)}.{_dropped(connection, reject)}{_went_on(reject, gaps)}",
        (reject, *again),
        {
            "message_rejected": named,
            "reason": fields.reason,
            "local_comm_id": local,
            "repeated": len(again),
            "repeated_after_ns": gaps,
        },
        confidence="possible" if named == OTHER_REJECTED and fields.local_comm_id else "certain",
    )


def _dropped(connection: Connection, reject: Step) -> str:
    """Why Linux does not find the attempt of this REJ, as a sentence; empty if it does."""
    fields = reject.message.fields
    if reject.sender == "active":
        return LOST_ON_PASSIVE if fields.message_rejected == REQ_REJECTED else ""
    if fields.local_comm_id == 0 or reply_before(connection, reject):
        return ""
    return f" Linux drops it for its Local Communication ID {comm_id(fields.local_comm_id)} while it waits for the REP."


def _went_on(reject: Step, gaps: list[int]) -> str:
    """How the receiver went on after the REJ, as a sentence; empty if it did not."""
    if not gaps:
        return ""
    when = f"{duration(gaps[0])} later" if len(gaps) == 1 else f"{duration(gaps[0])} to {duration(gaps[-1])} later"
    return f" It was not obeyed: the {_question(reject)} came again {times(len(gaps))}, {when}."
