"""The JSON of messages: where and when each was seen, and its fields by name.

A capture may hold hundreds of thousands of messages with up to 55 fields each, so no object is made of each message.
From the object of one a template is made, in which the values are left open that every connection has its own of; a
compiled function fills them in. The other values (timers, flags, paths) repeat from message to message of an
application, and a template is remembered by them. Templates are bytes: `%` finds the open places in bytes several
times faster than in str.
"""

from __future__ import annotations

import functools
import json
import re
from binascii import hexlify
from collections.abc import Callable, Iterable
from itertools import pairwise
from string import Template
from typing import Any

from ibcmtool import formatting
from ibcmtool.model import CmMessage, Step
from ibcmtool.reports import values

# Ends of the names of fields that every connection has its own values in; other fields may be equal in many messages.
_OWN_NUMBERS = ("comm_id", "request_id", "qpn", "psn", "flow_label")
_OWN_BYTES = ("data",)

_MOST_TEMPLATES = 4096  # remembered per message type, up to some kB each
_ZEROS = {bytes(size): hexlify(bytes(size)) for size in range(233)}  # what most private data is

_BARE = "\0"  # before a format that stands without quotes
_BARE_QUOTED = re.compile(rb'"\\u0000(%\w)"')  # what JSON makes of it

_Fill = Callable[[Step, CmMessage, Any], bytes]  # (step, its message, its fields)
_SOURCE = Template("""
def fill(step, message, fields):
    time = message.time
    first = step.retransmission_of
    if time >= 0:
        try:
            return template(message.file, message.type, step.sender, $others) % (
                message.frame, time // SECOND, time % SECOND, b"null" if first is None else b"%d" % first.message.frame,
                $own
            )
        except TypeError:
            pass  # a field was cut off: it is None
    return plainly(step)
""")


def messages_text(steps: Iterable[Step]) -> str:
    """The messages of a connection as JSON objects with commas between them."""
    texts = []
    for step in steps:
        message = step.message
        fields = message.fields
        texts.append(_FILLS[type(fields)](step, message, fields))
    return b", ".join(texts).decode("ascii")


def fields_object(fields: Any) -> dict[str, Any]:
    """The fields of a message by name; None where the capture cut one off."""
    return {name: values.plain(name, value) for name, value in zip(fields._fields, fields, strict=True)}


def _text(frame: Any, file: int, time: str, type_: str, sender: str, first: Any, fields: Any) -> bytes:
    """One message; `first` is the frame that it repeats. For a template, values may be formats."""
    made = {
        "frame": frame,
        "file": file,
        "time": time,
        "type": type_,
        "sender": sender,
        "retransmission_of": first,
        "fields": fields_object(fields),
    }
    return json.dumps(made).encode("ascii")


def _plainly(step: Step) -> bytes:
    message, first = step.message, step.retransmission_of
    repeated = None if first is None else first.message.frame
    time = formatting.seconds(message.time)
    return _text(message.frame, message.file, time, message.type, step.sender, repeated, message.fields)


class _Fills(dict[type, _Fill]):
    """The functions that write messages, by the type of their fields."""

    def __missing__(self, fields_type: type) -> _Fill:
        made = self[fields_type] = _compile(fields_type)
        return made


_FILLS = _Fills()


def _compile(fields_type: Any) -> _Fill:
    names: tuple[str, ...] = fields_type._fields
    formats = [_format(name) for name in names]
    own = [place for place, written in enumerate(formats) if written]
    runs = [slice(before + 1, after) for before, after in pairwise([-1, *own, len(names)]) if after - before > 1]

    @functools.lru_cache(_MOST_TEMPLATES)
    def template(file: int, type_: str, sender: str, *others: tuple[Any, ...]) -> bytes:
        whole: list[Any] = formats.copy()
        for run, its_values in zip(runs, others, strict=True):
            whole[run] = its_values
        number, anything = f"{_BARE}%d", f"{_BARE}%b"
        text = _text(number, file, "%d.%09d", type_, sender, anything, fields_type(*whole))
        return _BARE_QUOTED.sub(rb"\1", text)

    source = _SOURCE.substitute(
        others=", ".join(f"fields[{run.start}:{run.stop}]" for run in runs),
        own=", ".join(_value(formats[place], f"fields[{place}]") for place in own),
    )
    namespace: dict[str, Any] = {
        "template": template,
        "plainly": _plainly,
        "SECOND": formatting.SECOND,
        "hexlify": hexlify,
        "zeros": _ZEROS.get,
    }
    exec(source, namespace)  # the source holds what stands in this module, and numbers
    compiled: _Fill = namespace["fill"]
    return compiled


def _format(name: str) -> str:
    """How a template leaves the field open; empty where its value is part of the template."""
    if any(values.ends_in(name, ending) for ending in _OWN_BYTES):
        return "%b"
    if any(values.ends_in(name, ending) for ending in _OWN_NUMBERS):
        written = values.number_format(name)
        return _BARE + written if written == values.NUMBER else written
    return ""


def _value(written: str, field: str) -> str:
    """What fills a place with such a format."""
    return f"zeros({field}) or hexlify({field})" if written == "%b" else field
