"""Ethernet: destination, source, EtherType."""

from __future__ import annotations

import struct
from typing import Final

from ibcmtool.wire import Buffer, bpf, tunnels
from ibcmtool.wire.link_record import HeaderPattern, LinkType, pattern_behind
from ibcmtool.wire.network import IPV4, Found, behind_ipv4

TYPE_AT, HEADER = 12, 14
PROTOCOL_AT: Final = HEADER + 9  # of an IPv4 header

_ether_type: Final = struct.Struct("!H").unpack_from


def find(data: Buffer) -> Found | None:
    if data[12] == 0x08 and data[13] == 0x00:  # IPv4, as nearly always: without a call more
        found = behind_ipv4(data, HEADER)
        if found is None and data[PROTOCOL_AT] in tunnels.CARRIERS:
            return tunnels.inside(data, HEADER, IPV4)
        return found
    return tunnels.find(data, HEADER, _ether_type(data, TYPE_AT)[0])


def carried(data: Buffer) -> tuple[int, int]:
    return _ether_type(data, TYPE_AT)[0], HEADER


def macs(data: bytes) -> tuple[bytes, bytes]:
    return data[6:12], data[:6]


def addresses(_data: bytes) -> tuple[int, ...]:
    return 0, 6


def pattern(data: Buffer, found: Found) -> HeaderPattern | None:
    return pattern_behind(data, TYPE_AT, HEADER, found)


def capture_filter() -> str:
    return bpf.any_of(bpf.UNTAGGED_IPV4, *bpf.behind_ether_type(TYPE_AT, HEADER))


ETHERNET: Final = LinkType(
    number=1,
    name="Ethernet",
    find=find,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=None,
    pattern=pattern,
    capture_filter=capture_filter,
)
