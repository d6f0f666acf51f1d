"""Several inputs of one analysis without files: what each recorded, and from when until when, by its own clock.

    result = judged([Recording(first, 0, 60), Recording(second, 100, 200)])

Times are seconds, as in a Conversation; messages carry the index of their recording as `file`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from conversation import FIRST_DAY, SECOND, Conversation, Result

from ibcmtool.connections.tracker import Tracker
from ibcmtool.engine import clocks
from ibcmtool.model import CmMessage, Connection, Event, Finding, Policy
from ibcmtool.rules import Judge
from ibcmtool.rules.facts.coverage import Coverage


class Recording(NamedTuple):
    """One input."""

    items: list[CmMessage]
    start: float  # its first frame
    end: float  # its last


def of(talk: Conversation, *spans: tuple[float, float]) -> list[Recording]:
    """What the inputs show of a conversation: each message of theirs that came while they were recording."""
    return [
        Recording(
            [
                item
                for item in talk.capture
                if isinstance(item, CmMessage) and item.file == file and moment(start) <= item.time <= moment(end)
            ],
            start,
            end,
        )
        for file, (start, end) in enumerate(spans)
    ]


def moment(seconds: float) -> int:
    return FIRST_DAY + round(seconds * SECOND)


def offsets(recordings: Sequence[Recording]) -> list[int]:
    """How far ahead of the first one's the clock of each is taken to be."""
    looks = [
        clocks.Look(clocks.seen(recording.items), moment(recording.start), moment(recording.end))
        for recording in recordings
    ]
    return [ahead for ahead, _ in clocks.estimate(looks, [None] * len(looks))]


def judged(recordings: Sequence[Recording], policy: Policy = "relaxed") -> Result:
    """What tracker and judge make of it, as analysis.stream has it."""
    ahead = offsets(recordings)
    names = [f"{chr(ord('a') + file)}.pcap" for file in range(len(recordings))]
    starts = [moment(recording.start) - offset for recording, offset in zip(recordings, ahead, strict=True)]
    ends = [moment(recording.end) - offset for recording, offset in zip(recordings, ahead, strict=True)]
    coverage = Coverage(names, starts)
    judge = Judge(policy, coverage)
    connections: dict[int, Connection] = {}
    findings: list[Finding] = []

    def tell(event: Event) -> None:
        connections[event.connection.id] = event.connection
        findings.extend(judge.judge(event))

    tracker = Tracker(tell, covered=judge.context.covered)

    def read(file: int) -> Iterator[CmMessage]:
        for item in recordings[file].items:
            yield item._replace(time=item.time - ahead[file])
        coverage.end(file, ends[file])

    for item in heapq.merge(*map(read, range(len(recordings))), key=attrgetter("time")):
        coverage.note(item)
        tracker.feed(item)
    tracker.advance(max(ends))
    tracker.finish()
    return Result([connections[number] for number in sorted(connections)], findings)
