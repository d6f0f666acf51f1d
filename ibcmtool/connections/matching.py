"""What a message is to the connection that it belongs to: a copy, a repetition, misaddressed, or a step."""

from __future__ import annotations

from typing import Final

from dissectors.recognition import MAD_SIZE
from ibcmtool.connections.codes import EXTENDED, STALE_CONNECTION, TIMEOUT, XRC
from ibcmtool.messages import Dreq, Mra, Rej, Rep, Req, Rtu
from ibcmtool.model import Connection, Outcome, Role, Step
from ibcmtool.packets import CmMessage

# A packet may be captured again after a mirror's delay, or from another capture that was merged into this one by clocks
# that were apart; the same PSN later than this is a sender whose PSN does not count. Two files may have clocks any time
# apart.
COPY_WINDOW: Final = 10_000_000_000
COMPARABLE: Final = 32  # bytes of a MAD: its header with the TransactionID, and the Communication IDs

COUNTER_BITS: Final = 16  # Communication IDs of one boot differ in their counter's low bits only


def of_one_boot(one: int, other: int) -> bool:
    """Whether two Communication IDs can be of one kernel: Linux counts them from a base drawn at boot (cm.c).

    Little-endian hosts count in the first byte on the wire.
    """
    difference = one ^ other
    swapped = int.from_bytes(difference.to_bytes(4, "little"), "big")
    return min(difference, swapped) >> COUNTER_BITS == 0


def continues(known: Connection, message: CmMessage) -> bool:
    """Whether a REQ with a known id is a repetition (or a changed one) rather than the start of another life."""
    steps = [step.message for step in known.steps]
    first = beginning(known)
    if any(is_copy(earlier, message) for earlier in steps):
        return True
    same_content = first.mad[24:] == message.mad[24:]
    if not (same_content or first.tid == message.tid):
        return False
    return not any(earlier.type in ("DREQ", "DREP") for earlier in steps)


def beginning(connection: Connection) -> CmMessage:
    """The message that it began with: its first REQ or SIDR_REQ, also where that was captured behind an answer."""
    requests = (step.message for step in connection.steps if step.message.type in ("REQ", "SIDR_REQ"))
    return next(requests, connection.steps[0].message)


def same_mad(one: CmMessage, other: CmMessage) -> bool:
    """Whether two messages have the same MAD, as far as both were captured: one input may cut what another has."""
    if one.mad == other.mad:
        return True
    size = min(len(one.mad), len(other.mad))
    return MAD_SIZE > size >= COMPARABLE and one.file != other.file and one.mad[:size] == other.mad[:size]


def is_copy(earlier: CmMessage, message: CmMessage) -> bool:
    """Whether this is the very same packet, captured again: a repetition by the sender has another BTH PSN."""
    return (
        earlier.psn is not None
        and earlier.psn == message.psn
        and same_mad(earlier, message)
        and (earlier.file != message.file or abs(message.time - earlier.time) < COPY_WINDOW)
    )


def has_left(connection: Connection, rtu: CmMessage) -> bool:
    """Whether the active side had closed this connection before it sent an RTU: not one that was captured again."""
    if connection.closed is not None:
        return True
    return "D" in connection.history and not any(is_copy(step.message, rtu) for step in connection.steps)


def earlier_sends(connection: Connection, sender: Role, message: CmMessage) -> tuple[Step | None, Step | None]:
    """The first step with the same MAD from the same end, and the step of which the message is a copy."""
    first = None
    for step in connection.steps:
        earlier = step.message
        if step.sender == sender and same_mad(earlier, message):
            if is_copy(earlier, message):
                return first, step
            first = first or step
    return first, None


VARIANTS: Final = frozenset({"MRA", "REJ"})  # messages that the tables know under several names


def variant(message: CmMessage) -> str:
    """The name under which the tables know an MRA or REJ."""
    if isinstance(message.fields, Mra):
        return f"MRA {message.fields.message_mraed}"
    return "REJ 10" if rej_reason(message) == STALE_CONNECTION else "REJ"


def rej_reason(message: CmMessage) -> int | None:
    """The reason of a REJ; None where the capture cut it off, and for other messages."""
    return message.fields.reason if isinstance(message.fields, Rej) else None


def refusal(reject: CmMessage) -> Outcome:
    """What becomes of the attempt that this REJ ends."""
    return "timed_out" if rej_reason(reject) == TIMEOUT else "rejected"


ADDRESSED: Final = frozenset({"DREQ", "RTU"})  # messages whose address within the receiver is checked


def misaddressed(connection: Connection, sender: Role, message: CmMessage) -> bool:
    """Whether a DREQ names another QPN than the receiver's, or an RTU another Communication ID."""
    fields = message.fields
    if isinstance(fields, Dreq):
        named, known = fields.remote_qpn, connection.peer(sender).qpn
    elif isinstance(fields, Rtu):
        named, known = fields.remote_comm_id, connection.peer(sender).comm_id
    else:
        return False
    return named is not None and known is not None and named != known


def is_xrc(connection: Connection) -> bool:
    """Whether the REQ asks for XRC; then the REP carries its QPN in the field Local EE Context Number."""
    request = connection.request
    if not isinstance(request, Req):
        return False
    return request.transport_service_type == EXTENDED and request.extended_transport_type == XRC


def reply_qpn(connection: Connection, reply: Rep) -> int | None:
    """The passive side's QPN; where the transport was not captured, a REP tells by itself that it is of XRC."""
    request = connection.request
    known = isinstance(request, Req) and None not in (request.transport_service_type, request.extended_transport_type)
    by_itself = not known and (reply.local_eecn or not reply.local_qpn)
    return reply.local_eecn if is_xrc(connection) or by_itself else reply.local_qpn
