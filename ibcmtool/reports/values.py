"""Values by the name of their field: which integer is an identifier, and how it is written."""

from __future__ import annotations

import functools
from typing import Any

from ibcmtool import formatting
from ibcmtool.values import CommId, Duration, Gid, Guid, Psn, Qpn, ServiceId, Tid, Time

NUMBER = "%d"
# Formats for `%` by the end of the field's name; the first that fits counts. GUIDs are written in groups.
_IDENTIFIERS: tuple[tuple[str, str], ...] = (
    ("qpn", "0x%06x"),
    ("comm_id", "0x%08x"),
    ("request_id", "0x%08x"),
    ("service_id", "0x%016x"),
    ("tid", "0x%016x"),
)


def evidence(value: Any) -> Any:
    """A number of a finding as JSON carries it: times and durations as decimal seconds, identifiers as text."""
    if isinstance(value, (Duration, Time)):
        return formatting.seconds(value.ns)
    if isinstance(value, Psn):
        return value.number
    if isinstance(value, (Qpn, CommId, ServiceId, Tid, Guid, Gid)):
        return identifier(value)
    if isinstance(value, (list, tuple)):
        return [evidence(one) for one in value]
    return value


def identifier(value: Qpn | CommId | ServiceId | Tid | Guid | Gid) -> str:
    """An identifier as Wireshark and the kernel write it."""
    if isinstance(value, Qpn):
        return formatting.qpn(value.number)
    if isinstance(value, CommId):
        return formatting.comm_id(value.number)
    if isinstance(value, ServiceId):
        return formatting.service_id(value.number)
    if isinstance(value, Tid):
        return f"0x{value.number:016x}"
    return formatting.guid(value.number) if isinstance(value, Guid) else formatting.gid(value.octets)


def plain(name: str, value: Any) -> Any:
    """The value as JSON carries it: identifiers and GIDs as text, other bytes in hexadecimal, the rest as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        if ends_in(name, "guid"):
            return formatting.guid(value)
        written = number_format(name)
        return value if written == NUMBER else written % value
    if isinstance(value, bytes):
        return formatting.gid(value) if len(value) == 16 and ends_in(name, "gid") else value.hex()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(name, one) for one in value]
    return value


@functools.cache
def number_format(name: str) -> str:
    """How an integer of this name is written, as a format for `%`; not for GUIDs."""
    return next((written for ending, written in _IDENTIFIERS if ends_in(name, ending)), NUMBER)


@functools.cache
def ends_in(name: str, ending: str) -> bool:
    """Whether the name is the ending (in singular or plural), or ends in it as a word."""
    name = name.removesuffix("s")
    return name == ending or name.endswith("_" + ending)
