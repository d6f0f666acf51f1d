"""Records of Endace's Extensible Record Format: a header, extension headers, and an InfiniBand or Ethernet packet."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ibcmtool.wire import Buffer, bpf, tunnels
from ibcmtool.wire.link_record import NOTHING, HeaderPattern, LinkType, pattern_behind
from ibcmtool.wire.network import Found, behind_lrh

RECORD_TYPE_AT: Final = 8
HEADER_SIZE: Final = 16
EXTENSION_SIZE: Final = 8
MORE: Final = 0x80  # in the type byte, and in the first byte of an extension header: an extension header follows
INFINIBAND_TYPE: Final = 21
ETHERNET_TYPES: Final = frozenset({2, 11, 16, 20})  # plain and the coloured ones
ETHERNET_PAD: Final = 2  # offset and pad, in front of the frame
ETHERNET_HEADER: Final = 14
MOST_FILTERED = 2  # extension headers that a capture filter looks behind
_VARYING_LENGTH: Final = 4  # flag
_SECOND: Final = 1_000_000_000  # ns

_ether_type: Final = struct.Struct("!H").unpack_from


def payload(data: Buffer) -> tuple[int, int]:
    """The type of a record, and where its payload begins: behind its header and extension headers."""
    kind = data[RECORD_TYPE_AT]
    at = HEADER_SIZE
    more = kind & MORE
    while more:
        more = data[at] & MORE
        at += EXTENSION_SIZE
    return kind & ~MORE, at


def record_around(time: int, data: bytes, wire_length: int) -> bytes:
    """A record around an InfiniBand packet from its LRH on, captured at `time` (ns)."""
    seconds, rest = divmod(time, _SECOND)
    stamp = seconds << 32 | (rest << 32) // _SECOND
    length = HEADER_SIZE + len(data)
    # Time little endian; type, flags, record length, loss counter, wire length big endian.
    head = struct.pack("<Q", stamp) + struct.pack(">BBHHH", INFINIBAND_TYPE, _VARYING_LENGTH, length, 0, wire_length)
    return head + data


def find(data: Buffer) -> Found | None:
    kind, at = payload(data)
    if kind == INFINIBAND_TYPE:
        return behind_lrh(data, at)
    if kind in ETHERNET_TYPES:
        at += ETHERNET_PAD + ETHERNET_HEADER
        return tunnels.find(data, at, _ether_type(data, at - 2)[0])
    return None


def carried(data: Buffer) -> tuple[int, int] | None:
    kind, at = payload(data)
    at += ETHERNET_PAD + ETHERNET_HEADER
    return (_ether_type(data, at - 2)[0], at) if kind in ETHERNET_TYPES else None


def macs(data: bytes) -> tuple[bytes | None, bytes | None]:
    places = addresses(data)
    if not places:
        return None, None
    destination, source = places
    return data[source : source + 6], data[destination : destination + 6]


def addresses(data: bytes) -> tuple[int, ...]:
    kind, at = payload(data)
    at += ETHERNET_PAD
    return (at, at + 6) if kind in ETHERNET_TYPES else ()


def pattern(data: Buffer, found: Found) -> HeaderPattern | None:
    kind, network, bth, _ = found
    if data[RECORD_TYPE_AT] & MORE or kind == "ipv6":  # extension headers of any content; a field too many
        return None
    if kind in ("lrh", "lrh+grh"):
        return HeaderPattern((RECORD_TYPE_AT, "B"), (HEADER_SIZE + 1, "B"), (HEADER_SIZE + 2, NOTHING), bth)
    at = HEADER_SIZE + ETHERNET_PAD + ETHERNET_HEADER
    plain = pattern_behind(data, at - 2, at, found)
    if plain is None:
        return None
    # From the EtherType to the first byte of the network header, all in one: the record type takes the first field.
    return HeaderPattern((RECORD_TYPE_AT, "B"), (at - 2, f"{network + 3 - at}s"), plain.third, bth)


def capture_filter() -> str:
    return bpf.any_of(*_filters())


def _filters() -> Iterator[str]:
    record_type = f"link[{RECORD_TYPE_AT}]"
    for extensions in range(MOST_FILTERED + 1):
        at = HEADER_SIZE + EXTENSION_SIZE * extensions
        heads = [RECORD_TYPE_AT, *range(HEADER_SIZE, at, EXTENSION_SIZE)]
        more = " and ".join(f"link[{head}] & {MORE:#x} {'=' if head == heads[-1] else '!='} 0" for head in heads)
        yield f"({more} and {record_type} & 0x7f = {INFINIBAND_TYPE} and {bpf.behind_lrh(at)})"
        network = at + ETHERNET_PAD + ETHERNET_HEADER
        ethernet = bpf.any_of(*bpf.behind_ether_type(network - 2, network))
        yield f"({more} and {bpf.one_of(f'{record_type} & 0x7f', ETHERNET_TYPES)} and ({ethernet}))"


ERF: Final = LinkType(
    number=197,
    name="ERF",
    find=find,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=None,
    pattern=pattern,
    capture_filter=capture_filter,
)
