"""A capture that is played again."""

from __future__ import annotations

import time
from collections.abc import Container
from pathlib import Path
from threading import Event

from ibcmtool.formatting import SECOND
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import open_stream
from ibcmtool.sources.files.streams import FileStream
from ibcmtool.sources.live.captured import CapturedSource, DeliveryBuffer, packets
from ibcmtool.sources.live.source import Deliver


class Replay(CapturedSource):
    """`replay:FILE[@SPEED]`: a capture at the pace at which it was taken, or SPEED times as fast; 0: without pauses."""

    def __init__(self, name: str, rest: str) -> None:
        path, at, speed = rest.rpartition("@")
        if not at or Path(rest).exists():
            path, speed = rest, "1"
        super().__init__(name, path)
        try:
            self.speed = float(speed)
        except ValueError:
            self.speed = -1.0
        if not 0 <= self.speed < 1e9:
            raise SourceError(name, f"{speed!r} is no speed", "write replay:FILE@10 for ten times as fast")

    def open(self) -> None:
        FileStream(self.path).close()  # refuses what is not there

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        buffer = DeliveryBuffer(deliver)
        begun, first = time.monotonic(), None
        with open_stream(FileStream(self.path), self.path, 0) as capture:
            for frame, moment in packets(capture, watched, buffer, ahead=True):
                first = moment if first is None else first
                if self.speed:
                    pause = begun + (moment - first) / SECOND / self.speed - time.monotonic()
                    if pause > 0:
                        buffer.flush()
                        stop.wait(pause)
                if stop.is_set():
                    return
                buffer.add(frame)
        buffer.flush()
        self.end_time = capture.info.end_time
        if capture.info.truncated:
            self._damage(capture)
