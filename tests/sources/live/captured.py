"""What the tests of live sources share that read a capture."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event

from ibcmtool.packets import Frame
from ibcmtool.sources.live import LiveSource

PATIENCE = 10.0  # seconds until a test gives up waiting for what must come


class Running:
    """A source in its thread, and what it has delivered."""

    def __init__(self, source: LiveSource) -> None:
        self.source = source
        self.frames: list[bytes] = []
        self.batches = 0
        self.stop = Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.source.run(self._take, self.stop, ())
        except BaseException as error:
            self.error = error

    def _take(self, frames: Sequence[Frame]) -> None:
        self.batches += bool(frames)
        self.frames += [frame.data for frame in frames]

    def until(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, f"{len(self.frames)} frames, notes {self.source.notes}, {self.error}"
            time.sleep(0.005)


@contextmanager
def running(source: LiveSource) -> Iterator[Running]:
    source.open()
    run = Running(source)
    run.thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        run.thread.join(PATIENCE)
        source.close()
        assert not run.thread.is_alive()


def record_ends(pcap: bytes) -> list[int]:
    """Offsets behind each record of a little-endian pcap."""
    ends, at = [], 24
    while at < len(pcap):
        at += 16 + int.from_bytes(pcap[at + 8 : at + 12], "little")
        ends.append(at)
    return ends
