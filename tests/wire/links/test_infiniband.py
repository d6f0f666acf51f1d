from __future__ import annotations

from hypothesis import strategies as st
from wire.links.stack import BEHIND_NOTHING, Stack

from dissectors.transport import BTH, LRH
from ibcmtool.wire.links.infiniband import INFINIBAND

LINK = INFINIBAND


def stacks() -> st.SearchStrategy[Stack]:
    return st.just(Stack(None, BEHIND_NOTHING))


def test_only_iba_packets_are_found() -> None:
    data = bytearray(bytes(LRH() / BTH()))
    assert INFINIBAND.find(bytes(data)) == ("lrh", 0, 8, len(data) - 6)
    data[1] &= 0xFC  # LNH 0: a raw packet
    assert INFINIBAND.find(bytes(data)) is None
