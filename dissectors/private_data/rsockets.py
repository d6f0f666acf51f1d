"""rsockets, the sockets over RDMA of librdmacm: big endian, any port; recognised by its form. A REJ has no format.

Each end tells where the other may write: its credit messages (the target list) and its data (the receive buffer, of
which one half is offered at a time).
"""

from __future__ import annotations

from ..fields import BytesField, HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero, number, tcp_port

VERSION = 1
_TARGETS = 2  # entries of the target list, in every version of librdmacm
_SIZE = 40


class ScaledField(NumberField):
    """A count in 8 bits: up to 128 itself, beyond that 128 and the count divided by 256."""

    def words(self, x: int) -> str:
        return str(x if x <= 0x80 else (x & 0x7F) << 8)


class RSOCKETS_CM(PrivateData):
    """`credits` is the number of receives that the sender has posted; `data_length` is in bytes."""

    name = "rsockets"
    fields_desc = [
        NumberField("version", VERSION, 8),
        NumberField("other_flags", 0, 6),
        NumberField("iomap", 1, 1),
        NumberField("big_endian_host", 0, 1),
        NumberField("credits", 384, 16),
        BytesField("reserved_4", 3),
        ScaledField("iomap_size", 0, 8),
        HexField("target_address", 0, 64),
        HexField("target_key", 0, 32),
        NumberField("target_length", _TARGETS, 32),
        HexField("data_address", 0, 64),
        HexField("data_key", 0, 32),
        NumberField("data_length", 65536, 32),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return (
            len(data) >= _SIZE
            and data[0] == VERSION
            and data[1] <= 3
            and not is_zero(data[2:4])
            and is_zero(data[4:7])
            and not is_zero(data[8:16])
            and number(data, 20, 4) == _TARGETS
            and not is_zero(data[24:32])
            and not is_zero(data[36:40])
            and is_zero(data[_SIZE:])
        )

    def words(self) -> list[tuple[str, str]]:
        told = self.field_words("credits")
        if self.data_length is not None:
            told.append(("receive buffer", f"2 x {self.data_length} bytes"))
        return told + ([("host", "big endian")] if self.big_endian_host else [])


check_layout(RSOCKETS_CM, _SIZE)

PROTOCOLS = (
    Protocol(
        "rsockets",
        known_by="form",
        over_ip_cm=True,
        recognises=lambda service_id, data: tcp_port(service_id) is not None and RSOCKETS_CM.fits(data),
        layers={"REQ": (RSOCKETS_CM,), "REP": (RSOCKETS_CM,)},
    ),
)
