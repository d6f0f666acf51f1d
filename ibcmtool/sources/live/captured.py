"""What the live sources have in common that read a capture: standard input, a file that grows, one played again.

The readers of capture files do the reading. They are given a stream that delivers what was read so far before it waits
for more, so that a packet is handed on as soon as it is there, and many at once when they come fast.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from threading import Event

from ibcmtool.packets import Frame
from ibcmtool.sources.errors import shown
from ibcmtool.sources.files import Capture, ScanRequest, open_stream
from ibcmtool.sources.files.streams import ByteStream
from ibcmtool.sources.live.source import Deliver, LiveSource

POLL = 0.1  # seconds between two looks at a file that grows, or at `stop`
BATCH = 512  # packets


class DeliveryBuffer:
    """Packets that wait to be delivered together."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._frames: list[Frame] = []

    def add(self, frame: Frame) -> None:
        frames = self._frames
        frames.append(frame)
        if len(frames) >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            self._deliver(frames)


def packets(capture: Capture, watched: Container[int]) -> Iterator[Frame]:
    """Every packet of a capture that is worth delivering, data packets however long after a CM message."""
    scan_request = ScanRequest(watched)
    scan_request.until = sys.maxsize
    return capture.scan(scan_request)


class CapturedSource(LiveSource):
    """A live source whose packets come from a capture. path: as the user named it."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.path = path

    def _read(self, stream: ByteStream, buffer: DeliveryBuffer, stop: Event, watched: Container[int]) -> Capture:
        """Every packet of one capture that is worth it."""
        with open_stream(stream, self.path, 0) as capture:
            for frame in packets(capture, watched):
                buffer.add(frame)
                if stop.is_set():
                    break
        buffer.flush()
        return capture

    def _damage(self, capture: Capture) -> None:
        self.damaged = True
        self.notes.append(f"{shown(self.path)}: {capture.info.damage}")
