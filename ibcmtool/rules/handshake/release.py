"""H08, H22, H23: messages of a connection that has ended, and of its end before it had begun (IBA 12.9.7, 12.10.8)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import STALE_CONNECTION, TIMEOUT
from ibcmtool.connections.timers import response_wait
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import duration, end_name, times
from ibcmtool.messages import Dreq
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, over, rej_reason
from ibcmtool.rules.steps import (
    DISORDER,
    NEW_LIFE,
    before,
    between,
    fields_of,
    heard,
    numbered_before,
    of_type,
    sent_by,
    until,
)
from ibcmtool.values import Duration

AFTER_END: Final = ("RTU", "MRA", "LAP", "APR", "REP")

H08 = rule(
    "H08",
    "message-after-end",
    "A handshake message long after both sides had left",
    severity="warning",
    clause="IBA 12.9.7; no state after the end accepts these messages (Linux cm.c handlers)",
    explanation="After DREP, or after a REJ, the exchange is over for both sides. An RTU, MRA, LAP, APR or REP for it"
    " more than one response timeout later is dropped by every CM known: its sender holds a state that its peer has"
    " given up. When the late message only repeats an earlier one, its sender probably never got the REJ: information.",
    false_positives="Messages that cross the end on the wire (within one response timeout) are not reported, nor an"
    " MRA after a REJ that may answer a repeated REQ. Clocks of several inputs may disagree (then possible). Behind a"
    " DREP it may belong to a new connection of a CM that gives each the same ids: possible, unless it repeats another"
    " message than the answer to a REQ. Delayed duplicates from the network look the same.",
    advice="Check the sender of the late message: it holds the connection still. Expect S02 when it returns.",
)


@H08.on_step(*AFTER_END, history=over)
def message_after_end(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    late: list[Step] = []
    end = None
    for earlier in before(connection, step):
        if earlier.message.type in ("REQ", "SIDR_REQ"):
            return  # a new attempt since
        if earlier.message.type in ("DREP", "REJ"):
            end = earlier
            break
        if earlier.message.type in AFTER_END:
            late.append(earlier)
    if end is None or (end.message.type == "REJ" and _after_rej_by_others(step, end)):
        return
    wait = max(response_wait(connection.request, role).nominal for role in PEER)
    gap = between(end, step)
    if gap <= wait or any(between(end, old) > wait for old in late) or _was_held_up(connection, step):
        return
    if not context.covered(connection, end.message.time, message.time):
        return
    repeats = step.retransmission_of is not None or connection.request is None  # the first send may not be captured
    unaware = repeats and end.message.type == "REJ" and step.sender != end.sender
    yield Verdict(
        f"{message.type} {duration(gap)} after the {end.message.type} that ended the exchange (one response"
        f" timeout: {duration(wait)})." + (" The REJ probably did not arrive." if unaware else ""),
        {"gap": Duration(gap), "wait": Duration(wait)},
        (
            unopposed("not a copy"),
            one_clock(end, step, otherwise="weakened"),
            *((NEW_LIFE,) if end.message.type == "DREP" and _may_be_new(step) else ()),
            context.witness.same_life(message.source, end.message.time, message.time),
        ),
        steps=(end, step),
        severity="info" if unaware else None,
    )


def _may_be_new(step: Step) -> bool:
    """Whether a new REQ with these ids, which the capture has later or not at all, explains this message."""
    answers = step.sender == "passive" and step.message.type in ("REP", "MRA")
    return answers or step.retransmission_of is None


def _was_held_up(connection: Connection, step: Step) -> bool:
    """Whether its sender had sent another message of this connection after it, or it is a copy of one of them.

    However late a clock says that it came: each send has a number of its own.
    """
    psn = step.message.psn
    return any(
        numbered_before(step, earlier)
        or (psn is not None and psn == earlier.message.psn and step.sender == earlier.sender)
        for earlier in before(connection, step)
    )


def _after_rej_by_others(step: Step, reject: Step) -> bool:
    """Whether this message after a REJ is left to H02, or no wonder."""
    if reject.sender == "active" and rej_reason(reject) == STALE_CONNECTION:
        return True  # of a REP: Linux goes on with its REQ
    if step.message.type == "REP":
        return reject.sender == "passive" or rej_reason(reject) == TIMEOUT
    # The REJ was lost, and a REQ came again that the capture has late or not at all.
    return step.message.type == "MRA" and step.sender == "passive"


H22 = rule(
    "H22",
    "drep-for-nothing",
    "A DREP answers a DREQ that is not in the capture",
    severity="info",
    clause="IBA 12.10.8 (communication release); Linux cm_issue_drep",
    explanation="A DREP is sent for a DREQ only. Mostly the capture has lost that DREQ, so that it does not show who"
    " closed the connection, and when. Otherwise the sender made the DREP up, and its end of the connection is gone.",
    false_positives="None: it states what is missing. Not reported if the connection's beginning was not captured"
    " (C02), if nothing of the DREQ's sender was, and if the capture ends with the DREP.",
    advice="Check the capture for drops before asking which side closed.",
)


# One side sent a DREP, the other no DREQ.
@H22.on_event("ENDED", history=matches("(?=.*Q)([^De]*e[^D]*|[^dE]*E[^d]*)"), needs=("request",))
def drep_for_nothing(connection: Connection, event: Event, context: Context) -> Verdicts:
    for role, peer in PEER.items():
        dreps = of_type(connection, "DREP", sender=role)
        if not dreps or of_type(connection, "DREQ", sender=peer):
            continue
        if heard(context, connection, peer) and event.time - dreps[0].message.time > DISORDER:
            yield Verdict(
                f"{sent_by(dreps[0])}, but no DREQ of {end_name(connection.end(peer))} was captured.",
                {"dreps": len(dreps), "sender": role},
                (weakened("complete"),),
                steps=(dreps[0],),
            )


H23 = rule(
    "H23",
    "dreq-before-established",
    "A DREQ for a connection that was not established",
    severity="warning",
    clause="IBA 12.9.7 (a handshake is ended by REJ); Linux cm_dreq_handler ignores it before REP sent",
    explanation="Before the REP there is no connection to close: a requester that gives up sends REJ 4, a passive side"
    " REJ 28. A DREQ is ignored then, so that the other side goes on with the handshake, and its sender repeats it in"
    " vain. Certain if it names Remote Communication ID 0, as one who has had no answer must.",
    false_positives="If the DREQ names both ids there most likely was a REP that is missing from the capture:"
    " information only, and not reported when nothing of the other side was ever captured. A REP up to 50 ms later"
    " counts.",
    advice="Look at the CM or consumer that sent the DREQ; its peer keeps its half of the attempt until a timeout.",
)


# A DREQ after a REQ, with no REP, RTU or DREP before it.
@H23.on_event("ENDED", history=matches("[^QdDpPuUeE]*Q[^dDpPuUeE]*[dD].*"), needs=("request",))
def dreq_before_established(connection: Connection, event: Event, context: Context) -> Verdicts:
    """At the end: a message that the capture has late may have been sent in time."""
    dreq = of_type(connection, "DREQ")[0]
    sender = dreq.sender
    if sender == "unknown" or connection.late_duplicate_of or until(of_type(connection, "REP", "RTU"), dreq):
        return
    nameless = sender == "active" and fields_of(dreq, Dreq).remote_comm_id == 0
    if not nameless and not heard(context, connection, PEER[sender]):
        return
    request = of_type(connection, "REQ")[0]
    dreqs, dreps = of_type(connection, "DREQ", sender=sender), of_type(connection, "DREP", sender=PEER[sender])
    gap = between(request, dreq)
    yield Verdict(
        f"{sent_by(dreq)} {duration(gap)} after the REQ, before any REP: "
        + (
            "it names Remote Communication ID 0, so its sender had no answer yet."
            if nameless
            else "none was captured, though the DREQ names both Communication IDs."
        )
        + (" It was answered with a DREP." if dreps else f" Sent {times(len(dreqs))}, and no DREP was captured."),
        {"gap": Duration(gap), "dreqs": len(dreqs), "dreps": len(dreps)},
        (one_clock(request, dreq) if nameless else weakened("complete"),),
        steps=(request, dreq),
        severity=None if nameless else "info",
    )
