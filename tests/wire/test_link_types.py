from __future__ import annotations

from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES


def test_names():
    assert link_types.name(1) == "1 (Ethernet)"
    assert link_types.name(113) == "113 (Linux cooked v1)"
    assert link_types.name(147) == "147 (private use 0)"
    assert link_types.name(162) == "162 (private use 15)"
    assert link_types.name(4711) == "4711 (unknown)"


def test_what_is_supported_has_a_name():
    assert {1, 113, 276, 197, 247} <= set(LINK_TYPES)
    assert all(number in link_types.NAMES for number in LINK_TYPES)


def test_names_are_distinct():
    assert len(set(link_types.NAMES.values())) == len(link_types.NAMES)
