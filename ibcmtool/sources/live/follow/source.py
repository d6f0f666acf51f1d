"""A capture that grows: what is written is waited for, and so is the next file where this one is replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container
from pathlib import Path
from threading import Event

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.streams import FileStream
from ibcmtool.sources.live.captured import POLL, CapturedSource, DeliveryBuffer
from ibcmtool.sources.live.source import Deliver


class GrowingStream:
    """A file that another program writes: at its end more is waited for, until `stop`, or until it is replaced.

    A file that was renamed and made anew (rotation), or cut to nothing and begun again, ends this stream once all that
    it still held was read; `replaced` tells then.
    """

    def __init__(self, path: str, stop: Event, before_waiting: Callable[[], None]) -> None:
        self.damage = ""
        self.replaced = False
        self._path = path
        self._stop = stop
        self._before_waiting = before_waiting
        self._file = FileStream(path)
        self._offset = 0

    def readinto(self, room: memoryview) -> int:
        while True:
            size = 0 if self._cut() else self._file.readinto(room)
            if size or self._file.damage:
                self._offset += size
                self.damage = self._file.damage
                return size
            if self._is_replaced():
                # What was written between the last read and the replacement is still in the old file.
                size = 0 if self._cut() else self._file.readinto(room)
                self._offset += size
                self.replaced = not size
                return size
            self._before_waiting()
            if self._stop.wait(POLL):
                return 0

    def _cut(self) -> bool:
        return os.fstat(self._file.fileno()).st_size < self._offset

    def _is_replaced(self) -> bool:
        try:
            now = Path(self._path).stat()
        except OSError:
            return False  # renamed, and the new one is not there yet
        mine = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < self._offset

    def close(self) -> None:
        self._file.close()


class GrowingFile(CapturedSource):
    """`follow:FILE`: a capture that is still being written, rotated, or replaced by the next one."""

    silence = "the writer may keep packets back: tcpdump needs -U, dumpcap flushes once a second"

    def open(self) -> None:
        if not self.path:
            raise self.refusal("names no file", "write follow:FILE")
        try:
            kind = Path(self.path).stat()
        except FileNotFoundError:
            self.notes.append(f"{self.path} is not there yet: waiting for it")
            return
        except OSError as error:
            raise SourceError(self.path, f"cannot be opened: {error.strerror or error}", "check the path") from None
        if not stat.S_ISREG(kind.st_mode):
            hint = f"pipe it: ibcmtool live - < {self.path}"
            raise SourceError(self.path, "is no regular file, so it cannot grow", hint)
        FileStream(self.path).close()  # refuses what may not be read

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        buffer = DeliveryBuffer(deliver)
        while not stop.is_set():
            if not Path(self.path).exists():
                stop.wait(POLL)
                continue
            stream = GrowingStream(self.path, stop, buffer.flush)
            capture = self._read(stream, buffer, stop, watched)
            if stream.replaced:
                info = capture.info
                rest = f"; the old one ended in the middle of a record ({info.damage})" if info.truncated else ""
                self.notes.append(
                    f"{self.path} was replaced after {info.frames:,} frames: going on with the new one{rest}"
                )
            elif not stop.is_set():
                self._damage(capture)
                return
