"""Known faults of Wireshark's InfiniBand dissector: what it shows instead, and why.

Read in packet-infiniband.c and seen with tshark 4.0. A fault explains a difference only where Wireshark shows exactly
what the fault predicts, so a version without it, or another error in the same field, is still noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ibcmtool.model import IPV4_MAPPED
from ibcmtool.verify.fields import Field

Values = Mapping[str, int | bytes]  # the fields of the layer, by name

_GID = "every primary GID of a REQ over IPv4 is shown as an IPv4 address, its last 4 bytes"
_FLOW_LABEL = "the flow label of a REQ's path is shown without its last 8 bits"
_PACKET_RATE = "the packet rate of a REQ's path is read from the first byte of its flow label"
_RESERVED = "the reserved bits of a REQ's path are read from the first byte of its flow label"
_REJ_RESERVED = "only the last 2 of the 6 reserved bits of a REJ are shown"

MISPLACED = "the remote QPN of a DREQ is filed under infiniband.cm.req"
NOT_A_MAD = "every packet from or to queue pair 0 or 1 is taken for a MAD, whatever its Q_Key and opcode"


def _shifted(label: str, right: int, mask: int = 0xFFFFF) -> Callable[[Values], int]:
    def predicted(values: Values) -> int:
        return int(values[label]) >> right & mask

    return predicted


def _as_ipv4(gid: str) -> Callable[[Values], bytes]:
    def predicted(values: Values) -> bytes:
        return IPV4_MAPPED + bytes(values[gid])[12:]

    return predicted


FAULTS: dict[Field, tuple[Callable[[Values], int | bytes], str]] = {
    ("CM_REQ", "primary_local_gid"): (_as_ipv4("primary_local_gid"), _GID),
    ("CM_REQ", "primary_remote_gid"): (_as_ipv4("primary_remote_gid"), _GID),
    ("CM_REQ", "primary_flow_label"): (_shifted("primary_flow_label", 8), _FLOW_LABEL),
    ("CM_REQ", "reserved_90"): (_shifted("primary_flow_label", 18), _RESERVED),
    ("CM_REQ", "primary_packet_rate"): (_shifted("primary_flow_label", 12, 0x3F), _PACKET_RATE),
    ("CM_REQ", "alternate_flow_label"): (_shifted("alternate_flow_label", 8), _FLOW_LABEL),
    ("CM_REQ", "reserved_134"): (_shifted("alternate_flow_label", 18), _RESERVED),
    ("CM_REQ", "alternate_packet_rate"): (_shifted("alternate_flow_label", 12, 0x3F), _PACKET_RATE),
    ("CM_REJ", "reserved_8"): (_shifted("reserved_8", 0, 0x3), _REJ_RESERVED),
}
