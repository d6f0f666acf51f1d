from __future__ import annotations

import time

import pytest

from ibcmtool.reports.calendar import Calendar

T = 1_770_804_001_123_456_789  # 2026-02-11 10:00:01.123456789 UTC


def test_utc() -> None:
    calendar = Calendar("utc")
    assert calendar.full(T) == "2026-02-11 10:00:01.123456 UTC"
    assert calendar.full(T, 0) == "2026-02-11 10:00:01 UTC"
    assert calendar.full(T, 9) == "2026-02-11 10:00:01.123456789 UTC"
    assert calendar.time(T, 3) == "10:00:01.123"
    assert calendar.date(T) == "2026-02-11"


def test_local_time_follows_the_zone_of_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        calendar = Calendar("local")
        assert calendar.full(T) == "2026-02-11 11:00:01.123456 CET"
        summer = T + 150 * 86_400 * 10**9
        assert calendar.full(summer, 0) == "2026-07-11 12:00:01 CEST"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_relative() -> None:
    assert Calendar.relative(0) == "+0.000000"
    assert Calendar.relative(65_899_912_345) == "+65.899912"
    assert Calendar.relative(-117_034_000, 3) == "-0.117"


@pytest.mark.parametrize("ns", [10**28, -(10**28), 2**70])
def test_a_time_outside_the_calendar_is_a_number(ns: int) -> None:
    for zone in ("utc", "local"):
        calendar = Calendar(zone)  # type: ignore[arg-type]
        assert str(abs(ns) // 10**9) in calendar.full(ns)
        assert calendar.date(ns) == ""


def test_before_the_epoch() -> None:
    assert Calendar().full(-1_500_000_000) == "1969-12-31 23:59:58.500000 UTC"
