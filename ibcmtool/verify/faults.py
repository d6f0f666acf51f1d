"""Known faults of Wireshark's InfiniBand dissector: what it shows instead, and why.

Read in packet-infiniband.c and seen with tshark 4.0, 4.4 and 4.6. A fault explains a difference only where Wireshark
shows exactly what the fault predicts, and in the versions that have it, so that any other error in the same field is
still noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ibcmtool.packets import IPV4_MAPPED
from ibcmtool.verify.fields import Field

Values = Mapping[str, int | bytes]  # the fields of the layer, by name

_GID = "every primary GID of a REQ over IPv4 is shown as an IPv4 address, its last 4 bytes"
_FLOW_LABEL = "the flow label of a REQ's path is shown without its last 8 bits"
_PACKET_RATE = "the packet rate of a REQ's path is read from the first byte of its flow label"
_RESERVED_FIRST = "the reserved bits of a REQ's path are read from the first byte of its flow label"
_RESERVED_THIRD = "the reserved bits of a REQ's path are read from the third byte of its flow label"
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


class Fault(NamedTuple):
    """What the versions of Wireshark `since` up to `until` show, from the values of the layer, and why."""

    predicted: Callable[[Values], int | bytes]
    why: str
    since: tuple[int, ...] = (0,)
    until: tuple[int, ...] = (1000,)  # the first version without it


def _path(path: str, reserved: str) -> dict[Field, tuple[Fault, ...]]:
    """The faults in a REQ's path around its flow label. 4.2 has not been seen: what 4.0 or 4.4 shows may be there."""
    label, rate = f"{path}_flow_label", f"{path}_packet_rate"
    return {
        ("CM_REQ", label): (Fault(_shifted(label, 8), _FLOW_LABEL),),
        ("CM_REQ", reserved): (
            Fault(_shifted(label, 18), _RESERVED_FIRST, until=(4, 4)),
            Fault(_shifted(label, 2, 0x3), _RESERVED_THIRD, since=(4, 2)),
        ),
        ("CM_REQ", rate): (Fault(_shifted(label, 12, 0x3F), _PACKET_RATE, until=(4, 4)),),
    }


FAULTS: dict[Field, tuple[Fault, ...]] = {
    ("CM_REQ", "primary_local_gid"): (Fault(_as_ipv4("primary_local_gid"), _GID),),
    ("CM_REQ", "primary_remote_gid"): (Fault(_as_ipv4("primary_remote_gid"), _GID),),
    **_path("primary", "reserved_90"),
    **_path("alternate", "reserved_134"),
    ("CM_REJ", "reserved_8"): (Fault(_shifted("reserved_8", 0, 0x3), _REJ_RESERVED),),
}


def known(field: Field, version: str) -> list[Fault]:
    """The faults that a version of Wireshark, as "4.0.17", has in a field of ours."""
    numbers = tuple(map(int, re.findall(r"\d+", version)))
    return [fault for fault in FAULTS.get(field, ()) if fault.since <= numbers < fault.until]
