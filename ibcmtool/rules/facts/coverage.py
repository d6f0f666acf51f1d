"""When and where the inputs of an analysis were recording: how much it means that something was not seen.

Several inputs may be one capture in pieces (a ring of files), a capture that was stopped and started again, or captures
at several places of the network. Files of a ring follow on each other at once: such a chain is one capture point. A
place watches a pair of ports when one of its inputs shows a message between them; whether it would have seen one
otherwise nobody knows. One input alone is taken for all that there is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from ibcmtool.analysis import InputInfo
from ibcmtool.formatting import SECOND
from ibcmtool.packets import Address, CmMessage

HOLE = SECOND  # no frame at all for longer than this, where one input ends and another begins: nobody was recording
DISORDER: Final = 50_000_000  # the last frames of one file of a ring may be that much later than the first of the next
WHOLE_MAD: Final = 256

Ports = tuple[Address, Address]
Span = tuple[int | None, int | None]  # first and last time of an input, None where it is not known yet


class Coverage:
    """What the inputs cover, up to the message that was noted last.

    Times are ns by the common clock. `begin` tells when an input begins, where that is known before its first CM
    message; `note` takes every CM message in the order of the merged inputs, and `end` tells of each input before
    anything later is noted.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self.several = len(names) > 1
        self._starts: list[int | None] = [None] * len(names)
        self._ends: list[int | None] = [None] * len(names)
        self._packets: defaultdict[Ports, Counter[int]] = defaultdict(Counter)  # (source, destination) -> by input
        self._cut: set[int] = set()  # inputs with a CM message that the snap length cut
        self._places: list[int] | None = None

    def begin(self, file: int, time: int) -> None:
        """An input was recording from this time on."""
        self._starts[file] = time
        self._places = None

    def note(self, message: CmMessage) -> None:
        """A CM message of one of several inputs."""
        file = message.file
        self._packets[message.source, message.destination][file] += 1
        if len(message.mad) < WHOLE_MAD:
            self._cut.add(file)
        if self._starts[file] is None:
            self.begin(file, message.time)

    def end(self, file: int, time: int | None) -> None:
        """An input was read to its end; None: it held no frame with a time."""
        self._ends[file] = time
        self._places = None

    # -- questions -------------------------------------------------------------------------------------------------

    def watched(self, ports: Ports, start: int, end: int) -> int:
        """How long (ns) from `start` on, but not beyond `end`, this pair of ports was watched without a hole."""
        if not self.several:
            return end - start
        places = self.places()
        shown = {places[file] for pair in (ports, ports[::-1]) for file in self._packets.get(pair, ())}
        return self._recorded(shown, start, end)

    def place_covers(self, place: int, start: int, end: int) -> bool:
        """Whether the inputs of one place were recording from `start` to `end`."""
        return self._recorded({place}, start, end) == end - start

    def input_at(self, place: int, time: int) -> int:
        """The input of a place that was recording at `time`; if none was, the first."""
        for file, its in enumerate(self.places()):
            start, end = self._starts[file], self._ends[file]
            if its == place and start is not None and start <= time and (end is None or time <= end):
                return file
        return place

    def packets(self, place: int, ports: Ports) -> int:
        """How many CM messages the inputs of a place show from the first port to the second."""
        places = self.places()
        return sum(number for file, number in self._packets.get(ports, {}).items() if places[file] == place)

    def is_cut(self, place: int) -> bool:
        """Whether the snap length cut CM messages of a place: a cut one looks like another message."""
        places = self.places()
        return any(places[file] == place for file in self._cut)

    def places(self) -> list[int]:
        """The place of each input: the number of the first input there."""
        if self._places is None:
            self._places = chained(list(zip(self._starts, self._ends, strict=True)))
        return self._places

    def _recorded(self, places: Container[int], start: int, end: int) -> int:
        spans = ((self._starts[file], self._ends[file]) for file, place in enumerate(self.places()) if place in places)
        hole, _ = next(_holes(spans, start, end), (end, end))
        return hole - start


def chained(spans: Sequence[Span]) -> list[int]:
    """For each input the first one of its chain: it belongs to that of the input that ended just before it began."""
    chains = list(range(len(spans)))
    ended = sorted((end, file) for file, (_, end) in enumerate(spans) if end is not None)
    times = [end for end, _ in ended]
    begun: set[int] = set()
    continued: set[int] = set()
    for start, file in sorted((start, file) for file, (start, _) in enumerate(spans) if start is not None):
        at = bisect_right(times, start + DISORDER) - 1
        while at >= 0 and times[at] >= start - HOLE:
            before = ended[at][1]
            if before in begun and before not in continued:
                continued.add(before)
                chains[file] = chains[before]
                break
            at -= 1
        begun.add(file)
    return chains


def holes(inputs: Sequence[InputInfo]) -> list[tuple[int, int]]:
    """Between which times, by the common clock, none of the inputs holds a frame; all of them were read."""
    spans: list[Span] = [
        (info.first_time - info.clock_offset, info.last_time - info.clock_offset)
        for info in inputs
        if info.first_time is not None and info.last_time is not None
    ]
    if not spans:
        return []
    begin, end = min(first for first, _ in _closed(spans, 0)), max(last for _, last in _closed(spans, 0))
    return list(_holes(spans, begin, end))


def _holes(spans: Iterable[Span], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The times from `start` to `end` that no span holds.

    Between two spans a short time is no hole, but it is in front of the first and behind the last.
    """
    reached: int | None = None
    for first, last in sorted(_closed(spans, end)):
        if reached is None:
            if last < start - HOLE:
                continue
            if first > start:
                yield start, min(first, end)
            reached = last
        elif reached < end:
            if first > reached + HOLE:
                yield max(reached, start), min(first, end)
            reached = max(reached, last)
    if reached is None or reached < end:
        yield max(reached or start, start), end


def _closed(spans: Iterable[Span], end: int) -> Iterator[tuple[int, int]]:
    """One that has no end yet goes on; one that has no begin is none."""
    for first, last in spans:
        if first is not None:
            yield first, max(first, end) if last is None else last
