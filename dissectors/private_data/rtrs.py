"""RTRS, the transport of RNBD (RDMA network block device): little endian, port 1234 unless configured otherwise.

A session has several connections; each sends a REQ with the same session UUID. Over AF_IB addresses there is no RDMA
IP CM header in front of the request, whose first two bytes are zero so that it is not taken for one.
"""

from __future__ import annotations

import uuid

from ..fields import BytesField, HexField, NumberField, check_layout
from .errnos import errno_words
from .protocol import PrivateData, Protocol, is_zero, tcp_port

PORT = 1234
MAGIC = 0x1BBD
_MAGIC = MAGIC.to_bytes(2, "little")
_EBUSY = 16


class VersionField(NumberField):
    """Major version in the upper byte, minor version in the lower one."""

    def words(self, x: int) -> str:
        return f"{x >> 8}.{x & 0xFF}"


class ErrnoField(NumberField):
    """A Linux error number, 0 for none. The server sends the negative number as 16 bits in two's complement."""

    @staticmethod
    def number(x: int) -> int:
        return 0x10000 - x if x >> 15 else x

    def words(self, x: int) -> str:
        return errno_words(self.number(x)) if x else "0"


class UuidField(BytesField):
    """16 bytes, shown as a UUID."""

    def __init__(self, name: str) -> None:
        super().__init__(name, 16)

    def i2repr(self, pkt: object, x: bytes | None) -> str:
        return str(uuid.UUID(bytes=x)) if x is not None and len(x) == 16 else str(super().i2repr(None, x))


class RTRS_REQ(PrivateData):
    """`connection` counts from 0; `connections` are those of the session."""

    name = "RTRS connection request"
    fields_desc = [
        NumberField("cma_version", 0, 8),
        NumberField("ip_version", 0, 8),
        HexField("magic", MAGIC, -16),
        VersionField("version", 0x0200, -16),
        NumberField("connection", 0, -16),
        NumberField("connections", 1, -16),
        NumberField("reconnections", 0, -16),
        UuidField("session_uuid"),
        UuidField("paths_uuid"),
        NumberField("reserved_44", 0, 7),
        NumberField("first_connection", 0, 1),
        BytesField("reserved_45", 11),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return is_zero(data[:2]) and data[2:4] == _MAGIC

    def words(self) -> list[tuple[str, str]]:
        if self.connections is None:
            return []
        told = [("connection", f"{self.connection} of {self.connections}")]
        if self.session_uuid is not None and len(self.session_uuid) == 16:
            told.append(("session", self.repr_of("session_uuid")))
        return told + (self.field_words("reconnections") if self.reconnections else [])


class RTRS_RSP(PrivateData):
    """The answer in REP and REJ; a REJ fills only magic, version and error number. Sizes are in bytes."""

    name = "RTRS connection response"
    fields_desc = [
        HexField("magic", MAGIC, -16),
        VersionField("version", 0x0200, -16),
        ErrnoField("errno", 0, -16),
        NumberField("queue_depth", 0, -16),
        NumberField("max_io_size", 0, -32),
        NumberField("max_header_size", 0, -32),
        HexField("flags", 0, -32),
        BytesField("reserved_20", 36),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return data[:2] == _MAGIC

    def words(self) -> list[tuple[str, str]]:
        if self.errno:
            still = ": the server still has the previous session"
            return [("reason", self.repr_of("errno") + (still if ErrnoField.number(self.errno) == _EBUSY else ""))]
        return self.field_words("queue_depth", "max_io_size", "max_header_size") if self.queue_depth else []


check_layout(RTRS_REQ, 56)
check_layout(RTRS_RSP, 56)


def _recognises(service_id: int, data: bytes) -> bool:
    port = tcp_port(service_id)
    if port == PORT and (len(data) < 4 or is_zero(data) or RTRS_REQ.fits(data)):
        return True
    # Two bytes of magic are little to go by at another port: the version and the numbers must be right too.
    return (
        port is not None
        and len(data) >= 12
        and RTRS_REQ.fits(data)
        and data[5] == 2
        and int.from_bytes(data[6:8], "little") < int.from_bytes(data[8:10], "little")
    )


PROTOCOLS = (
    Protocol(
        "RTRS",
        known_by="port",
        ports=(PORT,),
        over_ip_cm=True,
        recognises=_recognises,
        layers={"REQ": (RTRS_REQ,), "REP": (RTRS_RSP,), "REJ": (RTRS_RSP,)},
    ),
)
