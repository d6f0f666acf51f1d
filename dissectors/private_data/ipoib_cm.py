"""IPoIB connected mode (RFC 4755): 8 bytes in REQ and REP.

Each direction has its own connection, so that two hosts that talk to each other have two, opened from either side.
"""

from __future__ import annotations

from ..fields import HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol

# RFC 4755 puts the UD QPN under the IETF's byte 0x01; Linux uses 0x10, one hex digit off.
BASES = (0x0100000000000000, 0x1000000000000000)


class IPoIB_CM(PrivateData):
    """`ud_qpn` is the UD QPN of the interface that sends the message; `receive_mtu` is in bytes."""

    name = "IPoIB-CM"
    fields_desc = [
        NumberField("reserved_0", 0, 8),
        HexField("ud_qpn", 0, 24),
        NumberField("receive_mtu", 65524, 32),
    ]

    def words(self) -> list[tuple[str, str]]:
        named = {"ud qpn": "UD QPN", "receive mtu": "receive MTU"}
        return [(named[name], value) for name, value in self.field_words("ud_qpn", "receive_mtu")]


check_layout(IPoIB_CM, 8)

PROTOCOL = Protocol(
    "IPoIB-CM",
    over_ip_cm=False,
    recognises=lambda service_id, data: service_id & ~0xFFFFFF in BASES,
    layers={"REQ": IPoIB_CM, "REP": IPoIB_CM},
)
