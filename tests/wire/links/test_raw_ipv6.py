from __future__ import annotations

from hypothesis import strategies as st
from wire.links.stack import Stack

from ibcmtool.wire.links.raw_ipv6 import RAW_IPV6

LINK = RAW_IPV6


def stacks() -> st.SearchStrategy[Stack]:
    return st.just(Stack(None, ("ipv6",)))
