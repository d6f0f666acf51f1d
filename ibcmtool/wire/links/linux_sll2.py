"""Linux cooked capture, version 2: EtherType, interface, hardware type, packet type, address of the sender."""

from __future__ import annotations

import struct
from typing import Final

from ibcmtool.wire import Buffer, bpf, tunnels
from ibcmtool.wire.link_record import HeaderPattern, LinkType, pattern_behind
from ibcmtool.wire.network import Found

TYPE_AT, HEADER = 0, 20
PACKET_TYPE_AT, ADDRESS_AT = 10, 12
ARPHRD_ETHERNET: Final = 1

_ether_type: Final = struct.Struct("!H").unpack_from
_sender: Final = struct.Struct("!8xHxB6s").unpack_from  # hardware type, length of the address, address


def find(data: Buffer) -> Found | None:
    return tunnels.find(data, HEADER, _ether_type(data)[0])


def carried(data: Buffer) -> tuple[int, int]:
    return _ether_type(data)[0], HEADER


def macs(data: bytes) -> tuple[bytes | None, None]:
    hardware, length, address = _sender(data)
    return address if hardware == ARPHRD_ETHERNET and length == len(address) else None, None


def addresses(_data: bytes) -> tuple[int, ...]:
    return (ADDRESS_AT,)


def packet_type(data: bytes) -> int:
    return data[PACKET_TYPE_AT]


def pattern(data: Buffer, found: Found) -> HeaderPattern | None:
    return pattern_behind(data, TYPE_AT, HEADER, found)


def capture_filter() -> str:
    return bpf.any_of(bpf.UNTAGGED_IPV4, *bpf.behind_ether_type(TYPE_AT, HEADER))


LINUX_SLL2: Final = LinkType(
    number=276,
    name="Linux cooked v2",
    find=find,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=packet_type,
    pattern=pattern,
    capture_filter=capture_filter,
)
