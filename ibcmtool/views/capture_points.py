"""Which of several captures was made at the target, and so: did an unanswered REQ get there?

One capture shows that a REQ passed by, not that it arrived. Captures of both ends can tell: what the target's shows has
arrived; what only the requester's shows was lost in between, provided that the target's was running.

Packets that two captures share tell which is which: those to the target come to its own capture last, those from it
start there. Both must be so, because a wrong clock turns only one of them round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ibcmtool.analysis import InputInfo
from ibcmtool.model import Connection
from ibcmtool.packets import Address

Arrival = Literal["seen", "never seen", "unknown"]  # at the target's end

MOST_WAITING = 50_000  # unanswered attempts that wait for the whole picture; what comes later stays unknown
MOST_POINTS = 50_000  # pairs of a target and an input
EXCEPTIONS = 10  # at most one shared packet in so many may say otherwise


class _Unanswered(NamedTuple):
    row: int
    files: frozenset[int]  # the inputs that show a REQ of it
    shared: bool  # two inputs show the same packet
    passive: Address
    first: int  # time of its first and its last REQ
    last: int


class CapturePoints:
    """Takes connections as they end; answers when all of them and the inputs are known."""

    def __init__(self) -> None:
        # How often a shared packet to an address came to an input last, or one from it was there first; then how often
        # it was the other way round.
        self._last: Counter[tuple[Address, int]] = Counter()
        self._first: Counter[tuple[Address, int]] = Counter()
        self._against: Counter[tuple[Address, int]] = Counter()
        self._waiting: list[_Unanswered] = []
        self._unknown: Counter[int] = Counter()  # by row: unanswered attempts beyond MOST_WAITING

    def note(self, connection: Connection) -> None:
        """Learn from a connection where the inputs were captured."""
        for step in connection.steps:
            if not step.sightings or len(self._last) >= MOST_POINTS:
                continue
            message, files = step.message, [sighting.file for sighting in step.sightings]
            if files[-1] == message.file:
                continue  # one input that holds the packet twice
            self._last[(message.destination, files[-1])] += 1
            self._first[(message.source, message.file)] += 1
            self._against[(message.destination, message.file)] += 1
            self._against[(message.source, files[-1])] += 1

    def note_unanswered(self, row: int, connection: Connection) -> None:
        """An attempt of this row that got no answer."""
        requests = [step for step in connection.steps if step.message.type in ("REQ", "SIDR_REQ")]
        if len(self._waiting) >= MOST_WAITING or not requests:
            self._unknown[row] += 1
            return
        files = {step.message.file for step in requests}
        again = {
            sighting.file for step in requests for sighting in step.sightings if sighting.file != step.message.file
        }
        self._waiting.append(
            _Unanswered(
                row,
                frozenset(files | again),
                bool(again),
                connection.passive.address,
                requests[0].message.time,
                requests[-1].message.time,
            )
        )

    def arrivals(self, inputs: Sequence[InputInfo]) -> dict[int, Counter[Arrival]]:
        """By row: how many unanswered attempts were seen at the target, never seen there, or neither is known."""
        found: dict[int, Counter[Arrival]] = {row: Counter({"unknown": n}) for row, n in self._unknown.items()}
        for attempt in self._waiting:
            found.setdefault(attempt.row, Counter())[self._arrival(attempt, inputs)] += 1
        return found

    def _arrival(self, attempt: _Unanswered, inputs: Sequence[InputInfo]) -> Arrival:
        if attempt.shared:
            return "seen"
        for file, info in enumerate(inputs):
            if self._is_at(attempt.passive, file):
                if file in attempt.files:
                    return "seen"
                if _covers(info, attempt):
                    return "never seen"
        return "unknown"

    def _is_at(self, address: Address, file: int) -> bool:
        place = (address, file)
        last, first = self._last[place], self._first[place]
        return last > 0 and first > 0 and self._against[place] * EXCEPTIONS <= last + first


def _covers(info: InputInfo, attempt: _Unanswered) -> bool:
    """Whether an input was being captured from the first REQ of an attempt to its last."""
    if info.first_time is None or info.last_time is None:
        return False
    offset = info.clock_offset
    return info.first_time - offset <= attempt.first and attempt.last <= info.last_time - offset
