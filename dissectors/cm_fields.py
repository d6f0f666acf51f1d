"""What the layers of several CM messages share: their base, fields that hang on each other, and the path of a REQ."""

from __future__ import annotations

from typing import Any

from scapy.fields import BitField, Field
from scapy.packet import Packet

from .cm_codes import RATES
from .fields import (
    BytesField,
    CodeField,
    ComputedField,
    ExponentTimeField,
    GidField,
    HexField,
    NumberField,
    WireLayer,
)


class InfoLengthField(ComputedField):
    """The bytes used in the field `of`, counted on build while it is None."""

    __slots__ = ["of"]

    def __init__(self, name: str, size: int, of: str) -> None:
        super().__init__(name, None, size)
        self.of = of

    def i2m(self, pkt: Packet | None, x: Any) -> int:
        if x is None and pkt is not None:
            return len(pkt.getfieldval(self.of) or b"")
        return int(super().i2m(pkt, x))


class AdditionalInfoField(BytesField):
    """72 bytes whose meaning hangs on the layer's reason or status; shown in words where they have one."""

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        text = super().i2repr(pkt, x)
        meaning = pkt.info_in_words() if isinstance(pkt, CmLayer) and x is not None else None
        return f"{text} ({meaning[0]} {meaning[1]})" if meaning else text


class CmLayer(WireLayer):
    """What the messages have in common."""

    def info_in_words(self) -> tuple[str, str] | None:
        """Name and value of the additional information; None where there is none."""
        return None

    def mysummary(self) -> str:
        ids = [
            f"{name} {field.i2repr(self, self.getfieldval(name))}"
            for name in ("request_id", "local_comm_id", "remote_comm_id", "reason", "status", "ap_status")
            if (field := self.fieldtype.get(name)) is not None
        ]
        return " ".join([str(self.name), *ids])


def comm_ids() -> list[BitField]:
    """Local and Remote Communication ID, with which most messages begin."""
    return [HexField("local_comm_id", 0, 32), HexField("remote_comm_id", 0, 32)]


def path(which: str, offset: int, hop_limit: int, ack_timeout: int, tail: list[BitField]) -> list[Field[Any, Any]]:
    """One of the two paths of a REQ, from byte `offset` on; `tail` fills the last three bits."""
    return [
        NumberField(f"{which}_local_lid", 0, 16),
        NumberField(f"{which}_remote_lid", 0, 16),
        GidField(f"{which}_local_gid"),
        GidField(f"{which}_remote_gid"),
        HexField(f"{which}_flow_label", 0, 20),
        NumberField(f"reserved_{offset + 38}", 0, 6),
        CodeField(f"{which}_packet_rate", 0, 6, RATES),
        NumberField(f"{which}_traffic_class", 0, 8),
        NumberField(f"{which}_hop_limit", hop_limit, 8),
        NumberField(f"{which}_sl", 0, 4),
        NumberField(f"{which}_subnet_local", 0, 1),
        NumberField(f"reserved_{offset + 42}", 0, 3),
        ExponentTimeField(f"{which}_local_ack_timeout", ack_timeout),
        *tail,
    ]
