"""RDS, Reliable Datagram Sockets over RDMA: big endian, port 18634 over IPv4 and 16385 over IPv6.

A REJ carries one `int` in the byte order of the host that sent it. It is 1 for an incompatible version, but Linux sends
1 for most other refusals too: it has no such address, or it already has a connection to this peer or is setting one up
(both ends connect at once). A negative number is an errno.
"""

from __future__ import annotations

import socket
from typing import Any, ClassVar, Literal

from scapy.packet import Packet

from ..fields import GidField, HexField, NumberField, check_layout
from .errnos import errno_words
from .protocol import PrivateData, Protocol, is_zero, tcp_port

PORT_IPV4, PORT_IPV6 = 18634, 16385
INCOMPAT = 1
_MAJOR_VERSIONS = (3, 4)
_HIGHEST_ERRNO = 4095


class Ipv4Field(NumberField):
    """An IPv4 address; it can be set to a number or to text."""

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, x), "big") if isinstance(x, str) else x

    def words(self, x: int) -> str:
        return socket.inet_ntoa(x.to_bytes(4, "big"))


class RejectField(HexField):
    """The word of a REJ: 1, or a negative errno in two's complement."""

    def words(self, x: int) -> str:
        if x == INCOMPAT:
            return "INCOMPAT (incompatible version, or already connected or connecting to this peer)"
        return errno_words(x - (1 << 32)) if x >> 31 else super().words(x)


def _common(offset: int) -> list[Any]:
    """20 bytes from `offset` on. Two fields are reserved in older kernels: the type of service, and the fragment size
    (in bytes), which only Oracle's UEK kernels use.
    """
    return [
        NumberField("major_version", 4, 8),
        NumberField("minor_version", 1, 8),
        HexField("minor_version_mask", 0x0003, 16),
        NumberField("type_of_service", 0, 8),
        NumberField(f"reserved_{offset + 5}", 0, 8),
        NumberField("fragment_size", 0, 16),
        NumberField("acknowledged_sequence", 0, 64),
        NumberField("credit", 0, 32),
    ]


class RDS_CM(PrivateData):
    """REQ and REP over IPv4. Bit n of the mask stands for minor version n; a credit of 0 means no flow control."""

    name = "RDS"
    fields_desc = [Ipv4Field("source", 0, 32), Ipv4Field("destination", 0, 32), *_common(8)]
    version_offset: ClassVar[int] = 8

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return len(data) > cls.version_offset and data[cls.version_offset] in _MAJOR_VERSIONS

    def words(self) -> list[tuple[str, str]]:
        if self.minor_version is None:
            return []
        told = [("version", f"{self.major_version}.{self.minor_version}")]
        if self.minor_version_mask:
            minors = [minor for minor in range(16) if self.minor_version_mask >> minor & 1]
            told.append(("accepts", " ".join(f"{self.major_version}.{minor}" for minor in minors)))
        options = ("type_of_service", "fragment_size", "credit")
        return told + self.field_words(*(name for name in options if getattr(self, name)))


class RDS6_CM(RDS_CM):
    """REQ and REP over IPv6."""

    name = "RDS (IPv6)"
    fields_desc = [GidField("source"), GidField("destination"), *_common(32)]
    version_offset = 32


class RDS_REJ(PrivateData):
    """Reject of a little endian host: two's complement."""

    name = "RDS reject"
    fields_desc = [RejectField("reason", INCOMPAT, -32)]
    byte_order: ClassVar[Literal["little", "big"]] = "little"

    @classmethod
    def fits(cls, data: bytes) -> bool:
        number = int.from_bytes(data[:4], cls.byte_order, signed=True)
        return len(data) >= 4 and (number == INCOMPAT or -_HIGHEST_ERRNO <= number < 0) and is_zero(data[4:])

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("reason")


class RDS_REJ_BE(RDS_REJ):
    """Reject of a big endian host."""

    name = "RDS reject (big endian)"
    byte_order = "big"
    fields_desc = [RejectField("reason", INCOMPAT, 32)]


check_layout(RDS_CM, 28)
check_layout(RDS6_CM, 52)
check_layout(RDS_REJ, 4)
check_layout(RDS_REJ_BE, 4)

_REJECTS = (RDS_REJ, RDS_REJ_BE)

IPV4_PROTOCOL = Protocol(
    "RDS",
    known_by="port",
    ports=(PORT_IPV4,),
    over_ip_cm=True,
    recognises=lambda service_id, data: tcp_port(service_id) == PORT_IPV4,
    layers={"REQ": (RDS_CM,), "REP": (RDS_CM,), "REJ": _REJECTS},
)
IPV6_PROTOCOL = Protocol(
    "RDS",
    known_by="port",
    ports=(PORT_IPV6,),
    over_ip_cm=True,
    recognises=lambda service_id, data: tcp_port(service_id) == PORT_IPV6,
    layers={"REQ": (RDS6_CM,), "REP": (RDS6_CM,), "REJ": _REJECTS},
)
PROTOCOLS = (IPV4_PROTOCOL, IPV6_PROTOCOL)
