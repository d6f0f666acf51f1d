"""From the clock of the trace to the time of day."""

from __future__ import annotations

import time
from collections.abc import Callable

IDS = {"boot": time.CLOCK_BOOTTIME, "mono": time.CLOCK_MONOTONIC}
PAIRS = 5  # readings of both clocks, of which the tightest counts
EVERY = 1_000_000_000  # ns between two comparisons
STEP = 50_000_000  # ns: NTP slews by less in a second, what is more was set

Read = Callable[[int], int]


class KernelClock:
    """Adds the distance between the two clocks, which is measured anew now and then: the time of day drifts.

    When somebody sets the time of day, the times here go on as if nobody had: what is due after so many seconds must
    stay due after so many seconds. `set_by` says how far (ns) it was set meanwhile.
    """

    def __init__(self, name: str, read: Read = time.clock_gettime_ns) -> None:
        self._id = IDS[name]
        self._read = read
        self._offset = self._distance()
        self._compared = read(self._id)
        self.set_by = 0

    def wall(self, time: int) -> int:
        """Nanoseconds since the epoch of a time of the trace clock (ns)."""
        return time + self._offset

    def compare(self) -> int:
        """Measure again if it is time to; returns by how much (ns) the time of day was set since, mostly 0."""
        now = self._read(self._id)
        if now - self._compared < EVERY:
            return 0
        self._compared = now
        moved = self._distance() - self.set_by - self._offset
        if abs(moved) < STEP:
            self._offset += moved
            return 0
        self.set_by += moved
        return moved

    def _distance(self) -> int:
        """Time of day minus trace clock, as exact as it can be read."""
        clocks = (self._id, time.CLOCK_REALTIME, self._id)
        readings = [tuple(map(self._read, clocks)) for _ in range(PAIRS)]
        before, now, after = min(readings, key=lambda reading: reading[2] - reading[0])
        return now - (before + after) // 2
