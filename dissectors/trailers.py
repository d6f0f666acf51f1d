"""Checksums that stand behind the payload of a layer: the ICRC behind that of a BTH, the VCRC behind that of an LRH.

They are computed on build as long as they are None, and compared on show(), where a wrong one says what was expected.
They are written as they stand on the wire, as Wireshark does. A frame that was cut before the checksum has None there.
"""

from __future__ import annotations

from typing import Any

from scapy.fields import Field
from scapy.packet import Packet

from .fields import CUT, ComputedField, WireLayer


class TrailerField(Field[Any, bytes]):
    """A checksum at the end of the packet. Its layer takes it off and puts it on: it has no place among the fields."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None)
        self.sz = 0

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, None]:
        return s, None

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        if not isinstance(pkt, TrailerLayer):
            return repr(x)
        if x is None:
            return CUT if pkt.original else ComputedField.absent
        found = _to_bytes(x, pkt.trailer_size)
        expected = pkt.checksum()
        if expected is None:
            return f"0x{found.hex()} [not checked: no header below]"
        if found == expected:
            return f"0x{found.hex()} [right]"
        return f"0x{found.hex()} [wrong, expected 0x{expected.hex()}]"


def _to_bytes(value: int, size: int) -> bytes:
    return (value & (1 << size * 8) - 1).to_bytes(size, "big")


class TrailerLayer(WireLayer):
    """A layer with a checksum behind its payload: `trailer` names the field, `trailer_size` says its bytes."""

    trailer = ""
    trailer_size = 0

    def behind_header(self) -> int | None:
        """The bytes from the end of this header through the checksum, where the headers tell, else None."""
        raise NotImplementedError

    def checksum_of(self, packet: bytes) -> bytes | None:
        """The right checksum for a packet built from this layer on; None where nothing below tells how it starts."""
        raise NotImplementedError

    def checksum(self) -> bytes | None:
        """The right checksum of the packet as it stands."""
        return self.checksum_of(self.without_trailer(bytes(self.self_build()), bytes(self.do_build_payload())))

    def without_trailer(self, header: bytes, payload: bytes) -> bytes:
        """The packet from this layer on as it is built, but for the checksum."""
        raise NotImplementedError

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return self.with_trailer(self.without_trailer(pkt, pay))

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        told = self.behind_header()
        end = max(0, (len(s) if told is None else told) - self.trailer_size)
        found = s[end : end + self.trailer_size]
        if len(found) < self.trailer_size:
            return s[:end], found
        self.fields[self.trailer] = int.from_bytes(found, "big")
        self.raw_packet_cache = None  # the trailer is put back by post_build, which a cached layer skips
        return s[:end], s[end + self.trailer_size :]

    def with_trailer(self, packet: bytes) -> bytes:
        """A built packet from this layer on, with its checksum: the one set, else the right one, else zeros."""
        value = self.getfieldval(self.trailer)
        if value is not None:
            return packet + _to_bytes(value, self.trailer_size)
        return packet + (self.checksum_of(packet) or bytes(self.trailer_size))
