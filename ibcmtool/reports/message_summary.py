"""What a message says, in a few words: the fields that tell a reader what goes on, most telling first.

For the lines of `decode` and the arrows of the ladder; the ladder has the service and the timers in its header. Each
entry is a pair of a label and a value ("QPN", "0x000011"); the label may be empty. Fields that the capture cut off are
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from ibcmtool import formatting, services
from ibcmtool.model import CmMessage, Connection

Pair = tuple[str, str]


def telling_fields(message: CmMessage, connection: Connection | None = None) -> list[Pair]:
    """The telling fields of a message.

    With its connection: without what the connection's header says (service, timers), but with what the upper protocol's
    private data says.
    """
    fields = message.fields
    pairs = _IDENTITY[message.type](fields) if message.type in _IDENTITY else []
    if connection is not None:
        return pairs + list(services.private_data(connection, message) or ())
    service = _known(fields, ("", "service_id", services.name))
    return service + pairs + parameters(*{"REQ": (fields, None), "REP": (None, fields)}.get(message.type, (None, None)))


def parameters(request: Any, reply: Any) -> list[Pair]:
    """The timers and limits of a connection, from the fields of its REQ and REP (None: not captured)."""
    remote, local = _get(request, "remote_cm_response_timeout"), _get(request, "local_cm_response_timeout")
    pairs = []
    if remote is not None and remote == local:
        pairs.append(("CM response timeouts", formatting.exponent(remote)))
    elif remote is not None and local is not None:
        both = f"{formatting.exponent(remote)} remote, {formatting.exponent(local)} local"
        pairs.append(("CM response timeouts", both))
    return [
        *pairs,
        *_known(
            request,
            ("Max CM Retries", "max_cm_retries", str),
            ("Local ACK Timeout", "primary_local_ack_timeout", formatting.exponent),
            ("MTU", "path_mtu", lambda code: PATH_MTUS.get(code, f"code {code}").removesuffix(" bytes")),
        ),
        *_known(reply, ("Target ACK Delay", "target_ack_delay", formatting.exponent)),
    ]


def line(pairs: list[Pair]) -> str:
    """All pairs in one line: "QPN 0x000011, PSN 0x3a5f12"."""
    return ", ".join(filter(None, (f"{label} {value}".strip() for label, value in pairs)))


def reject_reason(reason: int) -> str:
    """ "stale connection"; a reason that the specification does not name reads "unknown reason"."""
    return REJ_REASONS.get(reason, "unknown reason")


def _get(fields: Any, name: str) -> Any:
    return getattr(fields, name, None)


def _known(fields: Any, *wanted: tuple[str, str, Callable[[Any], str]]) -> list[Pair]:
    """Of these fields (label, name, how it is written) those that were captured."""
    values = ((label, _get(fields, name), text) for label, name, text in wanted)
    return [(label, text(value)) for label, value, text in values if value is not None]


def _all_known(*wanted: tuple[str, str, Callable[[Any], str]]) -> Callable[[Any], list[Pair]]:
    return lambda fields: _known(fields, *wanted)


def _req(fields: Any) -> list[Pair]:
    kind, extended = _get(fields, "transport_service_type"), _get(fields, "extended_transport_type")
    if kind == 3:
        transport = EXTENDED_TRANSPORT_TYPES.get(extended, f"extended transport type {extended}")
    else:
        transport = "" if kind is None else TRANSPORT_TYPES.get(kind, f"transport type {kind}")
    pairs = _known(fields, ("QPN", "local_qpn", formatting.qpn), ("PSN", "starting_psn", formatting.psn))
    return pairs if transport == "RC" else [*pairs, ("", transport)]  # RC is the rule


def _rep(fields: Any) -> list[Pair]:
    xrc_target = _get(fields, "local_qpn") == 0 and _get(fields, "local_eecn")  # it puts its QPN there
    qpn = "local_eecn" if xrc_target else "local_qpn"
    return _known(fields, ("QPN", qpn, formatting.qpn), ("PSN", "starting_psn", formatting.psn))


def _rej(fields: Any) -> list[Pair]:
    reason = _get(fields, "reason")
    if reason is None:
        return []
    length, info = _get(fields, "reject_info_length"), _get(fields, "additional_reject_info")
    more = additional_reject_info(reason, length or 0, info or b"") if reason != 28 else None  # 28: the service's words
    return [(f"reason {reason}", reject_reason(reason)), *([more] if more else [])]


def _apr(fields: Any) -> list[Pair]:
    status = _get(fields, "ap_status")
    return [] if status is None else [(f"status {status}", AP_STATUSES.get(status, "unknown status"))]


def _sidr_rep(fields: Any) -> list[Pair]:
    status = _get(fields, "status")
    if status:
        return [(f"status {status}", SIDR_STATUSES.get(status, "unknown status"))]
    return _known(fields, ("QPN", "qpn", formatting.qpn), ("Q_Key", "q_key", formatting.comm_id))


_IDENTITY: dict[str, Callable[[Any], list[Pair]]] = {
    "REQ": _req,
    "REP": _rep,
    "REJ": _rej,
    "MRA": _all_known(
        ("for the", "message_mraed", lambda code: MESSAGES_MRAED.get(code, f"message {code}")),
        ("service timeout", "service_timeout", formatting.exponent),
    ),
    "DREQ": _all_known(("remote QPN", "remote_qpn", formatting.qpn)),
    "LAP": _all_known(
        ("alternate", "alternate_local_gid", formatting.gid),
        ("to", "alternate_remote_gid", formatting.gid),
        ("remote QPN", "remote_qpn", formatting.qpn),
    ),
    "APR": _apr,
    "SIDR_REQ": _all_known(("request", "request_id", formatting.comm_id)),
    "SIDR_REP": _sidr_rep,
}
