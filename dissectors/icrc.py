"""The two checksums at the end of an InfiniBand packet, over plain bytes.

ICRC (invariant CRC, 4 bytes) covers what no switch or router may change: CRC-32 of the packet from its network header
to the end of the padded payload, with every field that may change on the way replaced by ones (IBA vol. 1, 7.8.1;
RoCE: annexes A16 and A17). Eight bytes of ones stand in the LRH's place, also in front of a GRH: a router makes a new
LRH. Only a packet without GRH has its own LRH covered. VCRC (variant CRC, 2 bytes) covers the packet of one native link
from the LRH through the ICRC (IBA vol. 1, 7.8.2).

Both checksums are handed out as the bytes that stand on the wire: least significant byte first.
"""

from __future__ import annotations

import functools
from typing import Literal
from zlib import crc32

Network = Literal["ipv4", "ipv6", "grh", "lrh"]  # the header that the ICRC starts at

_NO_LRH = crc32(b"\xff" * 8)
_BTH_MASKED = 5  # bytes of the BTH up to and with the one that may change (FECN, BECN, reserved)


def icrc_of(data: bytes, network: int, transport: int, end: int, kind: Network) -> bytes:
    """The right ICRC of a packet: network header at offset `network`, BTH at `transport`, ICRC at `end`.

    The network header is the IP header, the GRH, or, in a packet without GRH, the LRH; `kind` says which.
    """
    width = transport + _BTH_MASKED - network
    masked = int.from_bytes(data[network : transport + _BTH_MASKED], "big") | _mask(kind, width)
    start = crc32(masked.to_bytes(width, "big"), 0 if kind == "lrh" else _NO_LRH)
    return crc32(data[transport + _BTH_MASKED : end], start).to_bytes(4, "little")


def icrc_ok(data: bytes, network: int, transport: int, end: int, kind: Network) -> bool:
    """Whether the four bytes at `end` are the right ICRC (False where they are missing). Arguments as for `icrc_of`."""
    return data[end : end + 4] == icrc_of(data, network, transport, end, kind)


@functools.lru_cache(maxsize=256)
def _mask(kind: Network, width: int) -> int:
    """Ones in every bit of the headers (through byte 4 of the BTH, `width` bytes) that the ICRC does not cover."""
    mask = bytearray(width)
    mask[-1] = 0xFF
    if kind == "lrh":
        mask[0] = 0xF0  # virtual lane
    elif kind == "ipv4":
        mask[1] = mask[8] = mask[10] = mask[11] = 0xFF  # type of service, time to live, checksum
    else:
        mask[:4] = b"\x0f\xff\xff\xff"  # traffic class, flow label
        mask[7] = 0xFF  # hop limit
    if kind in ("ipv4", "ipv6"):
        mask[-_BTH_MASKED - 2 : -_BTH_MASKED] = b"\xff\xff"  # UDP checksum
    return int.from_bytes(mask, "big")


def vcrc_of(data: bytes) -> bytes:
    """The right VCRC of the bytes from the LRH through the ICRC."""
    crc = 0xFFFF
    for byte in data:
        crc = crc >> 8 ^ _VCRC_TABLE[(crc ^ byte) & 0xFF]
    return (crc ^ 0xFFFF).to_bytes(2, "little")


def _vcrc_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0xD008 if crc & 1 else 0)  # polynomial 0x100B, least significant bit first
        table.append(crc)
    return table


_VCRC_TABLE = _vcrc_table()
