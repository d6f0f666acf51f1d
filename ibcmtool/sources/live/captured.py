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
from ibcmtool.sources.files.strays import Strays, Taken
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

    def settle(self) -> None:
        """Deliver them, and return when all has been looked at."""
        self.flush()
        self._deliver(())

    def flush(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            self._deliver(frames)


class _Watched:
    """The QPNs that are watched once all has been looked at that was read before.

    A capture may be read faster than it is looked at: whether a data packet is worth delivering depends on the messages
    before it, which may still be on their way.
    """

    def __init__(self, watched: Container[int], buffer: DeliveryBuffer) -> None:
        self.behind = False  # whether messages are on their way
        self.every = False  # every QPN is, as a packet waits for the next one
        self.wanted = False  # whether the packet that was asked for last is one of data
        self._watched = watched
        self._buffer = buffer

    def __bool__(self) -> bool:
        return self.behind or self.every or bool(self._watched)

    def __contains__(self, qpn: object) -> bool:
        if self.behind:
            self.behind = False
            self._buffer.settle()
        self.wanted = self.every or qpn in self._watched
        return self.wanted


def packets(
    capture: Capture, watched: Container[int], buffer: DeliveryBuffer, *, ahead: bool = False
) -> Iterator[Taken]:
    """Every packet of a capture that is worth putting into the buffer, data packets however long after a CM message.

    ahead: the next one may be read for it to be known by which time one is to be taken.
    """
    known, strays = _Watched(watched, buffer), Strays()
    scan_request = ScanRequest(known)
    scan_request.until = sys.maxsize
    for frame in capture.scan(scan_request):
        data, known.wanted = known.wanted and not known.every, False
        if ahead:
            yield from strays.take(frame)
            known.every = strays.held is not None
        else:
            yield Taken(frame, frame.time)
        known.behind |= not data
    yield from strays.release(stray=False)


class CapturedSource(LiveSource):
    """A live source whose packets come from a capture. path: as the user named it."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.path = path

    def _read(self, stream: ByteStream, buffer: DeliveryBuffer, stop: Event, watched: Container[int]) -> Capture:
        """Every packet of one capture that is worth it."""
        with open_stream(stream, self.path, 0) as capture:
            for frame, _ in packets(capture, watched, buffer):
                buffer.add(frame)
                if stop.is_set():
                    break
        buffer.flush()
        self.end_time = capture.info.end_time
        return capture

    def _damage(self, capture: Capture) -> None:
        self.damaged = True
        self.notes.append(f"{shown(self.path)}: {capture.info.damage}")
