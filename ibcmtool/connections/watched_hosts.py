"""Hosts that are watched from inside: a kernel source misses no CM message of its own host, unless it loses events.

It knows no PSN, and needs none for that. What others sent it sees only as far as that arrived.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ibcmtool.packets import Address

MOST_LOSSES: Final = 64  # of one input that are remembered, the newest


class Loss(NamedTuple):
    """Events that a source lost, by its own count, between two times (ns)."""

    after: int
    before: int
    events: int


class Watch:
    """What one input shows of its host."""

    def __init__(self, time: int) -> None:
        self.first = self.last = time  # ns; what happened before and after is not known
        self.ports: set[Address] = set()
        self.losses: deque[Loss] = deque(maxlen=MOST_LOSSES)

    def shows(self, port: Address, start: int, end: int) -> bool:
        """Whether it was watching this port all the time."""
        return port in self.ports and self.first <= start and end <= self.last


class WatchedHosts:
    """The hosts of all inputs that watch theirs."""

    def __init__(self) -> None:
        self.inputs: dict[int, Watch] = {}

    def note(self, file: int, port: Address, time: int) -> None:
        """A message was sent or received by this port of the host of an input."""
        watch = self.inputs.get(file)
        if watch is None:
            watch = self.inputs[file] = Watch(time)
        watch.ports.add(port)
        watch.last = max(watch.last, time)

    def lost(self, file: int, before: int, events: int) -> None:
        """An input lost events behind the newest message that was noted, and before this time."""
        watch = self.inputs.get(file)
        if watch is not None:
            watch.losses.append(Loss(watch.last, before, events))

    def missed_nothing(self, port: Address, start: int, end: int) -> bool:
        """Whether an input shows that no message of this port was missed between two times."""
        return any(
            watch.shows(port, start, end)
            and (len(watch.losses) < MOST_LOSSES or watch.losses[0].before <= start)
            and not _among(watch, start, end)
            for watch in self.inputs.values()
        )

    def loss(self, port: Address, start: int, end: int) -> Loss | None:
        """The first loss between two times in an input that watches this port."""
        losses = (_among(watch, start, end) for watch in self.inputs.values() if port in watch.ports)
        return next((loss for loss in losses if loss is not None), None)


def _among(watch: Watch, start: int, end: int) -> Loss | None:
    return next((loss for loss in watch.losses if loss.after < end and start < loss.before), None)
