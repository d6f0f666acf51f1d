"""Percentiles of many times, and the busiest second, in memory that does not grow with their number."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from math import ceil

from ibcmtool.formatting import SECOND

EXACT = 1000  # values that are kept one by one; beyond, they are counted in classes
_BITS = 6  # a class is a 64th of its power of two: a percentile is off by 1/128 (0.8 %) at most
MOST_SECONDS = 512


class Times:
    """Durations in ns. Up to EXACT of them every percentile is one of the values; the maximum always is."""

    __slots__ = ("_classes", "_values", "count", "maximum")

    def __init__(self) -> None:
        self.count = 0
        self.maximum = 0
        self._values: list[int] = []
        self._classes: Counter[tuple[int, int]] = Counter()  # (exponent, leading bits) -> how many

    @property
    def exact(self) -> bool:
        """Whether every value is still known."""
        return self.count <= EXACT

    def add(self, ns: int) -> None:
        """One more; a negative one (messages out of order) says nothing and is left out."""
        if ns < 0:
            return
        self.count += 1
        self.maximum = max(self.maximum, ns)
        if self.exact:
            self._values.append(ns)
            return
        for value in (*self._values, ns):
            self._classes[_class_of(value)] += 1
        self._values.clear()

    def percentile(self, percent: int) -> int:
        """The smallest time that so many percent of all do not exceed; 0 without any."""
        rank = ceil(self.count * percent / 100)
        if self.exact:
            return sorted(self._values)[max(rank, 1) - 1] if self.count else 0
        for exponent, leading in sorted(self._classes):
            rank -= self._classes[(exponent, leading)]
            if rank <= 0:
                middle = (leading << exponent) + (1 << exponent >> 1)
                return min(middle, self.maximum)
        return self.maximum


def _class_of(ns: int) -> tuple[int, int]:
    """Classes sort as their values do: leading bits reach from 64 to 127 wherever the exponent is not 0."""
    exponent = max(ns.bit_length() - _BITS - 1, 0)
    return exponent, ns >> exponent


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
