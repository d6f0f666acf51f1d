"""Several inputs of one analysis without files: what each recorded, and from when until when, by its own clock.

    result = judged([Recording(first, 0, 60), Recording(second, 100, 200)])

Times are seconds, as in a Conversation; messages carry the index of their recording as `file`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from conversation import FIRST_DAY, SECOND, Conversation, Records, Result

from ibcmtool.analysis import InputInfo, Policy
from ibcmtool.engine import clocks
from ibcmtool.engine.engine import Engine
from ibcmtool.packets import CmMessage, DataPacket


class Recording(NamedTuple):
    """One input."""

    items: Sequence[CmMessage | DataPacket]
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
    """What the engine makes of it, driven as for files."""
    return driven(recordings, policy).result()


def driven(recordings: Sequence[Recording], policy: Policy) -> Records:
    """As the driver for files does: frames of an input in their order, inputs merged by time."""
    ahead = offsets([_messages(recording) for recording in recordings]) if len(recordings) > 1 else [0]
    records = Records()
    engine = Engine([InputInfo(f"{chr(ord('a') + file)}.pcap") for file in range(len(recordings))], records, policy)
    for file, recording in enumerate(recordings):
        engine.begins(file, moment(recording.start) - ahead[file])
    ends = [moment(recording.end) - offset for recording, offset in zip(recordings, ahead, strict=True)]

    def read(file: int) -> Iterator[CmMessage | DataPacket]:
        for item in recordings[file].items:
            yield replace(item, time=item.time - ahead[file]) if ahead[file] else item
        engine.ends(file, ends[file])

    streams = [read(file) for file in range(len(recordings))]
    for item in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("time")):
        if not isinstance(item, DataPacket) or item.dest_qpn in engine.watched:
            engine.take(item)
    engine.advance(max(ends))
    engine.finish()
    return records


def _messages(recording: Recording) -> Recording:
    return recording._replace(items=[item for item in recording.items if isinstance(item, CmMessage)])
