"""Private data without what names a host: the numbers of known protocols stay, all other bytes become zero."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import private_data
from dissectors.fields import WireLayer, layout
from dissectors.slots import Slot
from ibcmtool.redaction.pseudonyms import Pseudonyms

LONGEST_NUMBER = 32  # bits; longer ones are addresses, keys and identities
IPV4_WIDTH = 32
ADDRESSES = ("source", "destination")
SECRETS = frozenset({"target_key", "data_key", "connection_tag"})


def redacted(service_id: int, message_type: str, request_data: bytes, data: bytes, names: Pseudonyms) -> bytes:
    """The private data of a message; request_data: that of its REQ, which tells the protocol."""
    protocol = private_data.recognise(service_id, request_data)
    kept = bytearray(len(data))
    if protocol is None:
        return bytes(kept)
    layer = private_data.dissect(protocol, message_type, data)
    at = 0
    while isinstance(layer, WireLayer):
        slots = layout(type(layer))
        for begin, end, value in _kept(slots, data[at:], names):
            kept[at + begin : at + end] = value
        at += (slots[-1].bit_offset + slots[-1].width) // 8
        layer = layer.payload
    return bytes(kept)


def _kept(slots: tuple[Slot, ...], data: bytes, names: Pseudonyms) -> Iterator[tuple[int, int, bytes]]:
    """What stays of a layer: begin, end (bytes) and value of each piece. Bit fields go with all of their bytes."""
    for slot in slots:
        begin, end = slot.bit_offset // 8, (slot.bit_offset + slot.width + 7) // 8
        value = data[begin:end]
        if end > len(data) or slot.name in SECRETS:
            continue
        if slot.kind == "gid":
            yield begin, end, names.gid(value)
        elif slot.name in ADDRESSES and slot.width == IPV4_WIDTH:
            yield begin, end, names.ipv4(value)
        elif slot.name.endswith("port_id"):  # two GUIDs, mostly
            guids = (int.from_bytes(half, "big") for half in (value[:8], value[8:]))
            yield begin, end, b"".join(names.guid(guid).to_bytes(8, "big") for guid in guids)
        elif slot.kind in ("number", "little") and slot.width <= LONGEST_NUMBER:
            yield begin, end, value
