"""The two checksums at the end of an InfiniBand packet, over plain bytes.

ICRC (invariant CRC, 4 bytes) covers what no switch or router may change: CRC-32 of the packet from its network header
to the end of the padded payload, with every field that may change on the way replaced by ones (IBA vol. 1, 7.8.1;
RoCE: annexes A16 and A17). Eight bytes of ones stand in the LRH's place, also in front of a GRH: a router makes a new
LRH. Only a packet without GRH has its own LRH covered. VCRC (variant CRC, 2 bytes) covers the packet of one native link
from the LRH through the ICRC (IBA vol. 1, 7.8.2).

Both checksums are handed out as the bytes that stand on the wire: least significant byte first.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal
from zlib import crc32

Network = Literal["ipv4", "ipv6", "grh", "lrh"]  # the header that the ICRC starts at

_NO_LRH: Final = crc32(b"\xff" * 8)
_RESIDUE: Final = 0x2144DF1C  # CRC-32 of any bytes that end with their own CRC-32


def icrc_of(data: bytes, network: int, transport: int, end: int, kind: Network) -> bytes:
    """The right ICRC of a packet: network header at offset `network`, BTH at `transport`, ICRC at `end`.

    The network header is the IP header, the GRH, or, in a packet without GRH, the LRH; `kind` says which.
    """
    return _crc(data, network, transport, end, kind).to_bytes(4, "little")


def icrc_ok(data: bytes, network: int, transport: int, end: int, kind: Network) -> bool:
    """Whether the four bytes at `end` are the right ICRC (False where they are missing). Arguments as for `icrc_of`."""
    return end + 4 <= len(data) and _crc(data, network, transport, end + 4, kind) == _RESIDUE


def _crc(data: bytes, network: int, transport: int, end: int, kind: Network) -> int:
    """CRC-32 from the network header to `end`, with ones in every bit that the ICRC does not cover."""
    packet = bytearray(data[network:end])
    bth = transport - network
    packet[bth + 4] = 0xFF  # FECN, BECN, reserved
    if kind == "lrh":
        packet[0] |= 0xF0  # virtual lane
        return crc32(packet)
    if kind == "ipv4":
        packet[1] = packet[8] = packet[10] = packet[11] = 0xFF  # type of service, time to live, checksum
    else:
        packet[0] |= 0x0F  # traffic class, flow label
        packet[1] = packet[2] = packet[3] = packet[7] = 0xFF  # and hop limit
    if kind != "grh":
        packet[bth - 2] = packet[bth - 1] = 0xFF  # UDP checksum
    return crc32(packet, _NO_LRH)


def vcrc_of(data: bytes) -> bytes:
    """The right VCRC of the bytes from the LRH through the ICRC."""
    crc, table = 0xFFFF, _vcrc_table()
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return (crc ^ 0xFFFF).to_bytes(2, "little")


@cache  # RoCE has no VCRC
def _vcrc_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0xD008 if crc & 1 else 0)  # polynomial 0x100B, least significant bit first
        table.append(crc)
    return table
