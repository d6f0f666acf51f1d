from __future__ import annotations

import pytest
from hypothesis import strategies as st
from scapy.layers.l2 import CookedLinuxV2
from wire.links.stack import BEHIND_ETHER_TYPE, Stack, macs, tags

from ibcmtool.wire.links.linux_sll2 import LINUX_SLL2

LINK = LINUX_SLL2
ETHERNET, TUNNEL = 1, 768  # ARPHRD_


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    source, kind = draw(macs), draw(st.sampled_from([ETHERNET, TUNNEL]))
    cooked = CookedLinuxV2(
        ifindex=draw(st.integers(0, 9)),
        pkttype=draw(st.integers(0, 4)),
        lladdrtype=kind,
        lladdrlen=6,
        src=source + b"\0\0",
    )
    header, ids = draw(tags(cooked))
    return Stack(header, BEHIND_ETHER_TYPE, source if kind == ETHERNET else None, None, ids, (source,))


@pytest.mark.parametrize("kind", range(5))
def test_packet_type(kind: int) -> None:
    assert LINUX_SLL2.packet_type is not None
    assert LINUX_SLL2.packet_type(bytes(CookedLinuxV2(pkttype=kind))) == kind
