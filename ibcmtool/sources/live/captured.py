"""Captures as live sources: one that another program writes to standard input, one that grows, one played again.

The readers of capture files do the reading. They are given a stream that delivers what was read so far before it waits
for more, so that a packet is handed on as soon as it is there, and many at once when they come fast.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from threading import Event

from ibcmtool.formatting import SECOND
from ibcmtool.model import Frame
from ibcmtool.sources.errors import SourceError, shown
from ibcmtool.sources.files import Capture, ScanRequest, open_stream
from ibcmtool.sources.files.streams import ByteStream, FileStream
from ibcmtool.sources.live import Deliver

POLL = 0.1  # seconds between two looks at a file that grows, or at `stop`
BATCH = 512  # packets
PIPE_SIZE = 1 << 20  # bytes; what Linux allows anybody


class PatientStream:
    """A stream that lets somebody know before it waits, and waits no longer than `stop` allows."""

    def __init__(self, fd: int, stop: Event, before_waiting: Callable[[], None]) -> None:
        self.damage = ""
        self._fd = fd
        self._stop = stop
        self._before_waiting = before_waiting

    def readinto(self, room: memoryview) -> int:
        if not select.select([self._fd], [], [], 0)[0]:
            self._before_waiting()
            while not select.select([self._fd], [], [], POLL)[0]:
                if self._stop.is_set():
                    return 0
        if self._stop.is_set():
            return 0
        try:
            return os.readv(self._fd, [room])
        except OSError as error:
            self.damage = f"reading failed: {error.strerror or error}"
            return 0

    def close(self) -> None:
        """The file belongs to whoever opened it."""


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


class Batch:
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


class _Captured:
    """What the three have in common."""

    made_up = False
    speed = 1.0
    silence = ""

    def __init__(self, name: str, rest: str) -> None:
        self.name = name
        self.dropped = 0
        self.damaged = False
        self.notes: list[str] = []
        self.path = rest

    def open(self) -> None:
        """Nothing to do before the reading."""

    def close(self) -> None:
        """Nothing is kept open."""

    def _read(self, stream: ByteStream, batch: Batch, stop: Event, watched: Container[int]) -> Capture:
        """Every packet of one capture that is worth it."""
        scan_request = ScanRequest(watched)
        scan_request.until = sys.maxsize
        with open_stream(stream, self.path, 0) as capture:
            for frame in capture.scan(scan_request):
                batch.add(frame)
                if stop.is_set():
                    break
        batch.flush()
        return capture

    def _damage(self, capture: Capture) -> None:
        self.damaged = True
        self.notes.append(f"{shown(self.path)}: {capture.info.damage}")


class StandardInput(_Captured):
    """`-`: ibdump -w - | ibcmtool live -, tcpdump -U --immediate-mode -w - | ..., ssh HOST tcpdump ... | ..."""

    silence = (
        "tcpdump needs -U --immediate-mode to write each packet at once; ibdump writes its header with the first packet"
    )

    def __init__(self, name: str, rest: str) -> None:
        super().__init__(name, "-")

    def open(self) -> None:
        self._input = FileStream("-")  # refuses a terminal, or a closed one
        if sys.platform == "linux":
            # A full pipe makes its writer wait, and tcpdump then loses packets: room for a burst of some thousand.
            with suppress(OSError):  # no pipe, or more than this user may have
                fcntl.fcntl(self._input.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        batch = Batch(deliver)
        stream = PatientStream(self._input.fileno(), stop, batch.flush)
        capture = self._read(stream, batch, stop, watched)
        if capture.info.truncated and not stop.is_set():
            self._damage(capture)


class GrowingFile(_Captured):
    """`follow:FILE`: a capture that is still being written, rotated, or replaced by the next one."""

    silence = "the writer may keep packets back: tcpdump needs -U, dumpcap flushes once a second"

    def open(self) -> None:
        if not self.path:
            raise SourceError(self.name, "names no file", "write follow:FILE")
        try:
            kind = Path(self.path).stat()
        except FileNotFoundError:
            self.notes.append(f"{self.path} is not there yet: waiting for it")
            return
        except OSError as error:
            raise SourceError(self.path, f"cannot be opened: {error.strerror or error}", "check the path") from None
        if not stat.S_ISREG(kind.st_mode):
            raise SourceError(
                self.path, "is no regular file, so it cannot grow", f"pipe it: ibcmtool live - < {self.path}"
            )
        FileStream(self.path).close()  # refuses what may not be read

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        batch = Batch(deliver)
        while not stop.is_set():
            if not Path(self.path).exists():
                stop.wait(POLL)
                continue
            stream = GrowingStream(self.path, stop, batch.flush)
            capture = self._read(stream, batch, stop, watched)
            if stream.replaced:
                rest = (
                    f"; the old one ended in the middle of a record ({capture.info.damage})"
                    if capture.info.truncated
                    else ""
                )
                self.notes.append(
                    f"{self.path} was replaced after {capture.info.frames:,} frames: going on with the new one{rest}"
                )
            elif not stop.is_set():
                self._damage(capture)
                return


class Replay(_Captured):
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
        batch = Batch(deliver)
        scan_request = ScanRequest(watched)
        scan_request.until = sys.maxsize
        begun, first = time.monotonic(), None
        with open_stream(FileStream(self.path), self.path, 0) as capture:
            for frame in capture.scan(scan_request):
                first = frame.time if first is None else first
                if self.speed:
                    pause = begun + (frame.time - first) / SECOND / self.speed - time.monotonic()
                    if pause > 0:
                        batch.flush()
                        stop.wait(pause)
                if stop.is_set():
                    return
                batch.add(frame)
        batch.flush()
        if capture.info.truncated:
            self._damage(capture)
