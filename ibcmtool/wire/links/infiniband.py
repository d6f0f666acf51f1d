"""InfiniBand packets from the LRH on, with nothing in front."""

from __future__ import annotations

from typing import Final

from ibcmtool.wire import Buffer, bpf
from ibcmtool.wire.link_record import NOTHING, HeaderPattern, LinkType
from ibcmtool.wire.network import Found, behind_lrh


def carried(_data: Buffer) -> None:
    return None


def macs(_data: bytes) -> tuple[None, None]:
    return None, None


def addresses(_data: bytes) -> tuple[int, ...]:
    return ()


def pattern(_data: Buffer, found: Found) -> HeaderPattern:
    return HeaderPattern((1, "B"), (2, NOTHING), (2, NOTHING), found[2])  # the byte with the LNH is all that counts


def capture_filter() -> str:
    return bpf.behind_lrh(0)


INFINIBAND: Final = LinkType(
    number=247,
    name="InfiniBand",
    find=behind_lrh,
    carried=carried,
    macs=macs,
    addresses=addresses,
    packet_type=None,
    pattern=pattern,
    capture_filter=capture_filter,
)
