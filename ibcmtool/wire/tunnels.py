"""CM packets inside the packets of others: what remote mirrors (ERSPAN, VXLAN) and overlays put around them.

Only where the plain way (network.py) finds no BTH is a frame looked at here. Each layer that is taken off is again what
follows an EtherType: an Ethernet frame's, or IP without one. Their number is bounded; a carrier in fragments, with a
version or flags that are not known, gives None. Read are GRE (RFC 2784, 2890), ERSPAN types I, II and III over it
(draft-foschiano-erspan), VXLAN (RFC 7348), Geneve (RFC 8926), MPLS labels (RFC 3032, 4448), IP in IP (RFC 2003, 4213).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ibcmtool.wire import Buffer
from ibcmtool.wire.network import (
    ARP,
    IPV4,
    IPV6,
    IPV6_SIZE,
    MAX_VLAN_TAGS,
    PORT_AT,
    ROCE_PORT,
    ROCE_V1,
    UDP,
    UDP_SIZE,
    VLAN_TYPES,
    Found,
    behind_ether_type,
    behind_extensions,
)

MAX_TUNNELS: Final = 4  # one inside the other
MAX_LABELS: Final = 8
MPLS_TYPES: Final = frozenset({0x8847, 0x8848})
IP_IN_IP, IPV6_IN_IP, GRE = 4, 41, 47  # protocols
CARRIERS: Final = frozenset({IP_IN_IP, UDP, IPV6_IN_IP, GRE})
VXLAN_PORTS: Final = frozenset({4789, 8472})  # the second is what Linux takes unless told otherwise
GENEVE_PORT: Final = 6081
BRIDGED, ERSPAN_II, ERSPAN_III = 0x6558, 0x88BE, 0x22EB  # what GRE and Geneve call their payloads
GRE_SIZE, ERSPAN_II_SIZE, ERSPAN_III_SIZE, VXLAN_SIZE, GENEVE_SIZE = 4, 8, 12, 8, 8
ETHERNET_SIZE: Final = 14
OUTER: Final = -1  # no Ethernet header inside the frame: that of the link layer, or (behind IP) none at all

GRE_CHECKSUM, GRE_KEY, GRE_SEQUENCE = 0x8000, 0x2000, 0x1000
_GRE_UNKNOWN: Final = 0x4000 | 0x0FFF  # routing, and all reserved bits and versions
_VXLAN_HAS_ID: Final = 0x08
_PLATFORM_SPECIFIC: Final = 1  # ERSPAN III: 8 bytes more
_ETHERNET_FRAME, _IP_PACKET = 0, 2  # its frame types

_IN_PSEUDOWIRES: Final = frozenset({IPV4, IPV6, ROCE_V1, ARP, *MPLS_TYPES})

_short: Final = struct.Struct("!H").unpack_from
_two: Final = struct.Struct("!HH").unpack_from
_vlan_tag: Final = struct.Struct("!2xH").unpack_from
# Version and length, flags and offset, protocol; the word behind no options that is UDP's destination port.
_ipv4: Final = struct.Struct("!B5xHxB12xH").unpack_from
_ipv6: Final = struct.Struct("!B5xB").unpack_from  # version, next header


class Layer(NamedTuple):
    """What follows an EtherType: of which kind, and where, behind the VLAN tags that begin at `tags`.

    ethernet: where the header begins that the EtherType is of; OUTER where that is none inside the frame.
    """

    kind: int
    at: int
    tags: int
    ethernet: int


def find(data: Buffer, at: int, kind: int) -> Found | None:
    """Where the BTH is of what follows an EtherType `kind` at offset `at`, plain or in tunnels."""
    return behind_ether_type(data, at, kind) or inside(data, at, kind)


def inside(data: Buffer, at: int, kind: int) -> Found | None:
    """The same for tunnels only."""
    if kind in VLAN_TYPES:
        kind, at, _, _ = _tagged(data, at, kind)
    for _ in range(MAX_TUNNELS):
        layer = _carried(data, at, kind)
        if layer is None:
            return None
        kind, at = layer.kind, layer.at
        found = behind_ether_type(data, at, kind)
        if found is not None:
            return found
    return None


def layers(data: Buffer, at: int, kind: int) -> list[Layer]:
    """What follows an EtherType, and what that carries, from the outermost to the innermost."""
    found = [_tagged(data, at, kind)]
    while len(found) <= MAX_TUNNELS:
        layer = _carried(data, found[-1].at, found[-1].kind)
        if layer is None:
            break
        found.append(layer)
    return found


def carrier(data: Buffer, layer: Layer) -> tuple[int, int, int]:
    """Protocol, where it begins, and where it ends, of a layer of IP that carries another one."""
    (length,) = _short(data, layer.at + (2 if layer.kind == IPV4 else 4))
    if layer.kind == IPV4:
        return data[layer.at + 9], layer.at + (data[layer.at] & 15) * 4, layer.at + length
    begin = layer.at + IPV6_SIZE
    protocol, at, _ = behind_extensions(data, begin, data[layer.at + 6]) or (0, begin, False)
    return protocol, at, begin + length


def _tagged(data: Buffer, at: int, kind: int, ethernet: int = OUTER) -> Layer:
    tags = at
    for _ in range(MAX_VLAN_TAGS):
        if kind not in VLAN_TYPES:
            break
        (kind,) = _vlan_tag(data, at)
        at += 4
    return Layer(kind, at, tags, ethernet)


def _carried(data: Buffer, at: int, kind: int) -> Layer | None:
    """What a packet of this kind carries; None where it is no tunnel."""
    if kind == IPV4:
        version, fragment, protocol, word = _ipv4(data, at)
        if protocol not in CARRIERS or version >> 4 != 4 or version < 0x45 or fragment & 0x3FFF:
            return None
        # The scan knows plain RoCE by that word (scan.py), so it is to be nothing else: one flow label in 65,536.
        if word == ROCE_PORT and protocol in (IP_IN_IP, IPV6_IN_IP):
            return None
        return _behind_ip(data, at + (version & 15) * 4, protocol)
    if kind == IPV6:
        version, protocol = _ipv6(data, at)
        if version >> 4 != 6:
            return None
        behind = behind_extensions(data, at + IPV6_SIZE, protocol)
        if behind is None or behind[2] or behind[0] not in CARRIERS:
            return None
        return _behind_ip(data, behind[1], behind[0])
    return _behind_labels(data, at) if kind in MPLS_TYPES else None


def _behind_ip(data: Buffer, at: int, protocol: int) -> Layer | None:
    if protocol == GRE:
        return _behind_gre(data, at)
    if protocol != UDP:
        return Layer(IPV4 if protocol == IP_IN_IP else IPV6, at, at, OUTER)
    (port,) = _short(data, at + PORT_AT)
    at += UDP_SIZE
    if port in VXLAN_PORTS:
        return _ethernet(data, at + VXLAN_SIZE) if data[at] & _VXLAN_HAS_ID else None
    if port != GENEVE_PORT or data[at] >> 6:
        return None
    (kind,) = _short(data, at + 2)
    return _payload(data, at + GENEVE_SIZE + (data[at] & 0x3F) * 4, kind)


def _behind_gre(data: Buffer, at: int) -> Layer | None:
    flags, kind = _two(data, at)
    if flags & _GRE_UNKNOWN:
        return None
    at += gre_size(flags)
    if kind == ERSPAN_II:  # type I, of old devices, has neither sequence number nor header
        return _ethernet(data, at + (ERSPAN_II_SIZE if flags & GRE_SEQUENCE else 0))
    if kind != ERSPAN_III:
        return _payload(data, at, kind)
    (last,) = _short(data, at + ERSPAN_III_SIZE - 2)
    frame_type = last >> 10 & 0x1F
    at += ERSPAN_III_SIZE + (8 if last & _PLATFORM_SPECIFIC else 0)
    if frame_type == _ETHERNET_FRAME:
        return _ethernet(data, at)
    return _ip(data, at) if frame_type == _IP_PACKET else None


def gre_size(flags: int) -> int:
    """Of a GRE header with these flags: checksum, key and sequence number are 4 bytes each."""
    return GRE_SIZE + 4 * (bool(flags & GRE_CHECKSUM) + bool(flags & GRE_KEY) + bool(flags & GRE_SEQUENCE))


def _behind_labels(data: Buffer, at: int) -> Layer | None:
    for _ in range(MAX_LABELS):
        at += 4
        if data[at - 2] & 1:  # bottom of the stack
            break
    else:
        return None
    # Nothing marks an Ethernet frame as one. Its control word (RFC 4385), if it has one, begins with four zero bits.
    for begin in (at, at + 4) if data[at] < 0x10 else (at,) if data[at] != 0x45 else ():
        layer = _ethernet(data, begin)
        if layer.kind in _IN_PSEUDOWIRES:
            return layer
    return _ip(data, at)


def _payload(data: Buffer, at: int, kind: int) -> Layer:
    return _ethernet(data, at) if kind == BRIDGED else _tagged(data, at, kind)


def _ethernet(data: Buffer, at: int) -> Layer:
    (kind,) = _short(data, at + ETHERNET_SIZE - 2)
    return _tagged(data, at + ETHERNET_SIZE, kind, at)


def _ip(data: Buffer, at: int) -> Layer | None:
    kind = ip_kind(data, at)
    return None if kind is None else Layer(kind, at, at, OUTER)


def ip_kind(data: Buffer, at: int) -> int | None:
    """The EtherType of IP without one, by its version."""
    version = data[at] >> 4
    return IPV4 if version == 4 else IPV6 if version == 6 else None
