"""What is to be known of a link type, in one record. The modules of ibcmtool.wire.links hold one each.

The scan, the decoder, the envelope, neighbours, redaction and capture filters ask the record, so every part of it has
to be given. Functions over frames raise IndexError or struct.error where a frame ends inside the headers they read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ibcmtool.wire import Buffer
from ibcmtool.wire.network import IPV6_SIZE, PORT_AT, UDP_SIZE, VLAN_TYPES, Found, Kind

_short: Final = struct.Struct("!H").unpack_from


Field = tuple[int, str]  # offset, struct code
NOTHING: Final = "0s"


class HeaderPattern(NamedTuple):
    """Bytes that tell where the BTH of a frame is.

    All frames of a link type that agree in these fields, one behind the other, have their BTH at offset `bth`, if they
    have one at all.
    """

    first: Field
    second: Field
    third: Field
    bth: int


class LinkType(NamedTuple):
    """A link type of the pcap registry (https://www.tcpdump.org/linktypes.html) whose frames are read."""

    number: int  # LINKTYPE_
    name: str  # as shown to people
    find: Callable[[Buffer], Found | None]
    """Where the BTH of a frame is; None for a frame without one."""
    carried: Callable[[Buffer], tuple[int, int] | None]
    """The first EtherType and the offset of what it is the type of; None for a frame that has none. VLANs are there."""
    macs: Callable[[bytes], tuple[bytes | None, bytes | None]]
    """MAC addresses of source and destination; None for one that the link type does not keep."""
    addresses: Callable[[bytes], tuple[int, ...]]
    """Offsets of the hardware addresses, of six bytes each: what redaction replaces of the link layer."""
    packet_type: Callable[[bytes], int] | None
    """The PACKET_ number that Linux gave to a frame: whether it came in or went out. None where none is kept."""
    pattern: Callable[[Buffer, Found], HeaderPattern | None]
    """What the scan knows further frames by that are like this one; None: look at each."""
    capture_filter: Callable[[], str]
    """libpcap's expression for CM messages, and for what else is looked at (bpf.py)."""


def pattern_behind(data: Buffer, type_at: int, at: int, found: Found) -> HeaderPattern | None:
    """The pattern of a frame with its first EtherType at offset `type_at`, and what it is the type of at `at`.

    Tunnels have none: of their outer headers too much varies.
    """
    kind, network, bth, _ = found
    places = [type_at, *range(at + 2, network - 2, 4)] if network > at else []
    if (network - at) % 4 or any(_short(data, place)[0] not in VLAN_TYPES for place in places):
        return None
    types = "H" if network == at else f"{network - type_at}s"
    return network_pattern(kind, network, bth, (type_at, types))


def network_pattern(kind: Kind, network: int, bth: int, types: Field) -> HeaderPattern | None:
    """The same where the field `types` in front of the network header tells its kind."""
    if kind == "ipv6" and bth != network + IPV6_SIZE + UDP_SIZE:  # extension headers
        return None
    if kind == "ipv4":  # version and header length
        return HeaderPattern(types, (network, "B"), (bth - UDP_SIZE + PORT_AT, "H"), bth)
    next_header = network + 6, "B"
    port = (network + 7, NOTHING) if kind == "grh" else (bth - UDP_SIZE + PORT_AT, "H")
    return HeaderPattern(types, next_header, port, bth)
