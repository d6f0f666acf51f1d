"""Where the BTH is behind the headers of the network: IP and UDP, GRH, LRH. The same in all link types, and in tunnels.

The lengths in the headers, not the end of the frame, say where a packet ends: frames carry padding, check sequences, or
are cut. A finder gives None for a packet without a BTH, and raises IndexError or struct.error where the frame ends
inside the headers that it reads.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

from dissectors.icrc import Network
from dissectors.recognition import NEXT_HEADER_BTH
from ibcmtool.packets import Transport
from ibcmtool.wire import Buffer
from ibcmtool.wire.header_readers import read_next_header, read_packet_end
from ibcmtool.wire.readers import layer_size

Kind = Literal["ipv4", "ipv6", "grh", "lrh", "lrh+grh"]  # the headers between the link layer and the BTH
Found = tuple[Kind, int, int, int]
"""Kind, offset of the network header, offset of the BTH, and offset of the ICRC.

The network header is the one that the ICRC starts at: IP, GRH, or the LRH of a packet without GRH. The last offset is
as the headers tell, so it may lie beyond the captured bytes, or be nonsense. In the first fragment of a packet it is
negative: minus the offset of the fragment's end (the ICRC is in another fragment).
"""

ROCE_PORT: Final = 4791

VLAN_TYPES: Final = frozenset({0x8100, 0x88A8, 0x9100})
MAX_VLAN_TAGS: Final = 4
IPV4: Final = 0x0800  # EtherTypes
ARP: Final = 0x0806
IPV6: Final = 0x86DD
ROCE_V1: Final = 0x8915
UDP: Final = 17
IPV6_SIZE, UDP_SIZE = 40, 8
PORT_AT: Final = 2  # in UDP's header: the destination
ICMP: Final = 1
ICMPV6: Final = 58
SOLICITATION, ADVERTISEMENT = 135, 136  # ICMPv6 types: neighbour discovery
_IPV6_EXTENSIONS: Final = frozenset({0, 43, 60})  # hop-by-hop options, routing, destination options
_IPV6_FRAGMENT, _IPV6_AUTHENTICATION = 44, 51
_MAX_IPV6_EXTENSIONS: Final = 8

_vlan_tag: Final = struct.Struct("!2xH").unpack_from  # behind a VLAN type: tag control, next type
_short: Final = struct.Struct("!H").unpack_from
# Version and length, total length, flags and offset, protocol; destination port and length of UDP behind no options.
_ipv4_udp: Final = struct.Struct("!BxHxxHxB12xHH").unpack_from
_ipv6_header: Final = struct.Struct("!B3xHB").unpack_from  # version, payload length, next header
_udp_header: Final = struct.Struct("!2xHH").unpack_from  # destination port, length
_LRH_SIZE, _GRH_SIZE = layer_size("LRH"), layer_size("GRH")
IPV4_ADDRESSES, GIDS, LIDS = 8, 32, 6  # bytes of both; between the LIDs is the packet's length


class Packet(NamedTuple):
    """What a kind of packet is, and where the part of its headers that tells source and destination begins and ends."""

    transport: Transport
    checked: Network  # what the ICRC starts at
    begin: int  # seen from the network header, as is `end`
    end: int


PACKETS: Final[dict[Kind, Packet]] = {
    "ipv4": Packet("RoCE v2", "ipv4", 12, 12 + IPV4_ADDRESSES),
    "ipv6": Packet("RoCE v2", "ipv6", _GRH_SIZE - GIDS, _GRH_SIZE),  # of the layout of a GRH
    "grh": Packet("RoCE v1", "grh", _GRH_SIZE - GIDS, _GRH_SIZE),
    "lrh": Packet("InfiniBand", "lrh", _LRH_SIZE - LIDS, _LRH_SIZE),
    "lrh+grh": Packet("InfiniBand", "grh", -_LRH_SIZE, _GRH_SIZE),
}


def behind_ether_type(data: Buffer, at: int, kind: int) -> Found | None:
    """What follows an EtherType `kind`, from offset `at` on. Of tunnels knows tunnels.py."""
    for _ in range(MAX_VLAN_TAGS):
        if kind not in VLAN_TYPES:
            break
        (kind,) = _vlan_tag(data, at)
        at += 4
    if kind == IPV4:
        return behind_ipv4(data, at)
    if kind == IPV6:
        return _ipv6(data, at)
    if kind == ROCE_V1:
        return _roce_v1(data, at)
    return None


def behind_ipv4(data: Buffer, at: int) -> Found | None:
    """Where a BTH is behind an IPv4 header at this offset."""
    version, total, fragment, protocol, port, length = _ipv4_udp(data, at)
    udp = at + 20
    if version != 0x45:
        if version >> 4 != 4 or version < 0x45:
            return None
        udp = at + (version & 15) * 4
        port, length = _udp_header(data, udp)
    if port != ROCE_PORT or protocol != UDP:
        return None
    if fragment & 0x3FFF:
        return None if fragment & 0x1FFF else ("ipv4", at, udp + 8, -(at + total))
    return "ipv4", at, udp + 8, udp + length - 4


def _ipv6(data: Buffer, at: int) -> Found | None:
    version, length, protocol = _ipv6_header(data, at)
    if version >> 4 != 6:
        return None
    header = at + IPV6_SIZE
    more = False
    if protocol != UDP:
        behind = behind_extensions(data, header, protocol)
        if behind is None or behind[0] != UDP:
            return None
        _, header, more = behind
    port, udp_length = _udp_header(data, header)
    if port != ROCE_PORT:
        return None
    return "ipv6", at, header + 8, -(at + IPV6_SIZE + length) if more else header + udp_length - 4


def behind_extensions(data: Buffer, at: int, protocol: int) -> tuple[int, int, bool] | None:
    """Protocol and offset behind IPv6's extension headers, which begin at `at`, and whether this is a first fragment.

    None in later fragments.
    """
    more = False
    for _ in range(_MAX_IPV6_EXTENSIONS):
        if protocol in _IPV6_EXTENSIONS:
            size = (data[at + 1] + 1) * 8
        elif protocol == _IPV6_AUTHENTICATION:
            size = (data[at + 1] + 2) * 4
        elif protocol == _IPV6_FRAGMENT:
            (fragment,) = _short(data, at + 2)
            if fragment & 0xFFF8:
                return None
            more, size = bool(fragment & 1), 8
        else:
            break
        protocol = data[at]
        at += size
    return protocol, at, more


def _roce_v1(data: Buffer, at: int) -> Found | None:
    next_header, length = read_next_header(data, at)
    if next_header != NEXT_HEADER_BTH:
        return None
    bth = at + _GRH_SIZE
    return "grh", at, bth, bth + length - 4


def behind_lrh(data: Buffer, at: int = 0) -> Found | None:
    """Where a BTH is behind an LRH at this offset."""
    lnh, words = read_packet_end(data, at)
    icrc = max(0, at + words * 4 - 4)
    if lnh == 2:
        return "lrh", at, at + _LRH_SIZE, icrc
    grh = at + _LRH_SIZE
    if lnh == 3 and read_next_header(data, grh)[0] == NEXT_HEADER_BTH:
        return "lrh+grh", grh, grh + _GRH_SIZE, icrc
    return None
