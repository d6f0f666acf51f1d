"""The comparison, field by field."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ibcmtool.packets import CmMessage, Frame
from ibcmtool.sources.files import Capture
from ibcmtool.verify import tshark
from ibcmtool.verify.faults import MISPLACED, NOT_A_MAD, known
from ibcmtool.verify.fields import LAYERS, MISPLACED_QPN, WIRESHARK, Field
from ibcmtool.verify.tshark import Shown
from ibcmtool.wire import detail
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.detail import LayerDetail

Value = int | bytes | None


class Difference(NamedTuple):
    """A field that Wireshark shows otherwise."""

    frame: int
    field: str  # layer.field, or what the frame as a whole is about
    ours: str
    wireshark: str


@dataclass
class Comparison:
    """The outcome for one capture."""

    tshark_version: str
    frames: int = 0
    fields: int = 0
    differences: list[Difference] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)  # known faults of Wireshark, each with how often it was met


def verify(path: str, capture: Capture, progress: Callable[[int], None] | None = None) -> Comparison:
    """Compare the CM frames of a capture; tshark finds the same bytes at `path`. Raises TsharkError, SourceError.

    `progress` is told the numbers of the frames compared.
    """
    result = Comparison(tshark.version())
    theirs = tshark.shown(path)
    decode = Decoder()
    expected = next(theirs, None)
    for frame in capture:
        message = decode(frame)
        ours = message if isinstance(message, CmMessage) else None
        seen = None
        if expected is not None and expected.number == frame.number:
            seen, expected = expected, next(theirs, None)
        if ours is not None or seen is not None:
            _compare_frame(result, frame, ours, seen)
            if progress is not None:
                progress(frame.number)
    return result


def _compare_frame(result: Comparison, frame: Frame, message: CmMessage | None, seen: Shown | None) -> None:
    result.frames += 1
    if seen is None:
        result.differences.append(Difference(frame.number, "frame", "CM message", "none"))
        return
    layers = list(detail.layers(detail.dissect(frame)))
    if message is not None:
        compare(result, frame.number, layers, message, seen)
    elif _for_another_queue_pair(layers):
        result.faults[NOT_A_MAD] += 1
    else:
        result.differences.append(Difference(frame.number, "frame", "no CM message", "CM message"))


def _for_another_queue_pair(layers: Iterable[LayerDetail]) -> bool:
    """Whether our own dissection shows so; where it did not reach the packet, or the field, nothing does."""
    values = {(layer.layer, item.name): item.value for layer in layers for item in layer.fields}
    dest_qp, opcode = values.get(("BTH", "dest_qp")), values.get(("BTH", "opcode"))
    if dest_qp is None or opcode is None:
        return False
    q_key = values.get(("DETH", "q_key"))
    return dest_qp != 1 or opcode not in (0x64, 0x65) or (q_key is not None and q_key != 0x80010000)


def compare(result: Comparison, number: int, layers: Iterable[LayerDetail], message: CmMessage, seen: Shown) -> None:
    """Compare one frame: our layers, the same fields as the bulk reader has them, and what Wireshark shows."""
    read = message.fields._asdict()
    for layer in layers:
        if layer.layer not in LAYERS:
            continue
        values = {item.name: _plain(item.value) for item in layer.fields}
        present = {name: value for name, value in values.items() if value is not None}
        for name, ours in values.items():
            if layer.layer == f"CM_{message.type}" and _plain(read[name]) != ours:
                where = f"{layer.layer}.{name}, layer and bulk reader"
                result.differences.append(
                    Difference(number, where, _text(ours), f"(reader) {_text(_plain(read[name]))}")
                )
            key = (layer.layer, name)
            for shown_as, theirs in _shown(key, ours, seen):
                result.fields += 1
                fault = _fault(key, present, ours, theirs, shown_as, result.tshark_version)
                if fault is not None:
                    result.faults[fault] += 1
                elif ours != theirs:
                    result.differences.append(Difference(number, ".".join(key), _text(ours), _text(theirs)))


def _shown(key: Field, ours: Value, seen: Shown) -> Iterator[tuple[str, Value]]:
    """The names under which Wireshark shows our field in this frame, and the values, in our type."""
    for name in WIRESHARK.get(key, ()):
        theirs = seen.octets(name) if isinstance(ours, bytes) else seen.integer(name)
        if theirs is not None:
            yield name, theirs


def _fault(
    key: Field, values: dict[str, int | bytes], ours: Value, theirs: Value, shown_as: str, version: str
) -> str | None:
    if ours == theirs:
        return MISPLACED if shown_as == MISPLACED_QPN else None
    if ours is None:
        return None
    return next((fault.why for fault in known(key, version) if fault.predicted(values) == theirs), None)


def _plain(value: int | str | bytes | None) -> Value:
    """A number, or bytes: an address as its octets."""
    if not isinstance(value, str):
        return value
    if ":" in value or "." in value:
        return ipaddress.ip_address(value).packed
    return bytes.fromhex(value)


def _text(value: Value) -> str:
    if value is None:
        return "cut off"
    return value.hex() if isinstance(value, bytes) else f"{value} (0x{value:x})"
