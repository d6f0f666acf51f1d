"""Ethernet: destination, source, EtherType."""

from __future__ import annotations

import struct
from typing import Final

from ibcmtool.wire import Buffer, bpf
from ibcmtool.wire.link_record import HeaderPattern, LinkType, pattern_behind
from ibcmtool.wire.network import Found, behind_ether_type, behind_ipv4

TYPE_AT, HEADER = 12, 14

_ether_type: Final = struct.Struct("!H").unpack_from


def find(data: Buffer) -> Found | None:
    if data[12] == 0x08 and data[13] == 0x00:  # IPv4, as nearly always: without a call more
        return behind_ipv4(data, HEADER)
    return behind_ether_type(data, HEADER, _ether_type(data, TYPE_AT)[0])


def ether_type(_data: Buffer) -> tuple[int, int]:
    return TYPE_AT, HEADER


def macs(data: bytes) -> tuple[bytes, bytes]:
    return data[6:12], data[:6]


def addresses(_data: bytes) -> tuple[int, ...]:
    return 0, 6


def pattern(_data: Buffer, found: Found) -> HeaderPattern | None:
    return pattern_behind(TYPE_AT, HEADER, found)


def capture_filter() -> str:
    return bpf.any_of(bpf.UNTAGGED_IPV4, *bpf.behind_ether_type(TYPE_AT, HEADER))


ETHERNET: Final = LinkType(
    number=1,
    name="Ethernet",
    find=find,
    ether_type=ether_type,
    macs=macs,
    addresses=addresses,
    packet_type=None,
    pattern=pattern,
    capture_filter=capture_filter,
)
