"""SDP, the Sockets Direct Protocol (IBA annex A4): big endian, service id 0x000000000001pppp. A REJ has no format.

Both messages begin with the Base Sockets Direct Header (BSDH), which every SDP message has. The Hello carries the
addresses itself: there is no RDMA IP CM header. No mainline kernel has SDP; OFED and FreeBSD had.
"""

from __future__ import annotations

from ..fields import BytesField, CodeField, ComputedField, HexField, NumberField, check_layout
from .ip_cm import AddressField
from .protocol import PrivateData, Protocol

HELLO, HELLO_ACK = 0, 1
MESSAGE_IDS = {HELLO: "Hello", HELLO_ACK: "HelloAck"}
MAJOR_VERSION = 2
_SERVICE = 0x000000000001  # the upper 48 bits of every SDP service id


def _base_header(message_id: int) -> list[NumberField]:
    """16 bytes; `buffers` is the number of receive buffers that the sender has posted."""
    return [
        CodeField("message_id", message_id, 8, MESSAGE_IDS),
        HexField("flags", 0, 8),
        NumberField("buffers", 0, 16),
        NumberField("length", 0, 32),
        NumberField("sequence_number", 0, 32),
        NumberField("acknowledged_number", 0, 32),
        NumberField("major_version", MAJOR_VERSION, 4),
        NumberField("minor_version", 2, 4),
    ]


def _fits(data: bytes, message_id: int) -> bool:
    return data[:1] == bytes([message_id]) and data[16:17] != b"" and data[16] >> 4 == MAJOR_VERSION


class SDP_HELLO(PrivateData):
    """Sizes are in bytes."""

    name = "SDP Hello"
    fields_desc = [
        *_base_header(HELLO),
        ComputedField("ip_version", None, 4),
        NumberField("other_capabilities", 0, 2),
        NumberField("extended_max_adverts_used", 0, 1),
        NumberField("invalidate", 0, 1),
        NumberField("reserved_18", 0, 8),
        NumberField("max_adverts", 1, 8),
        NumberField("desired_remote_receive_size", 0, 32),
        NumberField("local_receive_size", 0, 32),
        NumberField("local_port", 0, 16),
        BytesField("reserved_30", 2),
        AddressField("source", "0.0.0.0"),
        AddressField("destination", "0.0.0.0"),
        BytesField("reserved_64", 2),
        NumberField("extended_max_adverts", 0, 16),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return _fits(data, HELLO) and (len(data) < 18 or data[17] >> 4 in (4, 6))

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.ip_version is None:
            version = 6 if ":" in self.source or ":" in self.destination else 4
            pkt = pkt[:17] + bytes([version << 4 | pkt[17]]) + pkt[18:]
        return pkt + pay

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("source", "local_port", "destination", "local_receive_size")


class SDP_HELLO_ACK(PrivateData):
    """Sizes are in bytes."""

    name = "SDP HelloAck"
    fields_desc = [
        *_base_header(HELLO_ACK),
        NumberField("ip_version", 0, 4),
        NumberField("capabilities", 0, 4),
        NumberField("reserved_18", 0, 8),
        NumberField("extended_max_adverts", 0, 8),
        NumberField("actual_receive_size", 0, 32),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return _fits(data, HELLO_ACK)

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("actual_receive_size", "buffers")


check_layout(SDP_HELLO, 68)
check_layout(SDP_HELLO_ACK, 24)

PROTOCOLS = (
    Protocol(
        "SDP",
        known_by="service id",
        over_ip_cm=False,
        recognises=lambda service_id, data: service_id >> 16 == _SERVICE,
        layers={"REQ": (SDP_HELLO,), "REP": (SDP_HELLO_ACK,)},
    ),
)
