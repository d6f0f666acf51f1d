"""What a live view shows: connections by state, the newest first, findings worst first, rates. Bounded in memory."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from itertools import islice

from ibcmtool.analysis import SEVERITIES, Finding
from ibcmtool.model import Connection, Event, Outcome

PINNED = 50  # findings remembered
ENDED = 1000  # ended connections remembered, at most for `keep`


class LiveState:
    """Kept up to date by every event and finding; `keep` is how long (ns) an ended connection stays on it."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._open: OrderedDict[int, tuple[Connection, Outcome]] = OrderedDict()  # the one that moved last is last
        self._ended: deque[tuple[int, Connection]] = deque(maxlen=ENDED)
        self._pinned: list[tuple[int, int, Finding]] = []  # rank, order of coming
        self._number = 0
        self.now: Counter[Outcome] = Counter()  # connections that have not ended, by what they are now
        self.past: Counter[Outcome] = Counter()  # those that have

    def event(self, event: Event) -> None:
        """Something happened to a connection."""
        connection = event.connection
        number, outcome = connection.id, connection.outcome
        known = self._open.get(number)
        if event.kind == "ENDED":
            if known is not None:
                self.now[known[1]] -= 1
                del self._open[number]
            self.past[outcome] += 1
            self._ended.append((event.time, connection))
            return
        if known is None or known[1] != outcome:
            if known is not None:
                self.now[known[1]] -= 1
            self.now[outcome] += 1
            self._open[number] = connection, outcome
        self._open.move_to_end(number)

    def finding(self, finding: Finding) -> None:
        """Errors stay before warnings before the rest, the newest first of each."""
        self._number += 1
        self._pinned.append((SEVERITIES.index(finding.severity), -self._number, finding))
        if len(self._pinned) > 2 * PINNED:
            self._pinned = sorted(self._pinned, key=lambda pinned: pinned[:2])[:PINNED]

    def pinned(self, most: int) -> list[Finding]:
        """The worst findings, the newest first of each severity."""
        return [finding for _, _, finding in sorted(self._pinned, key=lambda pinned: pinned[:2])[:most]]

    def connections(self, most: int, now: int) -> list[Connection]:
        """Those that moved last, and what ended not longer ago than `keep`; the newest first."""
        while self._ended and self._ended[0][0] < now - self._keep:
            self._ended.popleft()
        return list(islice(self._newest(), most))

    def _newest(self) -> Iterator[Connection]:
        for connection, _ in reversed(self._open.values()):
            yield connection
        for _, connection in reversed(self._ended):
            yield connection


class Rate:
    """Messages a second over the last seconds."""

    SPAN = 5.0

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, now: float, total: int) -> float:
        """The rate, given the time (monotonic, s) and how many there were so far."""
        self._samples.append((now, total))
        while len(self._samples) > 2 and self._samples[1][0] <= now - self.SPAN:
            self._samples.popleft()
        then, before = self._samples[0]
        return (total - before) / (now - then) if now > then else 0.0
