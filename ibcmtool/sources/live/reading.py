"""The threads in which sources run, and the queue between them and the session.

The queue is short: when the session falls behind, the sources wait, and what they wait before (a pipe, a kernel buffer)
loses or holds back what it must; the sources count what is lost.
"""

from __future__ import annotations

import queue
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import NamedTuple

from ibcmtool.packets import Frame
from ibcmtool.sources.live import LiveSource

BATCHES = 16
PATIENCE = 0.2  # seconds between two looks at `stop`
FAREWELL = 2.0  # seconds that a source has to end in


class Batch(NamedTuple):
    """What one source delivered; `error` ends it, and so does `ended`."""

    source: int  # its index
    frames: Sequence[Frame] = ()
    error: BaseException | None = None
    ended: bool = False
    looked_at: Event | None = None  # set when all that came before has been


class Reading:
    """All sources running; a context manager that opens them and closes them, whatever happens."""

    def __init__(self, sources: Sequence[LiveSource], watched: Container[int]) -> None:
        self._sources = sources
        self._watched = watched
        self._queue: queue.Queue[Batch] = queue.Queue(BATCHES)
        self._stop = Event()
        self._threads: list[Thread] = []

    def __enter__(self) -> Reading:
        opened: list[LiveSource] = []
        try:
            for source in self._sources:
                opened.append(source)
                source.open()
        except BaseException:
            for source in opened:
                source.close()
            raise
        for index, source in enumerate(self._sources):
            thread = Thread(target=self._run, args=(index, source), name=source.name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for source, thread in zip(self._sources, self._threads, strict=True):
            thread.join(FAREWELL)
            source.close()

    def next(self, wait: float) -> Batch | None:
        """The next batch; None when none comes within `wait` seconds. Those before it have been looked at."""
        while True:
            try:
                batch = self._queue.get(timeout=wait)
            except queue.Empty:
                return None
            if batch.looked_at is None:
                return batch
            batch.looked_at.set()

    def stop(self) -> None:
        """Ask the sources to end. What they have delivered can still be taken."""
        self._stop.set()

    def rest(self) -> Iterator[Batch]:
        """After `stop`: what was delivered before."""
        while (batch := self.next(0)) is not None:
            yield batch

    def _run(self, index: int, source: LiveSource) -> None:
        error: BaseException | None = None
        try:
            source.run(lambda frames: self._deliver(index, frames), self._stop, self._watched)
        except BaseException as raised:
            error = raised  # it belongs to the main thread
        self._put(Batch(index, error=error, ended=True))

    def _deliver(self, index: int, frames: Sequence[Frame]) -> None:
        if frames:
            self._put(Batch(index, frames))
            return
        looked_at = Event()
        self._put(Batch(index, looked_at=looked_at))
        while not looked_at.wait(PATIENCE) and not self._stop.is_set():
            pass

    def _put(self, batch: Batch) -> None:
        while True:
            with suppress(queue.Full):
                self._queue.put(batch, timeout=PATIENCE)
                return
            if self._stop.is_set():
                return
