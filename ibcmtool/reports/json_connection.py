"""The JSON of a connection: its service, its two ends, its times, and its messages with their fields by name.

Written straight as text, since an analysis may have tens of thousands of connections, with up to 55 fields a message.
There is one format for each type of message. It is bytes: `%` finds its places in bytes several times faster than in
str.
"""

from __future__ import annotations

import json
from binascii import hexlify
from collections.abc import Callable, Iterable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from dissectors.text import guid_text
from ibcmtool import formatting, services
from ibcmtool.model import Address, Connection, End, Step
from ibcmtool.reports import values

_QPN = f'"{values.number_format("qpn")}"'
_COMM_ID = f'"{values.number_format("comm_id")}"'
_SERVICE_ID = f'"{values.number_format("service_id")}"'

_MESSAGE = (
    '{"frame": %d, "file": %d, "time": "%d.%09d", "type": "%b", "sender": "%b", "retransmission_of": %b, "fields": {'
)
_ZEROS = {bytes(size): hexlify(bytes(size)) for size in range(233)}  # what most private data is


def connection_text(conn: Connection, display_filter: str) -> str:
    """One connection as a JSON object, with the Wireshark filter that shows its frames."""
    duration = None if conn.closed is None else conn.closed - conn.opened
    return (
        f'{{"id": {conn.id}, "outcome": "{conn.outcome}", "history": {quoted(conn.history)}, '
        f'"service": {{"id": {"null" if conn.service_id is None else _SERVICE_ID % conn.service_id}, '
        f'"name": {quoted(services.connection_service(conn))}}}, '
        f'"transport": "{conn.transport}", "display_filter": "{display_filter}", '
        f'"active": {_end_text(conn.active)}, "passive": {_end_text(conn.passive)}, '
        f'"opened": {_time(conn.opened)}, "established": {_time(conn.established)}, '
        f'"closed": {_time(conn.closed)}, "duration": {_time(duration)}, '
        f'"messages": [{messages_text(conn.steps)}]}}'
    )


def messages_text(steps: Iterable[Step]) -> str:
    """The messages of a connection as JSON objects with commas between them."""
    return b", ".join([_message_text(step) for step in steps]).decode("ascii")


def fields_object(fields: Any) -> dict[str, Any]:
    """The fields of a message by name; None where the capture cut one off."""
    return {name: values.plain(name, value) for name, value in zip(fields._fields, fields, strict=True)}


def _end_text(end: End) -> str:
    return (
        f'{{"name": {quoted(formatting.end_name(end))}, {_port_text(end.ca_guid, end.address)}, '
        f'"qpn": {"null" if end.qpn is None else _QPN % end.qpn}, '
        f'"comm_id": {"null" if end.comm_id is None else _COMM_ID % end.comm_id}, "state": "{end.state}", '
        f'"timewait_until": {_time(None if end.timewait is None else end.timewait.likely)}, '
        f'"implementation": {"null" if end.implementation is None else quoted(end.implementation.name)}}}'
    )


@lru_cache(4096)
def _port_text(ca_guid: int | None, address: Address) -> str:
    """What is the same for all connections of a port."""
    guid = "null" if ca_guid is None else f'"{formatting.guid(ca_guid)}"'
    gid = "null" if address.gid is None else f'"{formatting.gid(address.gid)}"'
    return f'"ca_guid": {guid}, "gid": {gid}, "lid": {"null" if address.lid is None else address.lid}'


def _time(ns: int | None) -> str:
    """A time or duration."""
    return "null" if ns is None else f'"{formatting.seconds(ns)}"'


class _MessageFormat:
    """How the messages of one type are written."""

    def __init__(self, fields: Any) -> None:
        """`fields`: those of any message of the type that is whole."""
        names: tuple[str, ...] = fields._fields
        writers = [_writer(name, value) for name, value in zip(names, fields, strict=True)]
        formats = [
            values.number_format(name) if writer is None else "%b" for name, writer in zip(names, writers, strict=True)
        ]
        places = [
            f'"{name}": {written}' if written == values.NUMBER else f'"{name}": "{written}"'
            for name, written in zip(names, formats, strict=True)
        ]
        self._writers = [(place, writer) for place, writer in enumerate(writers) if writer is not None]
        self._format = f"{_MESSAGE}{', '.join(places)}}}}}".encode("ascii")

    def text(self, step: Step) -> bytes:
        """A message. TypeError where a field was cut off."""
        message, first = step.message, step.retransmission_of
        fields = [*message.fields]
        for place, writer in self._writers:
            fields[place] = writer(fields[place])
        return self._format % (
            message.frame,
            message.file,
            message.time // formatting.SECOND,
            message.time % formatting.SECOND,
            message.type.encode("ascii"),
            step.sender.encode("ascii"),
            b"null" if first is None else b"%d" % first.message.frame,
            *fields,
        )


_FORMATS: dict[type, _MessageFormat] = {}  # by the class of the fields


def _message_text(step: Step) -> bytes:
    message = step.message
    fields = message.fields
    written = _FORMATS.get(type(fields))
    if written is None:
        if None in fields:
            return _cut_message_text(step)
        written = _FORMATS[type(fields)] = _MessageFormat(fields)
    try:
        return written.text(step) if message.time >= 0 else _cut_message_text(step)
    except TypeError:
        return _cut_message_text(step)


def _cut_message_text(step: Step) -> bytes:
    """A message of which a field may be None, or whose time is before the epoch."""
    message, first = step.message, step.retransmission_of
    written = {
        "frame": message.frame,
        "file": message.file,
        "time": formatting.seconds(message.time),
        "type": message.type,
        "sender": step.sender,
        "retransmission_of": None if first is None else first.message.frame,
        "fields": fields_object(message.fields),
    }
    return json.dumps(written).encode("ascii")


def _writer(name: str, value: Any) -> Callable[[Any], bytes] | None:
    """What writes values of a field as values.plain does, given one of them; None: they are numbers in a format."""
    if isinstance(value, bytes):
        return _gid if len(value) == 16 and values.ends_in(name, "gid") else _hexadecimal
    return _guid if values.ends_in(name, "guid") else None


@lru_cache(4096)
def _gid(value: bytes) -> bytes:
    return formatting.gid(bytes(value)).encode("ascii")  # bytes(None) is a TypeError


@lru_cache(4096)
def _guid(value: int) -> bytes:
    return guid_text(value).encode("ascii")


def _hexadecimal(value: bytes) -> bytes:
    return _ZEROS.get(value) or hexlify(value)
