"""SRP, the SCSI RDMA Protocol: a login over the CM, in one form for plain service ids and one for RDMA CM ports.

The target chooses the service id, so a login is recognised by its form. The halves of the port identifiers are swapped
in targets of SRP revision 10 (I/O class 0xFF00); nothing in the login tells.
"""

from __future__ import annotations

from ..fields import BytesField, CodeField, HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero, number, tcp_port

LOGIN_REQ, LOGIN_RSP, LOGIN_REJ = 0x00, 0xC0, 0xC2
OPCODES = {LOGIN_REQ: "LOGIN_REQ", LOGIN_RSP: "LOGIN_RSP", LOGIN_REJ: "LOGIN_REJ"}
REASONS = {
    0x00010000: "unable to establish RDMA channel, no reason given",
    0x00010001: "insufficient RDMA channel resources",
    0x00010002: "requested IU length too large",
    0x00010003: "unable to associate RDMA channel with existing I_T nexus",
    0x00010004: "unsupported data buffer descriptor format",
    0x00010005: "no support for multiple RDMA channels per I_T nexus",
    0x00010006: "RDMA channel limit reached for this initiator",
}
_MINIMUM_IU_LENGTH = 64
_PREVIOUS_CHANNELS = {0: "none", 1: "terminated", 2: "maintained"}
_LOGIN_WORDS = ("initiator_port_id", "target_port_id", "iu_length")


def _buffer_formats() -> list[NumberField]:
    """Two bytes, most of them unused: bit 2 indirect, bit 1 direct data buffer descriptors."""
    return [
        NumberField("other_buffer_formats", 0, 13),
        NumberField("indirect_buffers", 1, 1),
        NumberField("direct_buffers", 1, 1),
        NumberField("no_buffers", 0, 1),
    ]


def _request_flags() -> list[NumberField]:
    return [
        NumberField("immediate_data", 0, 1),
        NumberField("other_flags", 0, 6),
        NumberField("multichannel", 0, 1),
    ]


class _Login(PrivateData):
    def words(self) -> list[tuple[str, str]]:
        return self.field_words(*_LOGIN_WORDS, *(["multichannel"] if self.multichannel else []))


class SRP_LOGIN_REQ(_Login):
    """The form for plain service ids. Lengths and offsets are in bytes."""

    name = "SRP login request"
    fields_desc = [
        CodeField("opcode", LOGIN_REQ, 8, OPCODES),
        BytesField("reserved_1", 7),
        HexField("tag", 0, 64),
        NumberField("iu_length", _MINIMUM_IU_LENGTH, 32),
        BytesField("reserved_20", 4),
        *_buffer_formats(),
        *_request_flags(),
        NumberField("reserved_27", 0, 8),
        NumberField("immediate_data_offset", 0, 16),
        BytesField("reserved_30", 2),
        HexField("initiator_port_id", 0, 128),
        HexField("target_port_id", 0, 128),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return (
            is_zero(data[:8])
            and number(data, 16, 4) >= _MINIMUM_IU_LENGTH
            and is_zero(data[20:24])
            and number(data, 24, 2) in (2, 4, 6)
            and data[27:28] == b"\0"
            and not is_zero(data[48:64])
        )


class SRP_LOGIN_REQ_RDMA(_Login):
    """The form for RDMA CM ports, which fits behind the RDMA IP CM header."""

    name = "SRP login request (RDMA CM)"
    fields_desc = [
        HexField("tag", 0, 64),
        *_buffer_formats(),
        *_request_flags(),
        CodeField("opcode", LOGIN_REQ, 8, OPCODES),
        NumberField("iu_length", _MINIMUM_IU_LENGTH, 32),
        HexField("initiator_port_id", 0, 128),
        HexField("target_port_id", 0, 128),
        NumberField("immediate_data_offset", 0, 16),
        BytesField("reserved_50", 6),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return (
            number(data, 8, 2) in (2, 4, 6)
            and data[11:12] == b"\0"
            and number(data, 12, 4) >= _MINIMUM_IU_LENGTH
            and not is_zero(data[32:48])
            and is_zero(data[50:])
        )


class SRP_LOGIN_RSP(PrivateData):
    """`request_limit_delta` is how many requests the initiator may have outstanding; IU lengths are in bytes."""

    name = "SRP login response"
    fields_desc = [
        CodeField("opcode", LOGIN_RSP, 8, OPCODES),
        BytesField("reserved_1", 3),
        NumberField("request_limit_delta", 0, 32),
        HexField("tag", 0, 64),
        NumberField("max_iu_length_to_target", 0, 32),
        NumberField("max_iu_length_to_initiator", 0, 32),
        *_buffer_formats(),
        NumberField("immediate_data_supported", 0, 1),
        NumberField("other_flags", 0, 5),
        CodeField("previous_channel", 0, 2, _PREVIOUS_CHANNELS),
        BytesField("reserved_27", 25),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return data[:4] == bytes([LOGIN_RSP, 0, 0, 0])

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("request_limit_delta", "max_iu_length_to_target", "max_iu_length_to_initiator")


class SRP_LOGIN_REJ(PrivateData):
    """Why the target refuses (SRP_LOGIN_REJ information unit)."""

    name = "SRP login reject"
    fields_desc = [
        CodeField("opcode", LOGIN_REJ, 8, OPCODES),
        BytesField("reserved_1", 3),
        CodeField("reason", 0x00010000, 32, REASONS),
        HexField("tag", 0, 64),
        BytesField("reserved_16", 8),
        *_buffer_formats(),
        BytesField("reserved_26", 6),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return data[:4] == bytes([LOGIN_REJ, 0, 0, 0])

    def words(self) -> list[tuple[str, str]]:
        return [] if self.reason is None else [("reason", REASONS.get(self.reason, self.repr_of("reason")))]


check_layout(SRP_LOGIN_REQ, 64)
check_layout(SRP_LOGIN_REQ_RDMA, 56)
check_layout(SRP_LOGIN_RSP, 52)
check_layout(SRP_LOGIN_REJ, 32)

_ANSWERS = {"REP": (SRP_LOGIN_RSP,), "REJ": (SRP_LOGIN_REJ,)}

PROTOCOL = Protocol(
    "SRP",
    known_by="form",
    over_ip_cm=False,
    recognises=lambda service_id, data: service_id >> 24 != 1 and SRP_LOGIN_REQ.fits(data),
    layers={"REQ": (SRP_LOGIN_REQ,), **_ANSWERS},
)
RDMA_CM_PROTOCOL = Protocol(
    "SRP",
    known_by="form",
    over_ip_cm=True,
    recognises=lambda service_id, data: tcp_port(service_id) is not None and SRP_LOGIN_REQ_RDMA.fits(data),
    layers={"REQ": (SRP_LOGIN_REQ_RDMA,), **_ANSWERS},
)
PROTOCOLS = (RDMA_CM_PROTOCOL, PROTOCOL)
