"""How much later one input has the packets of a pair of ports than another one: which of them share packets at all.

Fed with the copies of packets that several inputs hold. Bounded by the pairs of ports and of inputs.
"""

from __future__ import annotations

from ibcmtool.model import Step
from ibcmtool.rules.facts.coverage import Coverage, Ports


class Lag:
    """How much later one input has the packets of one direction than another: count, sum and sum of squares (ns)."""

    __slots__ = ("count", "squares", "total")

    def __init__(self) -> None:
        self.count = self.total = self.squares = 0

    def add(self, lag: int) -> None:
        """One more (ns)."""
        self.count += 1
        self.total += lag
        self.squares += lag * lag

    def include(self, other: Lag, sign: int) -> None:
        """Add what is known of other inputs at the same places; sign -1: counted the other way round."""
        self.count += other.count
        self.total += sign * other.total
        self.squares += other.squares

    def mean(self) -> float:
        """The mean (ns)."""
        return self.total / self.count

    def error(self) -> float:
        """The variance of the mean."""
        spread = self.squares * self.count - self.total * self.total
        return max(spread, 0) / self.count**3


class Lags:
    """The lag of each two inputs, by direction."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._lags: dict[Ports, dict[tuple[int, int], Lag]] = {}  # by inputs, smaller number first: lag of the second

    def note(self, step: Step) -> None:
        """A new copy of a packet, the last of its sightings."""
        message, copy = step.message, step.sightings[-1]
        lags = self._lags.setdefault((message.source, message.destination), {})
        for file, time in ((message.file, message.time), *((one.file, one.time) for one in step.sightings[:-1])):
            if file != copy.file:
                lag = lags.setdefault((min(file, copy.file), max(file, copy.file)), Lag())
                lag.add(copy.time - time if file < copy.file else time - copy.time)

    def inputs(self, ports: Ports) -> set[int]:
        """Those that share packets of this direction with another one."""
        return {file for files in self._lags.get(ports, ()) for file in files}

    def between(self, ports: Ports, here: int, there: int) -> Lag:
        """How much later packets of this direction are seen at the place `there` than `here` (Coverage.places)."""
        places, found = self._coverage.places(), Lag()
        for (one, other), lag in self._lags.get(ports, {}).items():
            where = (places[one], places[other])
            if where in ((here, there), (there, here)):
                found.include(lag, 1 if where[0] == here else -1)
        return found
