"""Both cores for one large pcap file: a second process walks ahead and tells which stretches hold no candidate.

The file is cut into stripes. The scout takes every other one: it looks for a place near the stripe's beginning where
records seem to start, and walks on from there as any scan does. Of each piece of about a window's size in which it
found no candidate it tells where the piece begins and ends, and what is to be counted in it. The reader walks the
stripes between. Where it comes, at the border of a record, to the exact beginning of a piece, it counts what the scout
counted and goes on behind the piece.

So nothing depends on the scout's guess being right; a piece whose beginning the reader does not meet is of no use, that
is all. That a record is read the same whatever came before it is true of this format: therefore no other.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections import deque
from contextlib import closing, suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ibcmtool.model import InputInfo
from ibcmtool.sources import pcap
from ibcmtool.sources.ending import note_times
from ibcmtool.sources.scan import Attention
from ibcmtool.sources.streams import FileStream, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibcmtool.model import Frame

LARGE = 1 << 28  # bytes: a second process pays for files of this size
STRIPE = 1 << 25  # bytes
SEARCHED = 2 * pcap.MAX_CAPTURED  # bytes of a stripe; in the first half of them a record must begin
CHAIN = 8  # records that must make sense where one is to begin
NEAR = 30 * 86400  # seconds between the first record of the file and any of these
LONGEST = 1 << 20  # bytes of a packet on the wire
NEVER = sys.maxsize


class Piece(NamedTuple):
    """Records without a candidate: from where to where in the file, how many, how many cut, their times (0: none)."""

    begin: int
    end: int
    frames: int
    cut_frames: int
    first_time: int
    last_time: int


def frames(
    stream: FileStream, window: Window, header: pcap.Header, file: int, info: InputInfo, attention: Attention
) -> Iterator[Frame]:
    """As pcap.frames, with the help of a scout where that pays."""
    size = stream.regular_size
    if size is not None and size >= LARGE and not attention.everything and _cores() > 1:
        window = RelayWindow(stream, window, header, info, attention)
    return pcap.frames(window, header, file, info, attention)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RelayWindow(Window):
    """Goes on in place of another window on a file. Passes over the scout's pieces, and counts them in `info`."""

    def __init__(
        self, stream: FileStream, window: Window, header: pcap.Header, info: InputInfo, attention: Attention
    ) -> None:
        super().__init__(stream, window.path)
        self.data, self.view, self.size, self.offset = window.data, window.view, window.size, window.offset
        self._file = stream
        self._header = header
        self._info = info
        self._attention = attention
        self._scout: Scout | None = None
        self._sent = False
        self._pieces: deque[Piece] = deque()  # ahead of the reader
        self._stripe = NEVER  # where the scout's first stripe begins of which it has not told yet

    def more(self, position: int, need: int) -> bool:
        if not self._sent and self._info.frames:
            self._send()
        begun = here = self.offset + position
        self._hear(here + need)
        attention, info = self._attention, self._info
        if not attention.watched or info.frames >= attention.until:
            while self._pieces and self._pieces[0].begin <= here:
                piece = self._pieces.popleft()
                if piece.begin == here:
                    here = piece.end
                    info.frames += piece.frames
                    info.cut_frames += piece.cut_frames
                    note_times(info, piece.first_time, piece.last_time)
                    self._hear(here + need)
        if here != begun:
            self._file.jump(here)
            self.offset, self.size, position = here, 0, 0
        while self._pieces and self._pieces[0].begin < here + need:
            self._pieces.popleft()
        # So that it ends a reading, and this is called, where a piece begins.
        self._file.limit = self._pieces[0].begin if self._pieces else self._stripe
        return super().more(position, need)

    def _send(self) -> None:
        self._sent = True
        first_time = self._info.first_time
        if first_time is not None and Scout.possible():
            second = first_time // 1_000_000_000
            self._scout = Scout(partial(walk_ahead, self._file, self.path, self._header, second))
            self._stripe = STRIPE

    def _hear(self, offset: int) -> None:
        """Wait for the scout until it has told of all stripes that begin before the offset."""
        while self._scout is not None and self._stripe < offset:
            pieces = self._scout.hear()
            if pieces is None:
                self._dismiss()
            else:
                self._pieces.extend(pieces)
                self._stripe += 2 * STRIPE

    def _dismiss(self) -> None:
        self._stripe = NEVER
        if self._scout is not None:
            self._scout.close()
            self._scout = None

    def close(self) -> None:
        self._dismiss()
        super().close()


class Scout:
    """A process that runs a task; what the task yields can be heard in this one."""

    def __init__(self, task: Callable[[], Iterator[list[Piece]]]) -> None:
        reading, writing = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as out:
                    for pieces in task():
                        pickle.dump(pieces, out)
                        out.flush()
            finally:
                os._exit(0)  # not a word, and nothing of what the first process has open is closed here
        os.close(writing)
        self._told = os.fdopen(reading, "rb")

    @staticmethod
    def possible() -> bool:
        """Beside other threads a fork is not safe."""
        return hasattr(os, "fork") and threading.active_count() == 1

    def hear(self) -> list[Piece] | None:
        """What comes next; None at the end."""
        try:
            pieces: list[Piece] = pickle.load(self._told)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None
        return pieces

    def close(self) -> None:
        self._told.close()
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


class _StripeOverError(Exception):
    """The scout has come to the end of a stripe."""


class _ScoutWindow(Window):
    """A window on a stripe of a file. Makes a piece of what is walked between two calls of `more`."""

    def __init__(self, stream: FileStream, path: str, begin: int) -> None:
        super().__init__(stream, path)
        stream.jump(begin)
        self.offset = begin
        self.pieces: list[Piece] = []
        self.others = 0  # pieces that hold a candidate
        self.candidate = False  # seen in this one
        self.info = InputInfo(path)  # what was counted in this one
        self._piece: int | None = None  # where this one begins
        self._end = begin + STRIPE

    def begin(self, position: int) -> None:
        """The first piece begins at data[position], which becomes data[0]."""
        self.more(position, 0)
        self._piece = self.offset

    def more(self, position: int, need: int) -> bool:
        here = self.offset + position
        if self._piece is not None and here > self._piece:
            info = self.info
            if self.candidate:
                self.others += 1
            else:
                times = info.first_time or 0, info.last_time or 0
                self.pieces.append(Piece(self._piece, here, info.frames, info.cut_frames, *times))
            if here >= self._end:
                raise _StripeOverError
            self._piece, self.candidate = here, False
            info.frames = info.cut_frames = 0
            info.first_time = info.last_time = None
        return super().more(position, need)

    def close(self) -> None:
        """The stream is still needed for the next stripe."""


def walk_ahead(reader: FileStream, path: str, header: pcap.Header, second: int) -> Iterator[list[Piece]]:
    """The pieces of every other stripe, until the file ends or it turns out that there are too few.

    second: the time of a record, near those of all others.
    """
    with closing(FileStream(path)) as stream:  # opened anew: each process has its own place in it
        size = stream.regular_size or 0
        if not os.path.sameopenfile(stream.fileno(), reader.fileno()):
            return
        for begin in range(STRIPE, size, 2 * STRIPE):
            window = _ScoutWindow(stream, path, begin)
            border = find_record(window, header, second)
            if border is not None:
                window.begin(border)
                with suppress(_StripeOverError):
                    for _ in pcap.frames(window, header, 0, window.info, Attention(), 0):
                        window.candidate = True
            yield window.pieces
            if window.others > len(window.pieces):
                return


def find_record(window: Window, header: pcap.Header, second: int) -> int | None:
    """Where in the window a record seems to begin, in a file whose first record is of this second."""
    unpack = Struct(header.byte_order + "IIII").unpack_from
    units = 1_000_000_000 // header.scale
    window.more(0, SEARCHED)
    for border in range(min(window.size, SEARCHED // 2)):
        position = border
        for _ in range(CHAIN):
            seconds, fraction, captured, wire_length = unpack(window.data, position)
            if fraction >= units or not captured <= wire_length <= LONGEST or not -NEAR < seconds - second < NEAR:
                break
            position += captured + pcap.RECORD_SIZE
            if position > window.size:
                break
        else:
            return border
    return None
