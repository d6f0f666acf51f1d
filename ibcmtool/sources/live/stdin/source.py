"""A capture on standard input: packets are handed on as soon as they are there."""

from __future__ import annotations

import fcntl
import os
import select
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from threading import Event

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.streams import FileStream
from ibcmtool.sources.live.captured import POLL, CapturedSource, DeliveryBuffer
from ibcmtool.sources.live.source import Deliver

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


class StandardInput(CapturedSource):
    """`-`: ibdump -w - | ibcmtool live -, tcpdump -U --immediate-mode -w - | ..., ssh HOST tcpdump ... | ..."""

    silence = (
        "tcpdump needs -U --immediate-mode to write each packet at once; ibdump writes its header with the first packet"
    )

    def __init__(self, name: str, rest: str) -> None:
        if rest:
            raise SourceError(name, "is no live source", "write live -")
        super().__init__(name, "-")

    def open(self) -> None:
        self._input = FileStream("-")  # refuses a terminal, or a closed one
        if sys.platform == "linux":
            # A full pipe makes its writer wait, and tcpdump then loses packets: room for a burst of some thousand.
            with suppress(OSError):  # no pipe, or more than this user may have
                fcntl.fcntl(self._input.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        buffer = DeliveryBuffer(deliver)
        stream = PatientStream(self._input.fileno(), stop, buffer.flush)
        capture = self._read(stream, buffer, stop, watched)
        if capture.info.truncated and not stop.is_set():
            self._damage(capture)
