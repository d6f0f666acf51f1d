"""The JSON of the messages of a connection, with all their fields by name.

An analysis may have hundreds of thousands of messages with up to 55 fields each, of which few differ from one message
to the next: the parameters of a path, of a service or of a host return in each of its messages. So the text of a run of
neighbouring fields is made once, and then found again by the bytes that they have in the MAD.
"""

from __future__ import annotations

import functools
import json
from binascii import hexlify
from collections.abc import Iterable
from typing import Any

from dissectors.recognition import CM_CLASS_VERSION, MAD_SIZE
from dissectors.slots import Slot
from ibcmtool import formatting
from ibcmtool.messages import MESSAGES
from ibcmtool.model import Step
from ibcmtool.reports import values
from ibcmtool.wire.readers import field_value, layer_of, layer_size, layout

_START = '{"frame": %d, "file": %d, "time": "%d.%09d", "type": "'
_MAD_HEADER = layer_size("MAD")
_MOST_REMEMBERED = 4096  # texts of a run
# Integers that are others in each connection.
_DIFFERENT = frozenset({"local_comm_id", "remote_comm_id", "request_id", "local_qpn", "remote_qpn", "starting_psn"})
# A run also ends before these: a flow label is made from the QPNs, so that the fields beside it in its bytes are learnt
# again in each connection, and those alone.
_BEGIN_A_RUN = frozenset({"primary_flow_label", "primary_traffic_class"})


def messages_text(steps: Iterable[Step]) -> str:
    """The messages of a connection as JSON objects with commas between them."""
    return b", ".join([_message_text(step) for step in steps]).decode("ascii")


def fields_object(fields: Any) -> dict[str, Any]:
    """The fields of a message by name; None where the capture cut one off."""
    return {name: values.plain(name, value) for name, value in zip(fields._fields, fields, strict=True)}


def _message_text(step: Step) -> bytes:
    message = step.message
    if len(message.mad) == MAD_SIZE and message.class_version == CM_CLASS_VERSION and message.time >= 0:
        written = _format_of(message.type)
        if written is not None:
            return written.text(step)
    return _odd_message_text(step)


def _odd_message_text(step: Step) -> bytes:
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


class _Run:
    """Neighbouring fields of a message, from one byte boundary to another, that are mostly known from others."""

    def __init__(self, slots: list[Slot]) -> None:
        self.start = _MAD_HEADER + slots[0].bit_offset // 8
        self.stop = _MAD_HEADER + (slots[-1].bit_offset + slots[-1].width) // 8
        self.texts: dict[bytes, bytes] = {}
        self._slots = slots

    def learn(self, mad: bytes) -> bytes:
        """The fields as members of a JSON object; remembered."""
        if len(self.texts) >= _MOST_REMEMBERED:
            self.texts.clear()
        content, [slot, *others] = mad[self.start : self.stop], self._slots
        if slot.kind == "bytes" and not others:
            text = b'"%b": "%b"' % (slot.name.encode("ascii"), hexlify(content))  # private data are often new
        else:
            data = mad[_MAD_HEADER:]
            fields = {slot.name: values.plain(slot.name, field_value(slot, data)) for slot in self._slots}
            text = json.dumps(fields)[1:-1].encode("ascii")
        self.texts[content] = text
        return text


class _MessageFormat:
    """How whole messages of one type are written."""

    def __init__(self, message_type: str) -> None:
        # Each part of the format: the place of a field, or a run of fields.
        self._parts: list[tuple[int, _Run | None]] = []
        formats, run = [], list[Slot]()
        slots = layout(layer_of(message_type))
        for place, slot in enumerate(slots):
            if slot.name in _DIFFERENT:
                written = values.number_format(slot.name)
                formats.append(f'"{slot.name}": ' + (written if written == values.NUMBER else f'"{written}"'))
                self._parts.append((place, None))
                continue
            run.append(slot)
            following = slots[place + 1] if place + 1 < len(slots) else None
            if following is None or following.name in _DIFFERENT | _BEGIN_A_RUN or following.kind == "bytes":
                formats.append("%b")
                self._parts.append((place, _Run(run)))
                run = []
        self._format = (
            f'{_START}{message_type}", "sender": "%b", "retransmission_of": %b, "fields": {{{", ".join(formats)}}}}}'
        ).encode("ascii")

    def text(self, step: Step) -> bytes:
        """A whole message."""
        message, first = step.message, step.retransmission_of
        mad, fields, time = message.mad, message.fields, message.time
        parts: list[object] = [
            message.frame,
            message.file,
            time // formatting.SECOND,
            time % formatting.SECOND,
            step.sender.encode("ascii"),
            b"null" if first is None else b"%d" % first.message.frame,
        ]
        for place, run in self._parts:
            if run is None:
                parts.append(fields[place])
            else:
                parts.append(run.texts.get(mad[run.start : run.stop]) or run.learn(mad))
        return self._format % tuple(parts)


@functools.cache
def _format_of(message_type: str) -> _MessageFormat | None:
    return _MessageFormat(message_type) if message_type in MESSAGES else None
