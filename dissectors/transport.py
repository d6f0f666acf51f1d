"""The headers below a MAD: LRH, GRH, BTH, DETH (IBA vol. 1, chapters 7 to 9), and the ICRC and VCRC behind it.

ICRC and VCRC are the last field of the layer whose packet they close: `BTH.icrc`, `LRH.vcrc`.
"""

from __future__ import annotations

from scapy.packet import Packet, bind_layers, bind_top_down

from .fields import CodeField, ComputedField, GidField, HexCodeField, HexField, NumberField, WireLayer, check_layout
from .icrc import Network, icrc_of, vcrc_of
from .recognition import GSI_QPN, NEXT_HEADER_BTH, UD_SEND_ONLY, UD_SEND_ONLY_IMMEDIATE
from .trailers import TrailerField, TrailerLayer

LINK_NEXT_HEADERS = {0: "raw", 1: "IPv6", 2: "IBA local", 3: "IBA global"}

_SERVICES = {0x00: "RC", 0x20: "UC", 0x40: "RD", 0x60: "UD", 0xA0: "XRC"}
_OPERATIONS = {
    0x00: "SEND FIRST",
    0x01: "SEND MIDDLE",
    0x02: "SEND LAST",
    0x03: "SEND LAST with immediate",
    0x04: "SEND ONLY",
    0x05: "SEND ONLY with immediate",
    0x06: "RDMA WRITE FIRST",
    0x07: "RDMA WRITE MIDDLE",
    0x08: "RDMA WRITE LAST",
    0x09: "RDMA WRITE LAST with immediate",
    0x0A: "RDMA WRITE ONLY",
    0x0B: "RDMA WRITE ONLY with immediate",
    0x0C: "RDMA READ request",
    0x0D: "RDMA READ response FIRST",
    0x0E: "RDMA READ response MIDDLE",
    0x0F: "RDMA READ response LAST",
    0x10: "RDMA READ response ONLY",
    0x11: "acknowledge",
    0x12: "ATOMIC acknowledge",
    0x13: "COMPARE SWAP",
    0x14: "FETCH ADD",
    0x16: "SEND LAST with invalidate",
    0x17: "SEND ONLY with invalidate",
    0x1C: "FLUSH",
    0x1D: "ATOMIC WRITE",
}
_OPERATIONS_OF = {  # RC has all
    0x20: range(0x0C),
    0x40: (*range(0x15), 0x1C),
    0x60: range(0x04, 0x06),
    0xA0: range(0x18),
}
OPCODES: dict[int, str] = {
    service | operation: f"{service_name} {name}"
    for service, service_name in _SERVICES.items()
    for operation, name in _OPERATIONS.items()
    if operation in _OPERATIONS_OF.get(service, _OPERATIONS)
} | {0x81: "CNP"}


class LRH(TrailerLayer):
    """Local Route Header. `packet_length` counts 4-byte words from here through the ICRC, computed when None."""

    name = "LRH"
    fields_desc = [
        NumberField("vl", 0, 4),
        NumberField("link_version", 0, 4),
        NumberField("service_level", 0, 4),
        NumberField("reserved_1", 0, 2),
        CodeField("lnh", 2, 2, LINK_NEXT_HEADERS),
        NumberField("dlid", 0, 16),
        NumberField("reserved_4", 0, 5),
        ComputedField("packet_length", None, 11),
        NumberField("slid", 0, 16),
        TrailerField("vcrc"),
    ]
    trailer, trailer_size = "vcrc", 2

    def behind_header(self) -> int | None:
        words = self.packet_length
        return words * 4 - 8 + 2 if words else None

    def checksum_of(self, packet: bytes) -> bytes:
        return vcrc_of(packet)

    def without_trailer(self, header: bytes, payload: bytes) -> bytes:
        return self.header(len(payload)) + payload

    def header(self, payload_length: int) -> bytes:
        header = bytes(self.self_build())
        if self.packet_length is not None:
            return header
        words = (8 + payload_length) // 4 & 0x7FF
        return header[:4] + (int.from_bytes(header[4:6], "big") | words).to_bytes(2, "big") + header[6:]


class GRH(WireLayer):
    """Global Route Header. `payload_length` counts the bytes behind it through the ICRC, computed when None."""

    name = "GRH"
    fields_desc = [
        NumberField("ip_version", 6, 4),
        NumberField("traffic_class", 0, 8),
        HexField("flow_label", 0, 20),
        ComputedField("payload_length", None, 16),
        HexCodeField("next_header", NEXT_HEADER_BTH, 8, {NEXT_HEADER_BTH: "BTH"}),
        NumberField("hop_limit", 64, 8),
        GidField("sgid"),
        GidField("dgid"),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        length = self.payload_length or len(s)
        return s[:length], s[length:]

    def header(self, payload_length: int) -> bytes:
        header = bytes(self.self_build())
        if self.payload_length is not None:
            return header
        return header[:4] + (payload_length & 0xFFFF).to_bytes(2, "big") + header[6:]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return self.header(len(pay)) + pay


class BTH(TrailerLayer):
    """Base Transport Header. The payload is padded to whole words on build, and `pad_count` set, while that is None."""

    name = "BTH"
    fields_desc = [
        HexCodeField("opcode", UD_SEND_ONLY, 8, OPCODES),
        NumberField("solicited_event", 0, 1),
        NumberField("migration_request", 0, 1),
        ComputedField("pad_count", None, 2),
        NumberField("transport_version", 0, 4),
        HexField("partition_key", 0xFFFF, 16),
        NumberField("fecn", 0, 1),
        NumberField("becn", 0, 1),
        NumberField("reserved_4", 0, 6),
        HexField("dest_qp", 0, 24),
        NumberField("ack_request", 0, 1),
        NumberField("reserved_8", 0, 7),
        NumberField("psn", 0, 24),
        TrailerField("icrc"),
    ]
    trailer, trailer_size = "icrc", 4

    def behind_header(self) -> int | None:
        below = self.underlayer
        if isinstance(below, GRH):
            length = below.payload_length
        elif isinstance(below, LRH):
            length = below.packet_length and below.packet_length * 4 - 8
        else:  # UDP, whose length counts its own header
            length = getattr(below, "len", None)
            length = length and length - 8
        return length - 12 if length else None

    def without_trailer(self, header: bytes, payload: bytes) -> bytes:
        if self.pad_count is not None:
            return header + payload
        pad = -len(payload) % 4
        return header[:1] + bytes([header[1] | pad << 4]) + header[2:] + payload + bytes(pad)

    def checksum_of(self, packet: bytes) -> bytes | None:
        built = packet + bytes(4)  # the headers below are put in front of it, as they will stand on the wire
        below = self.underlayer
        while below is not None:
            if isinstance(below, (LRH, GRH)):
                built = below.header(len(built)) + built
            else:
                header = below.self_build()
                cached = below.raw_packet_cache is not None  # then nothing was computed on the way either
                built = header + built if cached else below.post_build(header, built)
            kind = _ICRC_STARTS.get(type(below).__name__)
            if kind is not None:
                end = len(built) - 4
                return icrc_of(built, 0, end - len(packet), end, kind)
            below = below.underlayer
        return None


# By class name: importing Scapy's IP layers would cost this module half a second.
_ICRC_STARTS: dict[str, Network] = {"IP": "ipv4", "IPv6": "ipv6", "GRH": "grh", "LRH": "lrh"}


class DETH(WireLayer):
    """Datagram Extended Transport Header."""

    name = "DETH"
    fields_desc = [
        HexField("q_key", 0, 32),
        NumberField("reserved_4", 0, 8),
        HexField("source_qp", 0, 24),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        if isinstance(self.underlayer, BTH) and self.underlayer.opcode == UD_SEND_ONLY_IMMEDIATE:
            return ImmDt
        return payload_of_datagram(self, self.underlayer, payload)


class ImmDt(WireLayer):
    """Immediate Data Extended Transport Header."""

    name = "ImmDt"
    fields_desc = [HexField("immediate_data", 0, 32)]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        deth = self.underlayer
        if not isinstance(deth, DETH):
            return self.default_payload_class(payload)
        return payload_of_datagram(deth, deth.underlayer, payload)


def payload_of_datagram(deth: DETH, bth: Packet | None, payload: bytes) -> type[Packet]:
    """What a DETH carries: what is bound to it, but only where the packet goes to QP1."""
    if isinstance(bth, BTH) and bth.dest_qp != GSI_QPN:
        guessed: type[Packet] = deth.default_payload_class(payload)
    else:
        guessed = Packet.guess_payload_class(deth, payload)
    return guessed


for _layer, _size in ((LRH, 8), (GRH, 40), (BTH, 12), (DETH, 8), (ImmDt, 4)):
    check_layout(_layer, _size)

bind_layers(LRH, BTH, lnh=2)
bind_layers(LRH, GRH, lnh=3)
bind_layers(GRH, BTH, next_header=NEXT_HEADER_BTH)
bind_layers(BTH, DETH, opcode=UD_SEND_ONLY_IMMEDIATE)
bind_layers(BTH, DETH, opcode=UD_SEND_ONLY)
bind_top_down(BTH, DETH, opcode=UD_SEND_ONLY, dest_qp=GSI_QPN)
