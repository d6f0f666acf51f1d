"""Readers: functions over bytes, compiled from the field lists of the layers in `dissectors`.

No offset and no width is written down here: they come from layouts.py, which a script writes from the layers (a test
holds it equal to them), so that reading a capture need not load Scapy. A reader unpacks with one `struct` call, looks
bytes that hold several fields up in tables, and takes other bit fields out of whole words: much faster than building
the Scapy layer; the values are the same.
"""

from __future__ import annotations

import functools
import struct
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dissectors.slots import Slot, kept
from ibcmtool.messages import MESSAGES
from ibcmtool.wire.layouts import LAYOUTS

Buffer = bytes | memoryview
Reader = Callable[[Buffer, int], Any]  # (buffer, offset of the layer in it)

_WORDS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # struct codes by size in bytes
_LONGEST_WORD = 64  # bits
# Instructions, relative to one more byte in the struct call.
_WORD_COSTS = {1: 1, 2: 2, 4: 3, 8: 3}  # by size in bytes
_BYTES_COST = 2  # a bytes object
_CONVERT_COST = 9  # int.from_bytes of one
_TABLE_COST = 2
_SHIFT_COST, _MASK_COST = 4, 2
_LONG_COST = 5  # either, in a word of more than 4 bytes


@functools.cache
def layout(layer: str) -> tuple[Slot, ...]:
    """The fields of a layer, by its class name, in wire order."""
    return tuple(Slot(*slot) for slot in LAYOUTS[layer])


def layer_size(layer: str) -> int:
    """The bytes that a layer's fields take on the wire."""
    last = layout(layer)[-1]
    return (last.bit_offset + last.width) // 8


@functools.cache
def reader(layer: str, *names: str) -> Reader:
    """A reader of a layer's fields, or of the named ones only, as a named tuple: of a CM message, its class.

    Numbers are ints; GIDs and raw bytes are `bytes`. It raises struct.error where the buffer ends before the last
    field that it reads.
    """
    slots = layout(layer)
    wanted = names or tuple(slot.name for slot in slots)
    message = None if names else MESSAGES.get(layer.removeprefix("CM_"))
    return compile_reader(slots, wanted, message or namedtuple(layer, wanted))  # noqa: PYI024 (known at run time)


def stack_reader(layers: Sequence[str], *names: str) -> Reader:
    """A reader of some fields of layers that follow each other, as a plain tuple. The first field of a name counts."""
    slots: dict[str, Slot] = {}
    start = 0
    for layer in layers:
        for slot in layout(layer):
            name = slot.name if slot.name in names and slot.name not in slots else f"{layer}.{slot.name}"
            slots[name] = slot._replace(name=name, bit_offset=start + slot.bit_offset)
        start += layer_size(layer) * 8
    return compile_reader(tuple(slots.values()), names, None)


def read_cut(layer: str, data: bytes) -> Any:
    """All fields of a layer that was cut: None for those beyond the cut, raw bytes as far as they were captured."""
    whole = reader(layer)(data.ljust(layer_size(layer), b"\0"), 0)
    return whole._make(kept(slot, value, len(data)) for slot, value in zip(layout(layer), whole, strict=True))


def compile_reader(slots: tuple[Slot, ...], wanted: tuple[str, ...], result: type | None) -> Reader:
    """Python code that reads the wanted slots, compiled; a plain tuple comes out where `result` is None."""
    codes: list[str] = []
    values: dict[str, str] = {}
    tables: dict[str, list[tuple[int, ...]]] = {}
    lines = []
    for segment in _segments(slots, frozenset(wanted)):
        size = (segment[-1].bit_offset + segment[-1].width - segment[0].bit_offset) // 8
        if not any(slot.name in wanted for slot in segment):
            codes.append(f"{size}x")
            continue
        word = f"w{len(codes)}"
        if _fills_byte(segment):
            table = f"t{len(codes)}"
            tables[table] = _byte_fields(tuple(slot.width for slot in segment))
            names = [f"{word}_{index}" for index in range(len(segment))]
            lines.append(f"{', '.join(names)} = {table}[{word}]")
            codes.append("B")
            values.update(zip((slot.name for slot in segment), names, strict=True))
            continue
        numbers = all(slot.kind == "number" for slot in segment)
        codes.append(_WORDS[size] if numbers and size in _WORDS else f"{size}s")
        if codes[-1][-1] == "s" and segment[0].kind in ("number", "little"):
            order = "little" if segment[0].kind == "little" else "big"
            word = f"from_bytes({word}, '{order}')"
        for slot in segment:
            right = segment[0].bit_offset + size * 8 - slot.bit_offset - slot.width
            value = f"{word} >> {right}" if right else word
            if slot is not segment[0]:
                value = f"({value}) & {(1 << slot.width) - 1}"
            values[slot.name] = value
    while codes[-1].endswith("x"):
        codes.pop()
    words = ", ".join(f"w{index}" for index, code in enumerate(codes) if not code.endswith("x"))
    fields = ", ".join(values[name] for name in wanted)
    returned = f"({fields},)" if result is None else f"new(result, ({fields},))"
    body = [f"{words}, = unpack(buffer, offset)", *lines, f"return {returned}"]
    source = "\n    ".join(["def read(buffer, offset):", *body])
    namespace: dict[str, Any] = {
        **tables,
        "unpack": struct.Struct("!" + "".join(codes)).unpack_from,
        "from_bytes": int.from_bytes,
        "new": tuple.__new__,
        "result": result,
    }
    exec(source, namespace)  # the source holds field names and numbers of our own layers only
    compiled: Reader = namespace["read"]
    return compiled


def _segments(slots: tuple[Slot, ...], wanted: frozenset[str]) -> list[tuple[Slot, ...]]:
    """Divide a layer at byte borders into the pieces that cost least to read, one struct code each."""
    best: list[tuple[float, tuple[Slot, ...]]] = [(0, ())] * (len(slots) + 1)  # cost from here on, first piece
    for first in reversed(range(len(slots))):
        best[first] = min(
            ((_cost(piece, wanted) + best[first + len(piece)][0], piece) for piece in _pieces(slots, first)),
            key=lambda choice: choice[0],
        )
    found = []
    at = 0
    while at < len(slots):
        found.append(best[at][1])
        at += len(best[at][1])
    return found


def _pieces(slots: tuple[Slot, ...], first: int) -> Iterator[tuple[Slot, ...]]:
    """One slot, or several that a word can hold."""
    yield slots[first : first + 1]
    for last in range(first + 1, len(slots)):
        if slots[last].bit_offset + slots[last].width - slots[first].bit_offset > _LONGEST_WORD:
            return
        yield slots[first : last + 1]


def _cost(segment: tuple[Slot, ...], wanted: frozenset[str]) -> float:
    width = segment[-1].bit_offset + segment[-1].width - segment[0].bit_offset
    numbers = all(slot.kind == "number" for slot in segment)
    if segment[0].bit_offset % 8 or width % 8:
        return float("inf")
    if not any(slot.name in wanted for slot in segment):
        return 0
    if len(segment) > 1 and not numbers:
        return float("inf")
    if _fills_byte(segment):
        return _WORD_COSTS[1] + _TABLE_COST
    size = width // 8
    if numbers and size in _WORD_COSTS:
        cost = _WORD_COSTS[size]
    else:
        cost = _BYTES_COST + (_CONVERT_COST if segment[0].kind in ("number", "little") else 0)
    shift, mask = (_SHIFT_COST, _MASK_COST) if size <= 4 else (_LONG_COST, _LONG_COST)
    for slot in segment:
        if slot.name in wanted:
            cost += (shift if slot is not segment[-1] else 0) + (mask if slot is not segment[0] else 0)
    return cost


def _fills_byte(segment: tuple[Slot, ...]) -> bool:
    """Whether these are several fields that share one byte."""
    return len(segment) > 1 and sum(slot.width for slot in segment) == 8


@functools.cache
def _byte_fields(widths: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The values of fields of these widths, by the byte that they share."""
    rights = [sum(widths[index + 1 :]) for index in range(len(widths))]
    return [
        tuple(byte >> right & (1 << width) - 1 for width, right in zip(widths, rights, strict=True))
        for byte in range(256)
    ]
