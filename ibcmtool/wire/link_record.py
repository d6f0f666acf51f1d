"""What is to be known of a link type, in one record. The modules of ibcmtool.wire.links hold one each.

The scan, the decoder, the envelope, neighbours, redaction and capture filters ask the record, so every part of it has
to be given. Functions over frames raise IndexError or struct.error where a frame ends inside the headers they read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ibcmtool.wire import Buffer
from ibcmtool.wire.network import Found


class HeaderPattern(NamedTuple):
    """Bytes that tell where the BTH of a frame is.

    All frames of a link type that agree in these two fields (offset, struct code) have their BTH at offset `bth`, if
    they have one at all.
    """

    first: tuple[int, str]
    second: tuple[int, str]
    bth: int


class LinkType(NamedTuple):
    """A link type of the pcap registry (https://www.tcpdump.org/linktypes.html) whose frames are read."""

    number: int  # LINKTYPE_
    name: str  # as shown to people
    find: Callable[[Buffer], Found | None]
    """Where the BTH of a frame is; None for a frame without one."""
    ether_type: Callable[[Buffer], tuple[int, int] | None]
    """Offsets of the first EtherType and of what it is the type of; None for a frame that has none. VLANs are there."""
    macs: Callable[[bytes], tuple[bytes | None, bytes | None]]
    """MAC addresses of source and destination; None for one that the link type does not keep."""
    addresses: Callable[[bytes], tuple[int, ...]]
    """Offsets of the hardware addresses, of six bytes each: what redaction replaces of the link layer."""
    packet_type: Callable[[bytes], int] | None
    """The PACKET_ number that Linux gave to a frame: whether it came in or went out. None where none is kept."""
    pattern: Callable[[Buffer, Found], HeaderPattern | None]
    """What the scan knows further frames by that are like this one; None: look at each."""
    capture_filter: Callable[[], str]
    """libpcap's expression for CM messages, and for what tells of neighbours (bpf.py)."""


def pattern_behind(type_at: int, at: int, found: Found) -> HeaderPattern | None:
    """The pattern of a frame with its first EtherType at offset `type_at`, and what it is the type of at `at`."""
    kind, network, bth, _ = found
    if kind == "ipv6" and bth != network + 48:  # extension headers
        return None
    decisive = network if kind == "ipv4" else network + 6  # version and header length, or the next header
    types = "H" if network == at else f"{network - type_at}s"
    return HeaderPattern((type_at, types), (decisive, "B"), bth)
