"""What the settings in a message call for: the look-up and the tests must see the same bits."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation
from hypothesis import given
from hypothesis import strategies as st

from dissectors.transport import BTH, DETH
from ibcmtool.model import CmMessage
from ibcmtool.rules import CATALOGUE, settings
from ibcmtool.rules.catalogue import Placed
from ibcmtool.rules.settings import Settings, mask
from ibcmtool.wire.readers import layer_size, reader

FRONT = 20  # BTH and DETH
RULES: tuple[Placed, ...] = tuple(enumerate(rule for rule in CATALOGUE.values() if rule.settings is not None))
KINDS = ("REQ", "MRA", "REJ", "REP", "DREQ", "LAP", "APR", "SIDR_REQ", "SIDR_REP")
patches = st.dictionaries(st.integers(0, 255), st.integers(0, 255), max_size=6)


def about(kind: str) -> tuple[Placed, ...]:
    return tuple((place, rule) for place, rule in RULES if kind in rule.on)


def message(kind: str, mad: bytes, headers: bytes) -> CmMessage:
    fields = reader(f"CM_{kind}")(mad, layer_size("MAD"))
    return Conversation().active(0, "REQ")._replace(type=kind, mad=mad, fields=fields, headers=headers)


def patched(data: bytes, changes: dict[int, int]) -> bytes:
    return bytes(changes.get(place, byte) for place, byte in enumerate(data))


def plain(kind: str) -> CmMessage:
    return Conversation().active(0, kind)


def front(**fields: Any) -> bytes:
    return (
        bytes(42)
        + bytes(BTH(**{"opcode": 0x64, "partition_key": 0xFFFF, "dest_qp": 1} | fields))
        + bytes(DETH(source_qp=1))
    )


@given(
    st.sampled_from(KINDS), patches, st.binary(min_size=256, max_size=256), st.binary(min_size=FRONT, max_size=FRONT)
)
def test_no_test_of_settings_looks_at_anything_else(
    kind: str, changes: dict[int, int], other: bytes, other_front: bytes
) -> None:
    """Two messages with the same settings call for the same rules, whatever else is in them."""
    size, bits = mask(kind)
    mad, headers = patched(plain(kind).mad, changes), front()
    whole = int.from_bytes(headers[-FRONT:] + mad[:size])
    rest = int.from_bytes(other_front + other[:size])
    mixed = (whole & bits | rest & ~bits).to_bytes(FRONT + size)
    first = message(kind, mad, headers)
    second = message(kind, mixed[FRONT:] + other[size:], headers[:-FRONT] + mixed[:FRONT])
    for _, rule in about(kind):
        assert rule.settings is not None
        assert rule.settings(first) == rule.settings(second), rule.code


@given(st.sampled_from(KINDS), st.lists(st.tuples(patches, st.booleans()), min_size=2, max_size=8))
def test_the_answer_is_that_of_the_tests(kind: str, several: list[tuple[dict[int, int], bool]]) -> None:
    """Also when another message was asked for before, from a source with headers or without."""
    known = Settings(kind, about(kind))
    for changes, bare in [*several, *several]:
        one = message(kind, patched(plain(kind).mad, changes), b"" if bare else front())
        wanted = [rule.code for _, rule in about(kind) if rule.settings is not None and rule.settings(one)]
        assert [rule.code for _, rule in known.call_for(one)] == wanted


def test_headers_of_zeros_are_not_the_same_as_none() -> None:
    known = Settings("DREQ", about("DREQ"))
    assert known.call_for(plain("DREQ")._replace(headers=b"")) == ()
    codes = [rule.code for _, rule in known.call_for(plain("DREQ")._replace(headers=bytes(62)))]
    assert codes == ["F05", "F10", "F11"]  # from QP 0


def test_a_message_without_all_its_settings_is_not_remembered() -> None:
    """A cut MAD is not taken for one with zeros."""
    known, whole = Settings("MRA", about("MRA")), plain("MRA")
    for length in range(24, mask("MRA")[0]):
        known.call_for(whole._replace(mad=whole.mad[:length]))
    assert not known._known
    assert not known._known_bare


def test_ever_new_settings_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MOST_SETTINGS", 8)
    known, mra = Settings("MRA", about("MRA")), plain("MRA")
    for number in range(256):
        known.call_for(message("MRA", patched(mra.mad, {7: number}), b""))
    assert len(known._known_bare) <= 8
