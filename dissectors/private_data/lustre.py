"""Lustre over InfiniBand: LNet's o2iblnd (kib_msg, kib_rej), service number 987 unless configured otherwise.

Each side sends in its own byte order; the magic tells which. When both ends connect to each other at once, the end with
the higher NID wins and refuses the other's request: a lost connection race is no error. Lustre's "stale" compares
incarnations, the time stamps of LNet's start on a node; it has nothing to do with the CM's stale connection (REJ 10).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from ..fields import CodeField, HexCodeField, HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero, tcp_port

PORT = 987
MAGIC = 0x0BE91B91
VERSIONS = {0x11: "1", 0x12: "2"}
CONNREQ, CONNACK = 0xC0, 0xC1
TYPES = {CONNREQ: "CONNREQ", CONNACK: "CONNACK"}
REASONS = {
    1: "connection race lost (normal: both sides connected at once)",
    2: "no resources",
    3: "fatal error",
    4: "incompatible version",
    5: "stale peer incarnation (Lustre's own, not IB stale connection)",
    6: "RDMA fragments mismatch",
    7: "message queue size mismatch",
    8: "invalid service id (no listener)",
    9: "too early",
}
_O2IB = 5  # LNet's network type of o2iblnd
_REASONS_ABOUT_LIMITS = (6, 7)
_LIMITS = ("queue_depth", "max_fragments", "max_message_size")


class NidField(HexField):
    """An LNet network identifier: network type and number (16 bits each) and an IPv4 address."""

    def words(self, x: int) -> str:
        kind, network, address = x >> 48, x >> 32 & 0xFFFF, (x & 0xFFFFFFFF).to_bytes(4, "big")
        if kind != _O2IB:
            return super().words(x)
        return f"{'.'.join(map(str, address))}@o2ib{network or ''}"


def _limits(order: int) -> list[NumberField]:
    return [
        NumberField("queue_depth", 0, 16 * order),
        NumberField("max_fragments", 0, 16 * order),
        NumberField("max_message_size", 4096, 32 * order),
    ]


def _message(order: int) -> list[NumberField]:
    return [
        HexField("magic", MAGIC, 32 * order),
        HexCodeField("version", 0x12, 16 * order, VERSIONS),
        HexCodeField("type", CONNREQ, 8, TYPES),
        NumberField("credits", 0, 8),
        NumberField("message_bytes", 56, 32 * order),
        HexField("checksum", 0, 32 * order),
        NidField("source_nid", 0, 64 * order),
        HexField("source_incarnation", 0, 64 * order),
        NidField("destination_nid", 0, 64 * order),
        HexField("destination_incarnation", 0, 64 * order),
        *_limits(order),
    ]


def _reject(order: int) -> list[NumberField]:
    return [
        HexField("magic", MAGIC, 32 * order),
        HexCodeField("version", 0x12, 16 * order, VERSIONS),
        CodeField("reason", 3, 8, REASONS),
        NumberField("reserved_7", 0, 8),
        HexField("incarnation", 0, 64 * order),
        *_limits(order),
    ]


class _Ordered(PrivateData):
    byte_order: ClassVar[Literal["little", "big"]] = "little"

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return data[:4] == MAGIC.to_bytes(4, cls.byte_order)


class KIB_MSG(_Ordered):
    """CONNREQ or CONNACK of a little endian sender. Incarnations are time stamps in an unknown unit, sizes bytes."""

    name = "Lustre o2iblnd message"
    fields_desc = [*_message(-1)]

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("source_nid", "destination_nid", *_LIMITS)


class KIB_MSG_BE(KIB_MSG):
    """CONNREQ or CONNACK of a big endian sender."""

    name = "Lustre o2iblnd message (big endian)"
    byte_order = "big"
    fields_desc = [*_message(1)]


class KIB_REJ(_Ordered):
    """Reject of a little endian sender. Version 1 ends with the reason; the limits are the sender's own."""

    name = "Lustre o2iblnd reject"
    fields_desc = [*_reject(-1)]

    def words(self) -> list[tuple[str, str]]:
        if self.reason is None:
            return []
        reason = [("reason", REASONS.get(self.reason, self.repr_of("reason")))]
        return reason + (self.field_words(*_LIMITS) if self.reason in _REASONS_ABOUT_LIMITS else [])


class KIB_REJ_BE(KIB_REJ):
    """Reject of a big endian sender."""

    name = "Lustre o2iblnd reject (big endian)"
    byte_order = "big"
    fields_desc = [*_reject(1)]


for _layer, _size in ((KIB_MSG, 56), (KIB_MSG_BE, 56), (KIB_REJ, 24), (KIB_REJ_BE, 24)):
    check_layout(_layer, _size)


def _recognises(service_id: int, data: bytes) -> bool:
    port = tcp_port(service_id)
    if port == PORT and (len(data) < 4 or is_zero(data)):
        return True
    return port is not None and (KIB_MSG.fits(data) or KIB_MSG_BE.fits(data))


PROTOCOLS = (
    Protocol(
        "Lustre o2iblnd",
        known_by="port",
        ports=(PORT,),
        over_ip_cm=True,
        recognises=_recognises,
        layers={"REQ": (KIB_MSG, KIB_MSG_BE), "REP": (KIB_MSG, KIB_MSG_BE), "REJ": (KIB_REJ, KIB_REJ_BE)},
    ),
)
