from __future__ import annotations

from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from wire.links.stack import BEHIND_ETHER_TYPE, Stack, macs, tags

from ibcmtool.wire.links.ethernet import ETHERNET

LINK = ETHERNET


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    source, destination = draw(macs), draw(macs)
    header, ids = draw(tags(Ether(src=source.hex(":"), dst=destination.hex(":"))))
    return Stack(header, BEHIND_ETHER_TYPE, source, destination, ids, (source, destination))


def test_places() -> None:
    data = bytes.fromhex("525400000001 525400000002 8100 0005 0800".replace(" ", "")) + bytes(28)
    assert ETHERNET.macs(data) == (data[6:12], data[:6])
    assert ETHERNET.carried(data) == (0x8100, 14)
    assert ETHERNET.find(data) is None
