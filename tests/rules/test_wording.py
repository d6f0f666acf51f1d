"""Numbers and ends in words."""

from __future__ import annotations

import pytest

from ibcmtool.model import Address, End
from ibcmtool.rules import wording


@pytest.mark.parametrize(
    ("ns", "words"),
    [
        (95_899_500_000, "95.9 s"),
        (117_300_000, "117 ms"),
        (53_000, "53 us"),
        (4_294_967_296, "4.29 s"),
        (2_110_000_000_000, "2110 s"),
        (2_000_000_000, "2 s"),
        (1_500_000, "1.5 ms"),
        (7, "7 ns"),
        (0, "0 s"),
        (-309_000, "-309 us"),
    ],
)
def test_duration(ns: int, words: str) -> None:
    assert wording.duration(ns) == words


def test_address() -> None:
    assert wording.address(Address(gid=bytes(10) + b"\xff\xff\x0a\0\0\1")) == "10.0.0.1"
    assert wording.address(Address(gid=b"\xfe\x80" + bytes(13) + b"\1")) == "fe80::1"
    assert wording.address(Address(lid=18)) == "LID 18"
    assert wording.address(Address()) == "an unknown address"


def test_end_name_prefers_what_people_know() -> None:
    end = End("active", Address(lid=18), "IDLE", name="10.0.0.1:7174")
    assert wording.end_name(end) == "10.0.0.1:7174"
    end.name = ""
    assert wording.end_name(end) == "LID 18"


def test_numbers_as_the_reports_print_them() -> None:
    assert wording.qpn(0x11) == "0x000011"
    assert wording.comm_id(0xA0F70798) == "0xa0f70798"
    assert wording.guid(0x505400FFFEAA0001) == "5054:00ff:feaa:0001"
    assert [wording.times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
