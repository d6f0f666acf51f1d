"""The codes of CM messages in words, and what the additional information of a refusal says.

Sources: IBA vol. 1, 12.6; annexes A11 (RDMA IP CM) and A14 (XRC); the names follow Linux' ib_cm.h and illumos' ibcm.
"""

from __future__ import annotations

from collections.abc import Callable

from .text import bytes_words, gid_text, guid_text

REJ_REASONS: dict[int, str] = {
    1: "no QP available",
    2: "no EEC available",
    3: "no resources",
    4: "timeout",
    5: "unsupported request",
    6: "invalid communication ID",
    7: "invalid communication instance",
    8: "invalid service ID",
    9: "invalid transport service type",
    10: "stale connection",
    11: "RDC does not exist",
    12: "primary remote port GID rejected",
    13: "primary remote port LID rejected",
    14: "invalid primary SL",
    15: "invalid primary traffic class",
    16: "invalid primary hop limit",
    17: "invalid primary packet rate",
    18: "alternate remote port GID rejected",
    19: "alternate remote port LID rejected",
    20: "invalid alternate SL",
    21: "invalid alternate traffic class",
    22: "invalid alternate hop limit",
    23: "invalid alternate packet rate",
    24: "port and CM redirection",
    25: "port redirection",
    26: "invalid path MTU",
    27: "insufficient responder resources",
    28: "consumer reject",
    29: "RNR retry count reject",
    30: "duplicate local communication ID",
    31: "unsupported class version",
    32: "invalid primary flow label",
    33: "invalid alternate flow label",
    35: "vendor option not supported",
}
AP_STATUSES: dict[int, str] = {
    0: "alternate path loaded",
    1: "invalid communication instance",
    2: "alternate paths not supported",
    3: "failover port rejected",
    4: "redirect",
    5: "proposed path equals current primary",
    6: "QPN or EECN mismatch",
    7: "proposed LID rejected",
    8: "proposed GID rejected",
    9: "proposed flow label rejected",
    10: "proposed traffic class rejected",
    11: "proposed hop limit rejected",
    12: "proposed packet rate rejected",
    13: "proposed SL rejected",
}
SIDR_STATUSES: dict[int, str] = {
    0: "valid QPN",
    1: "service ID not supported",
    2: "rejected by service provider",
    3: "no QP available",
    4: "redirect",
    5: "version not supported",
}
MESSAGES_MRAED: dict[int, str] = {0: "REQ", 1: "REP", 2: "LAP"}
MESSAGES_REJECTED: dict[int, str] = {0: "REQ", 1: "REP", 2: "no message"}
TRANSPORT_TYPES: dict[int, str] = {0: "RC", 1: "UC", 2: "RD", 3: "extended"}
EXTENDED_TRANSPORT_TYPES: dict[int, str] = {1: "XRC"}  # counts where the transport type is 3
FAILOVER_ACCEPTED: dict[int, str] = {0: "accepted", 1: "alternate path not supported", 2: "alternate path rejected"}
RNR_RETRY_COUNTS: dict[int, str] = {7: "infinite"}
PATH_MTUS: dict[int, str] = {1: "256 bytes", 2: "512 bytes", 3: "1024 bytes", 4: "2048 bytes", 5: "4096 bytes"}
RATES: dict[int, str] = {
    0: "port maximum",
    2: "2.5 Gb/s",
    3: "10 Gb/s",
    4: "30 Gb/s",
    5: "5 Gb/s",
    6: "20 Gb/s",
    7: "40 Gb/s",
    8: "60 Gb/s",
    9: "80 Gb/s",
    10: "120 Gb/s",
    11: "14 Gb/s",
    12: "56 Gb/s",
    13: "112 Gb/s",
    14: "168 Gb/s",
    15: "25 Gb/s",
    16: "100 Gb/s",
    17: "200 Gb/s",
    18: "300 Gb/s",
    19: "28 Gb/s",
    20: "50 Gb/s",
    21: "400 Gb/s",
    22: "600 Gb/s",
    23: "800 Gb/s",
    24: "1200 Gb/s",
    25: "1600 Gb/s",
}


def additional_reject_info(reason: int, length: int, ari: bytes) -> tuple[str, str] | None:
    """What the additional reject information of a REJ says: a name and a value in words.

    `length` is the Reject Info Length. None where the reason defines no information or where the bytes do not
    suffice for it; information that the reason does not define is given in hexadecimal.
    """
    return _meaning(_REJECT_INFO.get(reason or 0), length or 0, ari)


def additional_path_info(status: int, length: int, info: bytes) -> tuple[str, str] | None:
    """The same for the Additional Info of an APR with this AP status."""
    return _meaning(_PATH_INFO.get(status or 0), length or 0, info)


def additional_sidr_info(status: int, info: bytes) -> tuple[str, str] | None:
    """The same for a SIDR_REP. Its length does not count: Linux sends 0 there."""
    return _meaning(_REDIRECT, len(info), info) if status == 4 else None


_Form = tuple[str, int, Callable[[bytes], str]]  # name, bytes needed, words


def _meaning(form: _Form | None, length: int, info: bytes) -> tuple[str, str] | None:
    used = info[:length]
    if form is None:
        return ("additional information", bytes_words(used)) if used.strip(b"\0") else None
    name, needed, words = form
    return (name, words(used)) if len(used) >= needed else None


def _number(used: bytes) -> str:
    return str(used[0])


def _high_nibble(used: bytes) -> str:
    return str(used[0] >> 4)


def _lid(used: bytes) -> str:
    return str(int.from_bytes(used[:2], "big"))


def _gid(used: bytes) -> str:
    return gid_text(used[:16])


def _rate(used: bytes) -> str:
    rate = used[0] >> 2  # left aligned, unlike the rate of a path
    return RATES.get(rate, f"unknown(0x{rate:02x})")


def _mtu(used: bytes) -> str:
    mtu = used[0] >> 4
    return PATH_MTUS.get(mtu, f"unknown(0x{mtu:02x})")


def _flow_label(used: bytes) -> str:
    return f"0x{int.from_bytes(used[:3], 'big') >> 4:05x}"


def _ca_guid(used: bytes) -> str:
    return guid_text(int.from_bytes(used[:8], "big"))


def _redirect(used: bytes) -> str:
    from .mad import ClassPortInfo  # the tables are used where Scapy is not loaded

    info = ClassPortInfo(used)
    parts = [
        f"GID {info.redirect_gid}" if info.redirect_gid != "::" else "",
        f"LID {info.redirect_lid}" if info.redirect_lid else "",
        f"QPN 0x{info.redirect_qp:06x}",
        f"Q_Key 0x{info.redirect_q_key:08x}",
        f"P_Key 0x{info.redirect_partition_key:04x}",
    ]
    return ", ".join(part for part in parts if part)


_REDIRECT: _Form = ("redirect to", 72, _redirect)
_REJECT_INFO: dict[int, _Form] = {
    4: ("CA GUID of the sender", 8, _ca_guid),
    12: ("acceptable GID", 16, _gid),
    13: ("acceptable LID", 2, _lid),
    14: ("acceptable SL", 1, _high_nibble),
    15: ("acceptable traffic class", 1, _number),
    16: ("acceptable hop limit", 1, _number),
    17: ("acceptable packet rate", 1, _rate),
    18: ("acceptable GID", 16, _gid),
    19: ("acceptable LID", 2, _lid),
    20: ("acceptable SL", 1, _high_nibble),
    21: ("acceptable traffic class", 1, _number),
    22: ("acceptable hop limit", 1, _number),
    23: ("acceptable packet rate", 1, _rate),
    24: _REDIRECT,
    25: ("port to use", 16, _gid),
    26: ("acceptable path MTU", 1, _mtu),
    28: ("consumer data", 1, bytes_words),
    31: ("supported class version", 1, _number),
    32: ("acceptable flow label", 3, _flow_label),
    33: ("acceptable flow label", 3, _flow_label),
}
_PATH_INFO: dict[int, _Form] = {
    4: _REDIRECT,
    7: ("acceptable LID", 2, _lid),
    8: ("acceptable GID", 16, _gid),
    9: ("acceptable flow label", 3, _flow_label),
    10: ("acceptable traffic class", 1, _number),
    11: ("acceptable hop limit", 1, _number),
    12: ("acceptable packet rate", 1, _rate),
    13: ("acceptable SL", 1, _high_nibble),
}
