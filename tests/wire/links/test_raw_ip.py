from __future__ import annotations

from hypothesis import strategies as st
from wire.links.stack import Stack

from ibcmtool.wire.links.raw_ip import RAW_IP

LINK = RAW_IP


def stacks() -> st.SearchStrategy[Stack]:
    return st.just(Stack(None, ("ipv4", "ipv6")))


def test_of_no_version() -> None:
    for data in (bytes(60), bytes([0x50]) * 60):
        assert (RAW_IP.find(data), RAW_IP.carried(data)) == (None, None)
