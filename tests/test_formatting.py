from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibcmtool import formatting
from ibcmtool.model import End
from ibcmtool.packets import Address

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
    assert formatting.duration(ns) == short
    assert formatting.exact(ns) == exact


@given(st.integers(min_value=1_000, max_value=119 * S))
def test_a_short_duration_is_right_to_half_a_percent(ns: int) -> None:
    number, unit = formatting.duration(ns).split()
    size = {"us": 1_000, "ms": MS, "s": S}[unit]
    assert abs(float(number) * size - ns) <= 0.005 * ns
    assert len(number.replace(".", "")) <= 3


@given(st.integers(min_value=-(10**20), max_value=10**20))
def test_decimal_seconds_keep_every_nanosecond(ns: int) -> None:
    text = formatting.seconds(ns)
    whole, fraction = text.lstrip("-").split(".")
    assert len(fraction) == 9
    assert (-1 if text.startswith("-") else 1) * (int(whole) * S + int(fraction)) == ns


def test_identifiers() -> None:
    assert formatting.qpn(0x11) == "0x000011"
    assert formatting.comm_id(0xA0F70798) == "0xa0f70798"
    assert formatting.guid(0x505400FFFEAA0001) == "5054:00ff:feaa:0001"
    assert formatting.service_id(0x1061144) == "0x0000000001061144"
    assert formatting.qpn(None) == formatting.guid(None) == formatting.gid(None) == "?"


def test_addresses() -> None:
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 77, 0, 1])
    assert formatting.gid(mapped) == "10.77.0.1"
    assert formatting.gid(bytes.fromhex("fe80000000000000505400fffeaa0001")) == "fe80::5054:ff:feaa:1"
    assert formatting.gid(b"\xfe\x80") == "fe80"  # cut off by the snap length
    assert formatting.address(Address(mapped, 18)) == "10.77.0.1"
    assert formatting.address(Address(None, 18)) == "LID 18"
    assert formatting.address(Address()) == "?"


def test_five_bit_times() -> None:
    assert formatting.exponent(20) == "4.29 s"
    assert formatting.exponent(0) == "4.1 us"
    assert formatting.exponent(31) == "2 h 27 min"
    assert formatting.exponent(None) == "?"


def test_frames() -> None:
    assert formatting.frames([(0, 6)], False) == "frame 6"
    assert formatting.frames([(0, 8), (0, 7)], False) == "frames 7, 8"
    assert formatting.frames([(0, n) for n in range(1, 17)] + [(0, 20)], False) == "frames 1-16, 20"
    assert formatting.frames([(1, 3), (0, 7), (0, 8), (0, 9)], True) == "frames 1:7-9, 2:3"
    assert formatting.frames([], False) == ""


def test_counts_and_lists() -> None:
    assert formatting.count(1, "frame") == "1 frame"
    assert formatting.count(50_000, "connection") == "50,000 connections"
    assert formatting.listed(["a"]) == "a"
    assert formatting.listed(["a", "b", "c"]) == "a, b and c"
    assert formatting.listed([]) == ""


@given(st.lists(st.integers(min_value=1, max_value=200)))
def test_folded_numbers_name_each_number_once(values: list[int]) -> None:
    named: list[int] = []
    for part in filter(None, formatting.numbers(values).split(", ")):
        low, _, high = part.partition("-")
        named += range(int(low), int(high or low) + 1)
    assert named == sorted(set(values))


def test_end_name_prefers_what_people_know():
    end = End("active", Address(lid=18), "IDLE", name="10.0.0.1:7174")
    assert formatting.end_name(end) == "10.0.0.1:7174"
    end.name = ""
    assert formatting.end_name(end) == "LID 18"


def test_times():
    assert [formatting.times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
