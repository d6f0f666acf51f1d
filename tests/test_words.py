from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibcmtool import words
from ibcmtool.model import Address, End

MS, S = 1_000_000, 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "short", "exact"),
    [
        (0, "0 s", "0 s"),
        (7, "7 ns", "7 ns"),
        (16_384, "16.4 us", "16.384 us"),
        (999_600, "1 ms", "999.6 us"),
        (9_747_000, "9.75 ms", "9.747 ms"),
        (117_034_211, "117 ms", "117.034211 ms"),
        (999_600_000, "1 s", "999.6 ms"),
        (65_899_912_000, "65.9 s", "65.899912 s"),
        (95_900 * MS, "95.9 s", "95.9 s"),
        (119_900 * MS, "2 min", "119.9 s"),
        (123 * S, "2 min 3 s", "123 s"),
        (3_599_600 * MS, "1 h", "3599.6 s"),
        (3_840 * S, "1 h 4 min", "3840 s"),
        (2 * 86_400 * S + 3 * 3_600 * S, "2 d 3 h", "183600 s"),
        (-5 * MS, "-5 ms", "-5 ms"),
    ],
)
def test_durations(ns: int, short: str, exact: str) -> None:
    assert words.duration(ns) == short
    assert words.exact(ns) == exact


@given(st.integers(min_value=1_000, max_value=119 * S))
def test_a_short_duration_is_right_to_half_a_percent(ns: int) -> None:
    number, unit = words.duration(ns).split()
    size = {"us": 1_000, "ms": MS, "s": S}[unit]
    assert abs(float(number) * size - ns) <= 0.005 * ns
    assert len(number.replace(".", "")) <= 3


@given(st.integers(min_value=-(10**20), max_value=10**20))
def test_decimal_seconds_keep_every_nanosecond(ns: int) -> None:
    text = words.seconds(ns)
    whole, fraction = text.lstrip("-").split(".")
    assert len(fraction) == 9
    assert (-1 if text.startswith("-") else 1) * (int(whole) * S + int(fraction)) == ns


def test_identifiers() -> None:
    assert words.qpn(0x11) == "0x000011"
    assert words.comm_id(0xA0F70798) == "0xa0f70798"
    assert words.guid(0x505400FFFEAA0001) == "5054:00ff:feaa:0001"
    assert words.service_id(0x1061144) == "0x0000000001061144"
    assert words.qpn(None) == words.guid(None) == words.gid(None) == "?"


def test_addresses() -> None:
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 77, 0, 1])
    assert words.gid(mapped) == "10.77.0.1"
    assert words.gid(bytes.fromhex("fe80000000000000505400fffeaa0001")) == "fe80::5054:ff:feaa:1"
    assert words.gid(b"\xfe\x80") == "fe80"  # cut off by the snap length
    assert words.address(Address(mapped, 18)) == "10.77.0.1"
    assert words.address(Address(None, 18)) == "LID 18"
    assert words.address(Address()) == "?"


def test_five_bit_times() -> None:
    assert words.exponent(20) == "4.29 s"
    assert words.exponent(0) == "4.1 us"
    assert words.exponent(31) == "2 h 27 min"
    assert words.exponent(None) == "?"


def test_frames() -> None:
    assert words.frames([(0, 6)], False) == "frame 6"
    assert words.frames([(0, 8), (0, 7)], False) == "frames 7, 8"
    assert words.frames([(0, n) for n in range(1, 17)] + [(0, 20)], False) == "frames 1-16, 20"
    assert words.frames([(1, 3), (0, 7), (0, 8), (0, 9)], True) == "frames 1:7-9, 2:3"
    assert words.frames([], False) == ""


def test_counts_and_lists() -> None:
    assert words.count(1, "frame") == "1 frame"
    assert words.count(50_000, "connection") == "50,000 connections"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed([]) == ""


@given(st.lists(st.integers(min_value=1, max_value=200)))
def test_folded_numbers_name_each_number_once(values: list[int]) -> None:
    named: list[int] = []
    for part in filter(None, words.numbers(values).split(", ")):
        low, _, high = part.partition("-")
        named += range(int(low), int(high or low) + 1)
    assert named == sorted(set(values))


def test_end_name_prefers_what_people_know():
    end = End("active", Address(lid=18), "IDLE", name="10.0.0.1:7174")
    assert words.end_name(end) == "10.0.0.1:7174"
    end.name = ""
    assert words.end_name(end) == "LID 18"


def test_times():
    assert [words.times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
