"""IPoIB connected mode (RFC 4755): 8 bytes in REQ and REP.

Each direction has its own connection, so that two hosts that talk to each other have two, opened from either side.
"""

from __future__ import annotations

from ..fields import HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero

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

    @classmethod
    def fits(cls, data: bytes) -> bool:
        """A receive MTU of 0 is none: such a message carries no private data."""
        return bool(data) and (len(data) < 8 or not is_zero(data[4:8]))

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("ud_qpn", "receive_mtu")


check_layout(IPoIB_CM, 8)

PROTOCOLS = (
    Protocol(
        "IPoIB-CM",
        known_by="service id",
        over_ip_cm=False,
        recognises=lambda service_id, data: service_id & ~0xFFFFFF in BASES,
        layers={"REQ": (IPoIB_CM,), "REP": (IPoIB_CM,)},
    ),
)
