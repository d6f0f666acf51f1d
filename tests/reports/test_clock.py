from __future__ import annotations

import time

import pytest

from ibcmtool.reports.clock import Clock

T = 1_770_804_001_123_456_789  # 2026-02-11 10:00:01.123456789 UTC


def test_utc() -> None:
    clock = Clock("utc")
    assert clock.full(T) == "2026-02-11 10:00:01.123456 UTC"
    assert clock.full(T, 0) == "2026-02-11 10:00:01 UTC"
    assert clock.full(T, 9) == "2026-02-11 10:00:01.123456789 UTC"
    assert clock.time(T, 3) == "10:00:01.123"
    assert clock.date(T) == "2026-02-11"


def test_local_time_follows_the_zone_of_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        clock = Clock("local")
        assert clock.full(T) == "2026-02-11 11:00:01.123456 CET"
        summer = T + 150 * 86_400 * 10**9
        assert clock.full(summer, 0) == "2026-07-11 12:00:01 CEST"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_relative() -> None:
    assert Clock.relative(0) == "+0.000000"
    assert Clock.relative(65_899_912_345) == "+65.899912"
    assert Clock.relative(-117_034_000, 3) == "-0.117"


@pytest.mark.parametrize("ns", [10**28, -(10**28), 2**70])
def test_a_time_outside_the_calendar_is_a_number(ns: int) -> None:
    for zone in ("utc", "local"):
        clock = Clock(zone)  # type: ignore[arg-type]
        assert str(abs(ns) // 10**9) in clock.full(ns)
        assert clock.date(ns) == ""


def test_before_the_epoch() -> None:
    assert Clock().full(-1_500_000_000) == "1969-12-31 23:59:58.500000 UTC"
