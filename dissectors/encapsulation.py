"""What InfiniBand packets travel in: Ethernet, Linux cooked captures, UDP (RoCE v2), ERF records, link type 247.

Importing this module binds the layers, so that Scapy dissects whole frames: `Ether(data)`, `rdpcap(path)`. Our bindings
are put in front of the others. Scapy takes the first that matches, and a RoCE v2 packet is told by its UDP destination
port alone: the source port is a hash of the flow and may be any protocol's. `scapy.contrib.roce` binds layers of its
own to the same places; with it loaded too, frames are still dissected into ours, and its layers build as before.
"""

from __future__ import annotations

from typing import Any

import scapy.layers.inet6  # noqa: F401  (binds IPv6)
from scapy.config import conf
from scapy.layers.inet import UDP
from scapy.layers.l2 import CookedLinux, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, bind_layers, bind_top_down

from .fields import CodeField, ComputedField, HexField, NumberField, WireLayer, check_layout
from .transport import BTH, GRH, LRH

ETHERTYPE_ROCE_V1 = 0x8915
ETHERTYPE_DOT1AD = 0x88A8
ETHERTYPE_QINQ_OLD = 0x9100  # outer tags of switches from before 802.1ad
UDP_PORT_ROCE_V2 = 4791
_UDP_SOURCE_PORT = 0xC000  # the first of the range that RoCE v2 senders use
LINKTYPE_ERF = 197
LINKTYPE_INFINIBAND = 247

ERF_ETHERNET = 2
ERF_ETHERNET_TYPES = (ERF_ETHERNET, 11, 16, 20)  # the others use the loss counter for a color or a hash
ERF_INFINIBAND = 21
ERF_TYPES = {
    1: "HDLC",
    ERF_ETHERNET: "Ethernet",
    11: "Ethernet, color",
    16: "Ethernet, DSM color",
    20: "Ethernet, color and hash",
    ERF_INFINIBAND: "InfiniBand",
    25: "InfiniBand link",
    28: "Omni-Path SNC",
    29: "Omni-Path 9B",
    48: "padding",
}
ERF_EXTENSION_TYPES = {
    3: "classification",
    4: "intercept ID",
    5: "raw link",
    6: "BFS filter",
    12: "channelised",
    14: "signature",
    15: "packet ID",
    16: "flow ID",
    17: "host ID",
    18: "anchor ID",
    19: "entropy",
}
_ERF_HEADER = 16
_ERF_EXTENSION = 8
_ERF_ETHERNET_PAD = 2


class ErfTimeField(NumberField):
    """A time since the epoch as 32.32 bit fixed point number of seconds, little endian; shown in seconds."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 0, -64)

    def words(self, x: int) -> str:
        return f"{x >> 32}.{(x & 0xFFFFFFFF) * 10**9 >> 32:09d} s"


class ERF(WireLayer):
    """The header of an Extensible Record Format record, as DAG cards and ibdump write it.

    `record_length` counts all bytes of the record, `wire_length` those of the packet on the wire; both are computed
    when None. What a record holds behind its packet (alignment) is Padding.
    """

    name = "ERF"
    fields_desc = [
        ErfTimeField("timestamp"),
        NumberField("extension_header", 0, 1),
        CodeField("type", ERF_INFINIBAND, 7, ERF_TYPES),
        NumberField("reserved_9", 0, 2),
        NumberField("ds_error", 0, 1),
        NumberField("rx_error", 0, 1),
        NumberField("truncated", 0, 1),
        NumberField("varying_length", 1, 1),
        NumberField("interface", 0, 2),
        ComputedField("record_length", None, 16),
        NumberField("loss_counter", 0, 16),
        ComputedField("wire_length", None, 16),
    ]

    def before_packet(self, record: bytes) -> int:
        """Bytes of the extension headers and of the Ethernet pad at the start of what follows the header."""
        size = 0
        more = bool(self.extension_header)
        while more and size < len(record):
            more = record[size] >= 0x80
            size += _ERF_EXTENSION
        return size + _ERF_ETHERNET_PAD if self.type in ERF_ETHERNET_TYPES else size

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        if self.record_length is None or self.wire_length is None:
            return s, b""
        end = max(0, min(self.record_length - _ERF_HEADER, self.before_packet(s) + self.wire_length))
        return s[:end], s[end:]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.record_length is None:
            pkt = pkt[:10] + ((_ERF_HEADER + len(pay)) & 0xFFFF).to_bytes(2, "big") + pkt[12:]
        if self.wire_length is None:
            pkt = pkt[:14] + (max(0, len(pay) - self.before_packet(pay)) & 0xFFFF).to_bytes(2, "big")
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return ERFExtension if self.extension_header else self.packet_class(payload)

    def packet_class(self, payload: bytes) -> Any:
        """The layer of the packet itself, behind the extension headers."""
        return super().guess_payload_class(payload)


class ERFExtension(WireLayer):
    """An ERF extension header; `more` says that another one follows."""

    name = "ERF extension header"
    fields_desc = [
        NumberField("more", 0, 1),
        CodeField("type", 0, 7, ERF_EXTENSION_TYPES),
        HexField("data", 0, 56),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        if self.more:
            return ERFExtension
        below = self.underlayer
        while isinstance(below, ERFExtension):
            below = below.underlayer
        guessed: type[Packet] = (
            below.packet_class(payload) if isinstance(below, ERF) else self.default_payload_class(payload)
        )
        return guessed


class ERFEthernet(WireLayer):
    """The two bytes in front of the Ethernet frame of an ERF record."""

    name = "ERF Ethernet"
    fields_desc = [NumberField("offset", 0, 8), NumberField("pad", 0, 8)]


check_layout(ERF, _ERF_HEADER)
check_layout(ERFExtension, _ERF_EXTENSION)
check_layout(ERFEthernet, _ERF_ETHERNET_PAD)


def _bind_first(lower: type[Packet], upper: type[Packet], **fields: int) -> None:
    """Bind for dissection in front of all other bindings of `lower`, also those that come later."""
    lower.payload_guess = [(fields, upper), *lower.payload_guess]


_bind_first(Ether, GRH, type=ETHERTYPE_ROCE_V1)  # Dot1Q and Dot1AD look up Ether's bindings
_bind_first(CookedLinux, GRH, proto=ETHERTYPE_ROCE_V1)  # and CookedLinuxV2 these
_bind_first(UDP, BTH, dport=UDP_PORT_ROCE_V2)
for _lower in (Ether, Dot1Q, Dot1AD):
    bind_top_down(_lower, GRH, type=ETHERTYPE_ROCE_V1)
bind_top_down(CookedLinux, GRH, proto=ETHERTYPE_ROCE_V1)
bind_top_down(UDP, BTH, sport=_UDP_SOURCE_PORT, dport=UDP_PORT_ROCE_V2)

_bind_first(Ether, Dot1Q, type=ETHERTYPE_QINQ_OLD)
bind_layers(CookedLinux, Dot1AD, proto=ETHERTYPE_DOT1AD)  # Scapy binds it to a field that CookedLinux does not have

bind_layers(ERF, LRH, type=ERF_INFINIBAND)
for _type in reversed(ERF_ETHERNET_TYPES):  # the last one bound is the default on build
    bind_layers(ERF, ERFEthernet, type=_type)
bind_layers(ERFEthernet, Ether)
bind_top_down(ERF, ERFExtension, extension_header=1)
bind_top_down(ERFExtension, ERFExtension, more=1)

conf.l2types.register(LINKTYPE_ERF, ERF)
conf.l2types.register(LINKTYPE_INFINIBAND, LRH)
