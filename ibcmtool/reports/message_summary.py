"""What a message says, in a few words: the fields that tell a reader what goes on, most telling first.

For the lines of `decode` and the arrows of the ladder; the ladder has the service and the timers in its header. Each
entry is a pair of a label and a value ("QPN", "0x000011"); the label may be empty. Fields that the capture cut off are
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ibcmtool import formatting
from ibcmtool.model import CmMessage, Connection

Pair = tuple[str, str]


def telling(message: CmMessage, connection: Connection | None = None) -> list[Pair]:
    """The telling fields of a message.

    With its connection: without what the connection's header says (service, timers), but with what the upper protocol's
    private data says.
    """
    pairs = _by_type(message, _IDENTITY)
    if connection is not None:
        return pairs + _private_data(connection, message)
    return _service(message.fields) + pairs + _by_type(message, _PARAMETERS)


def parameters(request: Any, reply: Any) -> list[Pair]:
    """The timers and limits of a connection, from the fields of its REQ and REP (None: not captured)."""
    return _req_parameters(request) + _rep_parameters(reply)


def line(pairs: list[Pair]) -> str:
    """All pairs in one line: "QPN 0x000011, PSN 0x3a5f12"."""
    return ", ".join(filter(None, (f"{label} {value}".strip() for label, value in pairs)))


def reject_reason(reason: int) -> str:
    """ "stale connection"; a reason that the specification does not name reads "unknown reason"."""
    from dissectors.cm_codes import REJ_REASONS

    return REJ_REASONS.get(reason, "unknown reason")


def _private_data(connection: Connection, message: CmMessage) -> list[Pair]:
    from ibcmtool import services

    return list(services.private_data(connection, message) or ())


def _get(fields: Any, name: str) -> Any:
    return getattr(fields, name, None)


def _known(*pairs: tuple[str, Any, Callable[[Any], str]]) -> list[Pair]:
    return [(label, text(value)) for label, value, text in pairs if value is not None]


def _service(fields: Any) -> list[Pair]:
    from ibcmtool import services

    value = _get(fields, "service_id")
    return [] if value is None else [("", services.name(value))]


def _by_type(message: CmMessage, table: Mapping[str, Callable[[Any], list[Pair]]]) -> list[Pair]:
    describe = table.get(message.type)
    return [] if describe is None else describe(message.fields)


def _req(fields: Any) -> list[Pair]:
    pairs = _known(
        ("QPN", _get(fields, "local_qpn"), formatting.qpn),
        ("PSN", _get(fields, "starting_psn"), formatting.psn),
    )
    transport = _transport(fields)
    return pairs if transport == "RC" else [*pairs, ("", transport)]  # RC is the rule


def _transport(fields: Any) -> str:
    from dissectors.cm_codes import EXTENDED_TRANSPORT_TYPES, TRANSPORT_TYPES

    kind, extended = _get(fields, "transport_service_type"), _get(fields, "extended_transport_type")
    if kind is None:
        return ""
    if kind == 3:
        return EXTENDED_TRANSPORT_TYPES.get(extended, f"extended transport type {extended}")
    return TRANSPORT_TYPES.get(kind, f"transport type {kind}")


def _req_parameters(fields: Any) -> list[Pair]:
    pairs = []
    remote, local = _get(fields, "remote_cm_response_timeout"), _get(fields, "local_cm_response_timeout")
    if remote is not None and remote == local:
        pairs.append(("CM response timeouts", formatting.exponent(remote)))
    elif remote is not None and local is not None:
        pairs.append(
            ("CM response timeouts", f"{formatting.exponent(remote)} remote, {formatting.exponent(local)} local")
        )
    pairs += _known(
        ("Max CM Retries", _get(fields, "max_cm_retries"), str),
        ("Local ACK Timeout", _get(fields, "primary_local_ack_timeout"), formatting.exponent),
    )
    return pairs + _known(("MTU", _get(fields, "path_mtu"), _mtu))


def _mtu(code: int) -> str:
    from dissectors.cm_codes import PATH_MTUS

    return PATH_MTUS.get(code, f"code {code}").removesuffix(" bytes")


def _rep(fields: Any) -> list[Pair]:
    qpn = _get(fields, "local_qpn")
    if qpn == 0 and _get(fields, "local_eecn"):  # an XRC target puts its QPN there
        qpn = _get(fields, "local_eecn")
    return _known(("QPN", qpn, formatting.qpn), ("PSN", _get(fields, "starting_psn"), formatting.psn))


def _rep_parameters(fields: Any) -> list[Pair]:
    return _known(("Target ACK Delay", _get(fields, "target_ack_delay"), formatting.exponent))


def _rej(fields: Any) -> list[Pair]:
    from dissectors.cm_codes import additional_reject_info

    reason = _get(fields, "reason")
    if reason is None:
        return []
    length, info = _get(fields, "reject_info_length"), _get(fields, "additional_reject_info")
    more = additional_reject_info(reason, length or 0, info or b"") if reason != 28 else None  # 28: the service's words
    return [(f"reason {reason}", reject_reason(reason)), *([more] if more else [])]


def _mraed(code: int) -> str:
    from dissectors.cm_codes import MESSAGES_MRAED

    return MESSAGES_MRAED.get(code, f"message {code}")


def _mra(fields: Any) -> list[Pair]:
    return _known(
        ("for the", _get(fields, "message_mraed"), _mraed),
        ("service timeout", _get(fields, "service_timeout"), formatting.exponent),
    )


def _dreq(fields: Any) -> list[Pair]:
    return _known(("remote QPN", _get(fields, "remote_qpn"), formatting.qpn))


def _lap(fields: Any) -> list[Pair]:
    return _known(
        ("alternate", _get(fields, "alternate_local_gid"), formatting.gid),
        ("to", _get(fields, "alternate_remote_gid"), formatting.gid),
        ("remote QPN", _get(fields, "remote_qpn"), formatting.qpn),
    )


def _apr(fields: Any) -> list[Pair]:
    from dissectors.cm_codes import AP_STATUSES

    status = _get(fields, "ap_status")
    return [] if status is None else [(f"status {status}", AP_STATUSES.get(status, "unknown status"))]


def _sidr_req(fields: Any) -> list[Pair]:
    return _known(("request", _get(fields, "request_id"), formatting.comm_id))


def _sidr_rep(fields: Any) -> list[Pair]:
    from dissectors.cm_codes import SIDR_STATUSES

    status = _get(fields, "status")
    if status:
        return [(f"status {status}", SIDR_STATUSES.get(status, "unknown status"))]
    return _known(("QPN", _get(fields, "qpn"), formatting.qpn), ("Q_Key", _get(fields, "q_key"), formatting.comm_id))


_IDENTITY: dict[str, Callable[[Any], list[Pair]]] = {
    "REQ": _req,
    "REP": _rep,
    "REJ": _rej,
    "MRA": _mra,
    "DREQ": _dreq,
    "LAP": _lap,
    "APR": _apr,
    "SIDR_REQ": _sidr_req,
    "SIDR_REP": _sidr_rep,
}
_PARAMETERS: dict[str, Callable[[Any], list[Pair]]] = {"REQ": _req_parameters, "REP": _rep_parameters}
