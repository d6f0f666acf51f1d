from __future__ import annotations

import pytest
from hypothesis import strategies as st
from scapy.layers.l2 import CookedLinux
from wire.links.stack import BEHIND_ETHER_TYPE, Stack, macs, tags

from ibcmtool.wire.links.linux_sll import LINUX_SLL

LINK = LINUX_SLL
ETHERNET, TUNNEL = 1, 768  # ARPHRD_


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    source, kind = draw(macs), draw(st.sampled_from([ETHERNET, TUNNEL]))
    cooked = CookedLinux(pkttype=draw(st.integers(0, 4)), lladdrtype=kind, lladdrlen=6, src=source + b"\0\0")
    header, ids = draw(tags(cooked))
    return Stack(header, BEHIND_ETHER_TYPE, source if kind == ETHERNET else None, None, ids, (source,))


@pytest.mark.parametrize("kind", range(5))
def test_packet_type(kind: int) -> None:
    assert LINUX_SLL.packet_type is not None
    assert LINUX_SLL.packet_type(bytes(CookedLinux(pkttype=kind))) == kind
