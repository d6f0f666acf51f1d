"""Inputs whose frames have no times: nobody is to be blamed for what such a clock shows.

Times are missing altogether (zeros, or pcapng's simple packet blocks), or a tool made them up: text2pcap counts frames
in microseconds, other converters in nanoseconds or milliseconds, or stamp all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from ibcmtool.analysis import InputInfo
from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.records import RecordReader
from ibcmtool.sources.files.scan import ScanRequest
from ibcmtool.sources.files.streams import Window

LOOKED_AT: Final = 1 << 18  # bytes at the beginning of an input that cannot be read twice, if they are at hand
MOST_FRAMES = 2000  # that are looked at
# How far apart (ns) all frames are where no clock was read, and how many show it: no CMs speak as fast as text2pcap.
STEPS: Final = {0: 8, 1: 8, 1_000: 3, 1_000_000: 8}


class _AtHand:
    """The bytes that were read already, as a stream."""

    def __init__(self, content: bytes) -> None:
        self.damage = ""
        self._content = content

    def readinto(self, room: memoryview) -> int:
        size = min(len(room), len(self._content))
        room[:size] = self._content[:size]
        self._content = self._content[size:]
        return size

    def close(self) -> None:
        """Nothing is open."""


def frames_at_hand(reader: RecordReader, window: Window) -> Iterator[Frame]:
    """Those in front of the first that is read, as far as they are in memory. They stay to be read."""
    content = bytes(window.view[reader.position : min(window.size, LOOKED_AT)])
    window = Window(_AtHand(content), window.path)
    return reader.elsewhere(window, InputInfo(window.path)).walk(ScanRequest(everything=True))


def timeless(frames: Iterator[Frame]) -> bool:
    """Whether the first frames of an input tell of no clock."""
    step: int | None = None
    count = last = 0
    with suppress(SourceError):
        for frame in islice(frames, MOST_FRAMES):
            if count:
                if step is None:
                    step = frame.time - last
                if frame.time - last != step or step not in STEPS:
                    return False
            last = frame.time
            count += 1
    if count and not last and not step:
        return True
    return step is not None and count >= STEPS.get(step, count + 1)
