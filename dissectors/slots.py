"""Where a field stands in its layer, and what is left of it when the capture cut the layer. Plain Python, no Scapy."""

from __future__ import annotations

from typing import Any, NamedTuple


class Slot(NamedTuple):
    """Where a field stands in its layer."""

    name: str
    bit_offset: int
    width: int  # bits
    kind: str  # number | little (a little endian number) | gid | bytes


def kept(slot: Slot, value: Any, captured: int) -> Any:
    """What is left of a field's value when only `captured` bytes of its layer were captured."""
    if slot.bit_offset + slot.width <= captured * 8:
        return value
    if slot.kind == "bytes" and slot.bit_offset < captured * 8:
        return value[: captured - slot.bit_offset // 8]
    return None
