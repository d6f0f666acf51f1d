"""Fields of layers by their names: where they stand, and what they hold, whole or cut.

No offset and no width is written down here: they come from layouts.py, which a script writes from the layers (a test
holds it equal to them), so that reading a capture need not load Scapy. scripts/readers.py writes message_readers.py and
header_readers.py, which read what every frame or message needs: several times as fast, and only where nothing is cut.
"""

from __future__ import annotations

import functools

from dissectors.slots import Slot, kept
from ibcmtool.messages import MESSAGES, Fields, UnknownMessage
from ibcmtool.wire import Buffer
from ibcmtool.wire.layouts import LAYOUTS


@functools.cache
def layout(layer: str) -> tuple[Slot, ...]:
    """The fields of a layer, by its class name, in wire order."""
    return tuple(Slot(*slot) for slot in LAYOUTS[layer])


def layer_size(layer: str) -> int:
    """The bytes that a layer's fields take on the wire."""
    last = layout(layer)[-1]
    return (last.bit_offset + last.width) // 8


def layer_of(message_type: str) -> str:
    """The layer of a message type, as in `CmMessage.type`."""
    return message_type if message_type == "ClassPortInfo" else f"CM_{message_type}"


def field_values(layer: str, data: Buffer) -> dict[str, int | bytes | None]:
    """The fields of a layer at the start of `data`: ints, bytes for GIDs and raw bytes.

    Where the data end before the layer does: None for fields beyond, raw bytes as far as there are.
    """
    return {slot.name: kept(slot, field_value(slot, data), len(data)) for slot in layout(layer)}


def field_value(slot: Slot, data: Buffer) -> int | bytes:
    """The value of one field of the layer at the start of `data`, from the bytes that there are."""
    end = slot.bit_offset + slot.width
    raw = bytes(data[slot.bit_offset // 8 : (end + 7) // 8])
    if slot.kind in ("gid", "bytes"):
        return raw
    number = int.from_bytes(raw, "little" if slot.kind == "little" else "big")
    return number >> -end % 8 & (1 << slot.width) - 1


def read_message(message_type: str, data: bytes) -> Fields:
    """The fields of a message of any type and length, from what is behind the MAD header."""
    message = MESSAGES.get(message_type)
    if message is None:
        return UnknownMessage(data)
    return message._make(field_values(layer_of(message_type), data).values())
