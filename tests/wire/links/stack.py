"""What a test module of a link type gives: frames of it up to the link layer's end, and what is known of them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st
from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.packet import Packet

BEHIND_ETHER_TYPE = ("ipv4", "ipv6", "grh", "arp")
BEHIND_NOTHING = ("lrh",)


class Stack(NamedTuple):
    """The link layer of a frame, tags and all."""

    header: Packet | None  # None: nothing is in front of the LRH
    networks: tuple[str, ...] = BEHIND_ETHER_TYPE  # what may come next
    source_mac: bytes | None = None
    destination_mac: bytes | None = None
    vlan_ids: tuple[int, ...] = ()
    hidden: tuple[bytes, ...] = ()  # what redaction must leave nothing of

    def with_packet(self, packet: Packet) -> Packet:
        """A frame with this in it."""
        return packet if self.header is None else self.header / packet


macs = st.integers(1, (1 << 24) - 1).map(lambda number: b"\x52\x54\x00" + number.to_bytes(3, "big"))


@st.composite
def tags(draw: st.DrawFn, header: Packet) -> tuple[Packet, tuple[int, ...]]:
    """The header with none, one or two VLAN tags behind it, and their ids."""
    ids = tuple(draw(st.lists(st.integers(0, 4095), max_size=2)))
    for place, vlan in enumerate(ids):
        outer = place == 0 and len(ids) == 2 and draw(st.booleans())
        header = header / (Dot1AD if outer else Dot1Q)(vlan=vlan, prio=draw(st.integers(0, 7)))
    return header, ids
