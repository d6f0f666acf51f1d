"""From the clock of the trace to the time of day, while that one drifts and is set."""

from __future__ import annotations

import time

from ibcmtool.sources.live.kernel.clock import KernelClock

SECOND = 1_000_000_000


class Clocks:
    """The machine's clocks, which go on by a microsecond at each reading."""

    def __init__(self) -> None:
        self.boot = 100 * SECOND
        self.ahead = 1_795_000_000 * SECOND  # of the time of day

    def read(self, clock: int) -> int:
        self.boot += 1000
        return self.boot + (self.ahead if clock == time.CLOCK_REALTIME else 0)


def test_times_of_day() -> None:
    clocks = Clocks()
    clock = KernelClock("boot", clocks.read)
    assert clock.wall(50 * SECOND) == 1_795_000_050 * SECOND


def test_drift_is_followed() -> None:
    clocks = Clocks()
    clock = KernelClock("boot", clocks.read)
    clocks.ahead += 400_000  # NTP slews
    assert clock.compare() == 0
    assert clock.wall(0) == 1_795_000_000 * SECOND  # it was measured a moment ago
    clocks.boot += 2 * SECOND
    assert clock.compare() == 0
    assert clock.wall(0) == 1_795_000_000 * SECOND + 400_000


def test_a_step_is_told_and_not_followed() -> None:
    """What is due after four seconds must stay due after four seconds."""
    clocks = Clocks()
    clock = KernelClock("boot", clocks.read)
    for step in (3600 * SECOND, -10 * SECOND):
        clocks.ahead += step
        clocks.boot += 2 * SECOND
        assert clock.compare() == step
        assert clock.wall(0) == 1_795_000_000 * SECOND
        clocks.boot += 2 * SECOND
        assert clock.compare() == 0  # told once
    assert clock.set_by == 3590 * SECOND
    clocks.ahead += 250_000
    clocks.boot += 2 * SECOND
    assert clock.compare() == 0
    assert clock.wall(0) == 1_795_000_000 * SECOND + 250_000  # the drift is, still
