"""The header of a management datagram and ClassPortInfo (IBA vol. 1, chapter 13).

A MAD has 256 bytes: this header and 232 bytes of data, which are padded with zeros on build. Data of class 7
(communication management) is dissected for class version 2; that of class version 1, whose layout is uncertain, stays
raw.
"""

from __future__ import annotations

from scapy.packet import Packet, bind_bottom_up, bind_layers, bind_top_down

from .fields import (
    ExponentTimeField,
    GidField,
    HexCodeField,
    HexField,
    NumberField,
    WireLayer,
    check_layout,
)
from .recognition import CM_ATTRIBUTES, CM_CLASS, CM_CLASS_VERSION, GSI_Q_KEY, GSI_QPN, MAD_SIZE
from .transport import DETH, ImmDt

MGMT_CLASSES: dict[int, str] = {
    0x01: "subnet management, LID routed",
    0x81: "subnet management, directed route",
    0x03: "subnet administration",
    0x04: "performance management",
    0x05: "baseboard management",
    0x06: "device management",
    0x07: "communication management",
    0x08: "SNMP tunneling",
}
METHODS: dict[int, str] = {
    0x01: "Get",
    0x02: "Set",
    0x03: "Send",
    0x05: "Trap",
    0x06: "Report",
    0x07: "TrapRepress",
    0x81: "GetResp",
    0x86: "ReportResp",
}


class AttributeField(HexField):
    """An attribute ID; the names that it is shown with hold in the communication management class."""

    def i2repr(self, pkt: Packet | None, x: object) -> str:
        text: str = super().i2repr(pkt, x)
        if isinstance(x, int) and x in CM_ATTRIBUTES and pkt is not None and pkt.mgmt_class == CM_CLASS:
            return f"{text} ({CM_ATTRIBUTES[x]})"
        return text


class MAD(WireLayer):
    """The header common to all management datagrams; in communication management the modifier carries ECE options."""

    name = "MAD"
    fields_desc = [
        NumberField("base_version", 1, 8),
        HexCodeField("mgmt_class", CM_CLASS, 8, MGMT_CLASSES),
        NumberField("class_version", CM_CLASS_VERSION, 8),
        HexCodeField("method", 0x03, 8, METHODS),
        HexField("status", 0, 16),
        HexField("class_specific", 0, 16),
        HexField("tid", 0, 64),
        AttributeField("attribute_id", 0, 16),
        HexField("reserved_18", 0, 16),
        HexField("attribute_modifier", 0, 32),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        return (pkt + pay).ljust(MAD_SIZE, b"\0")


class ClassPortInfo(WireLayer):
    """What a port's class agent can do, and where it redirects to. In class 7 it stands at the start of the data."""

    name = "ClassPortInfo"
    fields_desc = [
        NumberField("base_version", 1, 8),
        NumberField("class_version", CM_CLASS_VERSION, 8),
        HexField("capability_mask", 0, 16),
        HexField("capability_mask2", 0, 27),
        ExponentTimeField("resp_time_value", 20),
        GidField("redirect_gid"),
        NumberField("redirect_traffic_class", 0, 8),
        NumberField("redirect_sl", 0, 4),
        HexField("redirect_flow_label", 0, 20),
        NumberField("redirect_lid", 0, 16),
        HexField("redirect_partition_key", 0, 16),
        NumberField("reserved_32", 0, 8),
        HexField("redirect_qp", 0, 24),
        HexField("redirect_q_key", 0, 32),
        GidField("trap_gid"),
        NumberField("trap_traffic_class", 0, 8),
        NumberField("trap_sl", 0, 4),
        HexField("trap_flow_label", 0, 20),
        NumberField("trap_lid", 0, 16),
        HexField("trap_partition_key", 0, 16),
        NumberField("trap_hop_limit", 0, 8),
        HexField("trap_qp", 0, 24),
        HexField("trap_q_key", 0, 32),
    ]


check_layout(MAD, 24)
check_layout(ClassPortInfo, 72)

bind_layers(DETH, MAD, q_key=GSI_Q_KEY)
bind_top_down(DETH, MAD, q_key=GSI_Q_KEY, source_qp=GSI_QPN)
bind_top_down(DETH, ImmDt, q_key=GSI_Q_KEY, source_qp=GSI_QPN)
bind_bottom_up(MAD, ClassPortInfo, mgmt_class=CM_CLASS, attribute_id=0x0001)
bind_top_down(MAD, ClassPortInfo, mgmt_class=CM_CLASS, method=0x81, attribute_id=0x0001)
