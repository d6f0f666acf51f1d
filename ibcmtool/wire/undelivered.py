"""ICMP errors about RoCE v2 packets: who says that a packet could not be delivered, and why.

Destination Unreachable of IPv4 (RFC 792, RFC 1812) and of IPv6 (RFC 4443). Both quote the packet that they are about,
from its IP header on; those of other packets than RoCE's are passed over.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ibcmtool.packets import IPV4_MAPPED, Unreachable
from ibcmtool.wire import Buffer
from ibcmtool.wire.network import ICMP, ICMPV6, IPV4, IPV6, IPV6_SIZE, PORT_AT, ROCE_PORT, UDP
from ibcmtool.wire.tunnels import Layer

UNREACHABLE, UNREACHABLE_V6 = 3, 1  # types
ICMP_SIZE: Final = 8

_REASONS: Final[dict[int, Unreachable]] = {
    **dict.fromkeys((0, 6, 11), "network"),
    **dict.fromkeys((1, 7, 12), "host"),
    3: "port",
    **dict.fromkeys((9, 10, 13), "prohibited"),
}
_REASONS_V6: Final[dict[int, Unreachable]] = {
    0: "network",
    3: "host",
    4: "port",
    **dict.fromkeys((1, 5, 6), "prohibited"),
}
_short: Final = struct.Struct("!H").unpack_from
_four: Final = struct.Struct("4s").unpack_from
_sixteen: Final = struct.Struct("16s").unpack_from


class Complaint(NamedTuple):
    """What an ICMP error says. The addresses are GIDs; where the quoted packet is, and where in it UDP begins."""

    reporter: bytes
    source: bytes
    destination: bytes
    reason: Unreachable
    quoted: int
    ports: int


def complaint(data: Buffer, layer: Layer) -> Complaint | None:
    """The ICMP error that this layer is, if it is one about a RoCE v2 packet. May raise IndexError, struct.error."""
    at = layer.at
    if layer.kind == IPV4 and data[at + 9] == ICMP:
        # The scan knows plain RoCE by the word where the checksum is (scan.py): one error in 65,536 is not read.
        if not _short(data, at + 6)[0] & 0x1FFF and _short(data, at + 20 + PORT_AT)[0] != ROCE_PORT:
            return _ipv4(data, at, at + (data[at] & 15) * 4)
    elif layer.kind == IPV6 and data[at + 6] == ICMPV6 and data[at + IPV6_SIZE] == UNREACHABLE_V6:
        return _ipv6(data, at, at + IPV6_SIZE)
    return None


def _ipv4(data: Buffer, at: int, icmp: int) -> Complaint | None:
    reason, quoted = _REASONS.get(data[icmp + 1]), icmp + ICMP_SIZE
    if data[icmp] != UNREACHABLE or reason is None or data[quoted] >> 4 != 4 or data[quoted + 9] != UDP:
        return None
    ports = quoted + (data[quoted] & 15) * 4
    if _short(data, ports + PORT_AT)[0] != ROCE_PORT:
        return None
    reporter, source, destination = (IPV4_MAPPED + _four(data, one)[0] for one in (at + 12, quoted + 12, quoted + 16))
    return Complaint(reporter, source, destination, reason, quoted, ports)


def _ipv6(data: Buffer, at: int, icmp: int) -> Complaint | None:
    reason, quoted = _REASONS_V6.get(data[icmp + 1]), icmp + ICMP_SIZE
    ports = quoted + IPV6_SIZE
    if reason is None or data[quoted + 6] != UDP or _short(data, ports + PORT_AT)[0] != ROCE_PORT:
        return None
    reporter, source, destination = (_sixteen(data, one)[0] for one in (at + 8, quoted + 8, quoted + 24))
    return Complaint(reporter, source, destination, reason, quoted, ports)
