"""Linux cooked capture, version 1: packet type, hardware type, length of the sender's address, address, EtherType."""

from __future__ import annotations

import struct
from typing import Final

from ibcmtool.wire import Buffer, bpf, tunnels
from ibcmtool.wire.link_record import HeaderPattern, LinkType, pattern_behind
from ibcmtool.wire.network import Found

TYPE_AT, HEADER = 14, 16
ADDRESS_AT: Final = 6
ARPHRD_ETHERNET: Final = 1

_ether_type: Final = struct.Struct("!14xH").unpack_from
_packet_type: Final = struct.Struct("!H").unpack_from
_sender: Final = struct.Struct("!2xHH6s").unpack_from  # hardware type, length of the address, address


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
    (kind,) = _packet_type(data)
    return int(kind)


def pattern(data: Buffer, found: Found) -> HeaderPattern | None:
    return pattern_behind(data, TYPE_AT, HEADER, found)


def capture_filter() -> str:
    return bpf.any_of(bpf.UNTAGGED_IPV4, *bpf.behind_ether_type(TYPE_AT, HEADER))


LINUX_SLL: Final = LinkType(
    number=113,
    name="Linux cooked v1",
    find=find,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=packet_type,
    pattern=pattern,
    capture_filter=capture_filter,
)
