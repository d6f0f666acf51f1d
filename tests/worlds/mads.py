"""MADs by their fields, fast: each kind is built once by its layer, then only the bits that differ are set."""

from __future__ import annotations

import functools
from struct import Struct

from dissectors.cm import CM_LAYERS
from dissectors.mad import MAD
from dissectors.recognition import CM_ATTRIBUTES
from ibcmtool.messages import Fields
from ibcmtool.wire.message_readers import MESSAGE_READERS
from ibcmtool.wire.readers import layout, read_message

MAD_BITS = 2048
HEADER = 24  # bytes in front of a message's fields
ATTRIBUTES = {name: number for number, name in CM_ATTRIBUTES.items()}
ETHERNET = 1  # link type

_headers = Struct("!6s6sH BBHHHBBH4s4s HHHH BBHI I II").pack


@functools.cache
def _template(kind: str) -> int:
    return int.from_bytes(bytes(MAD(attribute_id=ATTRIBUTES[kind]) / CM_LAYERS[kind]()), "big")


@functools.cache
def _places(layer: str, behind: int) -> dict[str, tuple[int, int]]:
    """For each field its distance from the end of the MAD, and its mask; both in bits."""
    return {
        slot.name: (MAD_BITS - behind * 8 - slot.bit_offset - slot.width, (1 << slot.width) - 1)
        for slot in layout(layer)
    }


def mad(kind: str, tid: int, fields: dict[str, int | bytes]) -> bytes:
    """The 256 bytes of a message; what is not given is as Linux has it."""
    whole = _template(kind)
    places = _places(f"CM_{kind}", HEADER)
    for name, value in fields.items():
        distance, mask = places[name]
        number = (
            int.from_bytes(value.ljust((mask.bit_length() + 7) // 8, b"\0"), "big")
            if isinstance(value, bytes)
            else value
        )
        whole = whole & ~(mask << distance) | number << distance
    distance, mask = _places("MAD", 0)["tid"]
    return (whole & ~(mask << distance) | tid << distance).to_bytes(MAD_BITS // 8, "big")


def read(kind: str, content: bytes) -> Fields:
    """What the decoder makes of a MAD, whole or cut."""
    if len(content) * 8 == MAD_BITS:
        return MESSAGE_READERS[kind](content, HEADER)
    return read_message(kind, content[HEADER:])


def headers(source_mac: bytes, destination_mac: bytes, source_ip: bytes, destination_ip: bytes, psn: int) -> bytes:
    """Ethernet, IPv4, UDP, BTH and DETH of a MAD between two QP1s (RoCE v2)."""
    udp = 8 + 12 + 8 + MAD_BITS // 8 + 4
    return _headers(
        *(destination_mac, source_mac, 0x0800),
        *(0x45, 0, 20 + udp, 0, 0x4000, 64, 17, 0, source_ip, destination_ip),
        *(0xC000, 4791, udp, 0),
        *(0x64, 0, 0xFFFF, 1, psn),
        *(0x80010000, 1),
    )
