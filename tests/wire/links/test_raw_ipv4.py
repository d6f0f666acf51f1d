from __future__ import annotations

from hypothesis import strategies as st
from wire.links.stack import Stack

from ibcmtool.wire.links.raw_ipv4 import RAW_IPV4

LINK = RAW_IPV4


def stacks() -> st.SearchStrategy[Stack]:
    return st.just(Stack(None, ("ipv4",)))
