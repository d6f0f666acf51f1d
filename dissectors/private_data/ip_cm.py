"""The RDMA IP CM Service (IBA annex A11): the header that carries IP addresses in a REQ or SIDR_REQ.

The destination port is in the service id (0x0000000001PPpppp). REP, REJ and RTU have no such header.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from ..fields import ComputedField, GidField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero

if TYPE_CHECKING:
    from scapy.packet import Packet

SIZE = 36


class AddressField(GidField):
    """An IPv4 or IPv6 address as text. IPv4 stands in the last 4 of the 16 bytes, behind zeros.

    The header's IP version says which it is; 16 bytes of an IPv4 header that do not begin with zeros are shown as IPv6.
    """

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        if isinstance(x, bytes):
            return self.m2i(pkt, x)
        self.i2m(pkt, x)  # raises ValueError here rather than on build
        return x

    def i2m(self, pkt: Packet | None, x: str | None) -> bytes:
        if x is None:
            return bytes(16)
        try:
            return socket.inet_pton(socket.AF_INET6, x) if ":" in x else bytes(12) + socket.inet_pton(socket.AF_INET, x)
        except OSError:
            raise ValueError(f"not an IP address: {x!r}") from None

    def m2i(self, pkt: Packet | None, x: bytes) -> str:
        if pkt is not None and pkt.ip_version == 4 and is_zero(x[:12]):
            return socket.inet_ntop(socket.AF_INET, x[12:])
        return socket.inet_ntop(socket.AF_INET6, x)


class RDMA_IP_CM(PrivateData):
    """The header of 36 bytes in front of a consumer's data (IBA annex A11)."""

    name = "RDMA IP CM header"
    fields_desc = [
        NumberField("major_version", 0, 4),
        NumberField("minor_version", 0, 4),
        ComputedField("ip_version", None, 4),
        NumberField("reserved_1", 0, 4),
        NumberField("source_port", 0, 16),
        AddressField("source", "0.0.0.0"),
        AddressField("destination", "0.0.0.0"),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        """The checks of Linux (version 0.0, IP version 4 or 6), and zeros in front of an IPv4 address."""
        if len(data) < 2 or data[0] != 0:
            return False
        return data[1] >> 4 == 6 or (data[1] >> 4 == 4 and is_zero(data[4:16]) and is_zero(data[20:32]))

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.ip_version is None:
            version = 6 if ":" in self.source or ":" in self.destination else 4
            pkt = pkt[:1] + bytes([version << 4 | pkt[1]]) + pkt[2:]
        return pkt + pay


check_layout(RDMA_IP_CM, SIZE)

# Stands for every service of this class whose consumer data is in no format that we know.
RDMA_IP_CM_SERVICE = Protocol(
    "RDMA IP CM",
    known_by="class",
    over_ip_cm=True,
    recognises=lambda service_id, data: service_id >> 24 == 1,
    layers={},
)
PROTOCOLS = (RDMA_IP_CM_SERVICE,)

_REASONS = {
    0: "unspecified",
    1: "major version not supported",
    2: "minor version not supported",
    3: "IP version not supported",
    4: "source address",
    5: "destination address",
    6: "unknown address",
}


def ip_cm_reject_words(additional_information: bytes) -> list[tuple[str, str]]:
    """Who refused, and why, by the additional reject information of a REJ 28 for this class of service ids.

    Empty without additional information: Linux sends none, illumos does.
    """
    if not additional_information:
        return []
    layer, *rest = additional_information
    if layer == 0:
        reason = _REASONS.get(rest[0], f"unknown(0x{rest[0]:02x})") if rest else "unspecified"
        return [("reason", f"refused by the RDMA IP CM service: {reason}")]
    return [("refused by", "the consumer" if layer == 1 else f"unknown(0x{layer:02x})")]
