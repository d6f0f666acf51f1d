"""The busiest second."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

from ibcmtool.formatting import SECOND

MOST_SECONDS = 512


class Peak:
    """Counts events in whole seconds of the clock, and remembers the busiest.

    Events may come in any order. Of more than MOST_SECONDS seconds the quieter half is forgotten; a second that was
    among them and fills up later is counted too low.
    """

    __slots__ = ("_counts", "number", "time")

    def __init__(self) -> None:
        self.number = 0  # events in the busiest second
        self.time = 0  # where it begins, ns since the epoch
        self._counts: Counter[int] = Counter()

    def add(self, time: int) -> None:
        """One event at this time (ns)."""
        second = time // SECOND
        self._counts[second] += 1
        if self._counts[second] > self.number:
            self.number, self.time = self._counts[second], second * SECOND
        if len(self._counts) > MOST_SECONDS:
            self._counts = Counter(dict(nlargest(MOST_SECONDS // 2, self._counts.items(), key=lambda kept: kept[1])))
