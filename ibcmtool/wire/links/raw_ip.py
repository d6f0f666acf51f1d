"""IP with nothing in front: of either version, which its first byte tells."""

from __future__ import annotations

from typing import Final

from ibcmtool.wire import Buffer, bpf, tunnels
from ibcmtool.wire.link_record import NOTHING, HeaderPattern, LinkType, network_pattern
from ibcmtool.wire.network import Found


def find(data: Buffer) -> Found | None:
    kind = tunnels.ip_kind(data, 0)
    return None if kind is None else tunnels.find(data, 0, kind)


def carried(data: Buffer) -> tuple[int, int] | None:
    kind = tunnels.ip_kind(data, 0)
    return None if kind is None else (kind, 0)


def macs(_data: bytes) -> tuple[None, None]:
    return None, None


def addresses(_data: bytes) -> tuple[int, ...]:
    return ()


def pattern(data: Buffer, found: Found) -> HeaderPattern | None:
    kind, network, bth, _ = found
    if network:  # in a tunnel
        return None
    return network_pattern(kind, 0, bth, (0, NOTHING if kind == "ipv4" else "B"))


def capture_filter() -> str:
    return bpf.behind_nothing()


RAW_IP: Final = LinkType(
    number=101,
    name="raw IP",
    find=find,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=None,
    pattern=pattern,
    capture_filter=capture_filter,
)
