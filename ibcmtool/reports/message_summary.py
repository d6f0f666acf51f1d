"""What a message says, in a few words: the fields that tell a reader what goes on, most telling first.

For the lines of `decode` and the arrows of the ladder; the ladder has the service and the timers in its header. Each
entry is a pair of a label and a value ("QPN", "0x000011"); the label may be empty. Fields that the capture cut off are
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dissectors.cm_codes import (
    AP_STATUSES,
    EXTENDED_TRANSPORT_TYPES,
    MESSAGES_MRAED,
    PATH_MTUS,
    REJ_REASONS,
    SIDR_STATUSES,
    TRANSPORT_TYPES,
    additional_reject_info,
)
from dissectors.text import data_words
from ibcmtool import formatting, services
from ibcmtool.connections.codes import CONSUMER_REJECT, EXTENDED
from ibcmtool.messages import Apr, Dreq, Fields, Lap, Mra, Rej, Rep, Reply, Req, Request, SidrRep, SidrReq
from ibcmtool.model import Connection
from ibcmtool.packets import CmMessage

Pair = tuple[str, str]
Value = TypeVar("Value")


def telling_fields(message: CmMessage, connection: Connection | None = None) -> list[Pair]:
    """The telling fields of a message.

    With its connection: without what the connection's header says (service, timers), but with what the upper protocol's
    private data says.
    """
    fields = message.fields
    pairs = _identity(fields)
    if connection is not None:
        return pairs + list(services.private_data(connection, message) or ())
    if isinstance(fields, Rej) and fields.reason == CONSUMER_REJECT and any(fields.private_data or b""):
        pairs.append(("private data", data_words(fields.private_data or b"")))
    if isinstance(fields, (Req, SidrReq, SidrRep)):
        pairs = _known("", fields.service_id, services.name) + pairs
    return pairs + parameters(fields if isinstance(fields, Req) else None, fields if isinstance(fields, Rep) else None)


def parameters(request: Request | None, reply: Reply | None) -> list[Pair]:
    """The timers and limits of a connection, from the fields of its REQ and REP (None: not captured)."""
    pairs: list[Pair] = []
    if isinstance(request, Req):
        remote, local = request.remote_cm_response_timeout, request.local_cm_response_timeout
        if remote is not None and remote == local:
            pairs.append(("CM response timeouts", formatting.exponent(remote)))
        elif remote is not None and local is not None:
            both = f"{formatting.exponent(remote)} remote, {formatting.exponent(local)} local"
            pairs.append(("CM response timeouts", both))
        pairs += _known("Max CM Retries", request.max_cm_retries, str)
        pairs += _known("Local ACK Timeout", request.primary_local_ack_timeout, formatting.exponent)
        pairs += _known("MTU", request.path_mtu, _mtu)
    if isinstance(reply, Rep):
        pairs += _known("Target ACK Delay", reply.target_ack_delay, formatting.exponent)
    return pairs


def line(pairs: list[Pair]) -> str:
    """All pairs in one line: "QPN 0x000011, PSN 0x3a5f12"."""
    return ", ".join(filter(None, (f"{label} {value}".strip() for label, value in pairs)))


def reject_reason(reason: int) -> str:
    """ "stale connection"; a reason that the specification does not name reads "unknown reason"."""
    return REJ_REASONS.get(reason, "unknown reason")


def _known(label: str, value: Value | None, text: Callable[[Value], str]) -> list[Pair]:
    """The value as it is written, if it was captured."""
    return [] if value is None else [(label, text(value))]


def _identity(fields: Fields) -> list[Pair]:
    """What a message says of itself."""
    match fields:
        case Req():
            return _req(fields)
        case Rep():
            xrc_target = fields.local_qpn == 0 and fields.local_eecn  # it puts its QPN there
            return _qpn_and_psn(fields.local_eecn if xrc_target else fields.local_qpn, fields.starting_psn)
        case Rej():
            return _rej(fields)
        case Mra():
            asked = _known("for the", fields.message_mraed, lambda code: MESSAGES_MRAED.get(code, f"message {code}"))
            return asked + _known("service timeout", fields.service_timeout, formatting.exponent)
        case Dreq():
            return _known("remote QPN", fields.remote_qpn, formatting.qpn)
        case Lap():
            path = _known("alternate", fields.alternate_local_gid, formatting.gid)
            path += _known("to", fields.alternate_remote_gid, formatting.gid)
            return path + _known("remote QPN", fields.remote_qpn, formatting.qpn)
        case Apr():
            return _status(fields.ap_status, AP_STATUSES)
        case SidrReq():
            return _known("request", fields.request_id, formatting.comm_id)
        case SidrRep():
            if fields.status:
                return _status(fields.status, SIDR_STATUSES)
            return _known("QPN", fields.qpn, formatting.qpn) + _known("Q_Key", fields.q_key, formatting.comm_id)
    return []


def _req(fields: Req) -> list[Pair]:
    kind, extended = fields.transport_service_type, fields.extended_transport_type
    transport = "" if kind is None else TRANSPORT_TYPES.get(kind, f"transport type {kind}")
    if kind == EXTENDED:
        transport = f"extended transport type {extended}"
        if extended is not None:
            transport = EXTENDED_TRANSPORT_TYPES.get(extended, transport)
    pairs = _qpn_and_psn(fields.local_qpn, fields.starting_psn)
    return pairs if transport == "RC" else [*pairs, ("", transport)]  # RC is the rule


def _qpn_and_psn(qpn: int | None, psn: int | None) -> list[Pair]:
    return _known("QPN", qpn, formatting.qpn) + _known("PSN", psn, formatting.psn)


def _rej(fields: Rej) -> list[Pair]:
    reason = fields.reason
    if reason is None:
        return []
    pairs = [(f"reason {reason}", reject_reason(reason))]
    if reason != CONSUMER_REJECT:
        more = additional_reject_info(reason, fields.reject_info_length or 0, fields.additional_reject_info or b"")
        pairs += [more] if more else []
    return pairs


def _mtu(code: int) -> str:
    return PATH_MTUS.get(code, f"code {code}").removesuffix(" bytes")


def _status(status: int | None, names: dict[int, str]) -> list[Pair]:
    return [] if status is None else [(f"status {status}", names.get(status, "unknown status"))]
