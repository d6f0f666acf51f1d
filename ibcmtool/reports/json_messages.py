"""The JSON of the messages of a connection, with all their fields by name.

An analysis may have hundreds of thousands of messages with up to 55 fields each, of which few differ from one message
to the next: the parameters of a path, of a service or of a host return in each of its messages. So the text of a whole
message is made from its bytes, run by run of neighbouring fields, and the text of a run is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from dissectors.recognition import CM_CLASS_VERSION, MAD_SIZE
from dissectors.slots import Slot
from ibcmtool import formatting
from ibcmtool.messages import MESSAGES
from ibcmtool.model import CmMessage, Step
from ibcmtool.reports import values
from ibcmtool.wire.readers import field_value, layer_of, layer_size, layout

_MAD_HEADER = layer_size("MAD")
_MOST_REMEMBERED = 4096  # texts of a run
# What differs from connection to connection would spoil the memory of its neighbours; it is a run of its own.
_OWN = frozenset({"local_comm_id", "remote_comm_id", "request_id", "local_qpn", "remote_qpn", "starting_psn"})


def messages_text(steps: Iterable[Step]) -> str:
    """The messages of a connection as JSON objects with commas between them."""
    return ", ".join([_message_text(step) for step in steps])


def fields_object(fields: Any) -> dict[str, Any]:
    """The fields of a message by name; None where the capture cut one off."""
    return {name: values.plain(name, value) for name, value in zip(fields._fields, fields, strict=True)}


def _message_text(step: Step) -> str:
    message, first = step.message, step.retransmission_of
    return (
        f'{{"frame": {message.frame}, "file": {message.file}, "time": "{formatting.seconds(message.time)}", '
        f'"type": "{message.type}", "sender": "{step.sender}", '
        f'"retransmission_of": {"null" if first is None else first.message.frame}, '
        f'"fields": {{{_fields_text(message)}}}}}'
    )


def _fields_text(message: CmMessage) -> str:
    mad = message.mad
    if len(mad) != MAD_SIZE or message.class_version != CM_CLASS_VERSION or message.type not in MESSAGES:
        return json.dumps(fields_object(message.fields))[1:-1]
    runs = _RUNS.get(message.type)
    if runs is None:
        runs = _RUNS[message.type] = _runs(message.type)
    return ", ".join([run.text(mad) for run in runs])


class _Run:
    """Neighbouring fields from one byte boundary to another."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        last = slots[-1]
        self._slots = slots
        self._start = _MAD_HEADER + slots[0].bit_offset // 8
        self._stop = _MAD_HEADER + (last.bit_offset + last.width) // 8
        self._texts: dict[bytes, str] = {}

    def text(self, mad: bytes) -> str:
        """The fields of this run in a whole MAD, as members of a JSON object."""
        content = mad[self._start : self._stop]
        text = self._texts.get(content)
        if text is None:
            if len(self._texts) >= _MOST_REMEMBERED:
                self._texts.clear()
            text = self._texts[content] = self._written(mad[_MAD_HEADER:])
        return text

    def _written(self, data: bytes) -> str:
        fields = {slot.name: values.plain(slot.name, field_value(slot, data)) for slot in self._slots}
        return json.dumps(fields)[1:-1]


_RUNS: dict[str, list[_Run]] = {}  # by message type


def _runs(message_type: str) -> list[_Run]:
    runs: list[_Run] = []
    run: list[Slot] = []
    for slot in layout(layer_of(message_type)):
        alone = slot.name in _OWN or slot.kind == "bytes"
        if alone and run:
            runs.append(_Run(run))
            run = []
        run.append(slot)
        if alone:
            runs.append(_Run(run))
            run = []
    return [*runs, _Run(run)] if run else runs
