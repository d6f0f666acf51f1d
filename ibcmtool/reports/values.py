"""Values as JSON carries them: numbers of a finding by their type, fields of a message by their name."""

from __future__ import annotations

import functools
from typing import Any

from ibcmtool import formatting
from ibcmtool.values import CommId, Duration, FrameNumber, Gid, Guid, InputNumber, Psn, Qpn, ServiceId, Tid, Time

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
    match value:
        case Duration() | Time():
            return formatting.seconds(value.ns)
        case Psn():
            return value.number
        case Qpn():
            return formatting.qpn(value.number)
        case CommId():
            return formatting.comm_id(value.number)
        case ServiceId() | Tid():
            return f"0x{value.number:016x}"
        case Guid():
            return formatting.guid(value.number)
        case Gid():
            return formatting.gid(value.octets)
        case InputNumber():
            return value.file
        case FrameNumber():
            return {"file": value.file, "frame": value.frame}
        case list() | tuple():
            return [evidence(one) for one in value]
    return value


def plain(name: str, value: Any) -> Any:
    """A field as JSON carries it: identifiers and GIDs as text, other bytes in hexadecimal, the rest as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        if ends_in(name, "guid"):
            return formatting.guid(value)
        written = number_format(name)
        return value if written == NUMBER else written % value
    if isinstance(value, bytes):
        return formatting.gid(value) if len(value) == 16 and ends_in(name, "gid") else value.hex()
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
