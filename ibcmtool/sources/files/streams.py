"""Bytes from a file, a pipe or standard input, and the sliding window through which the format readers see them.

Reads are large and unbuffered, and go into memory that is used again: fresh memory for each read costs more than the
reading. From a pipe each read gives what is there, so that frames of a running capture come out as they arrive. Nothing
is ever allocated by a length that the input claims: the window grows by what was read.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Protocol, cast

from ibcmtool.sources.errors import SourceError

CHUNK = 1 << 20  # bytes asked for at a time
SLACK = 512  # bytes behind the data that can be unpacked, though they mean nothing


class ByteStream(Protocol):
    """A forward-only source of bytes."""

    @property
    def damage(self) -> str:
        """Why the stream ended before its time; "" when it did not."""

    def readinto(self, room: memoryview) -> int:
        """Fill the room from its beginning on with the next bytes, at least one; 0 at the end, and from then on."""

    def close(self) -> None: ...


class FileStream:
    """A file by its path, a named pipe, or standard input for "-". Raises SourceError where it cannot be opened."""

    def __init__(self, path: str) -> None:
        self.damage = ""
        self.limit: int | None = None  # offset up to which is read; it must be raised before it is reached
        self._offset = 0
        self._file = _standard_input() if path == "-" else _open(path)
        self._owned = path != "-"
        # A buffered file (standard input) must not wait until the room is full: readinto1 takes what one read gives.
        method = "readinto1" if hasattr(self._file, "readinto1") else "readinto"
        self._readinto: Callable[[memoryview], int | None] = getattr(self._file, method)

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def regular_size(self) -> int | None:
        """The size of a regular file; None for anything else, and for standard input."""
        state = os.fstat(self.fileno()) if self._owned else None
        return state.st_size if state is not None and stat.S_ISREG(state.st_mode) else None

    def jump(self, offset: int) -> None:
        """Go on at this offset."""
        self._file.seek(offset)
        self._offset = offset

    def readinto(self, room: memoryview) -> int:
        if self.limit is not None:
            room = room[: self.limit - self._offset]
        try:
            size = self._readinto(room)
        except OSError as error:
            return self._fail(error.strerror or str(error))
        if size is None:
            return self._fail("no data at hand in a non-blocking file")
        self._offset += size
        return size

    def _fail(self, reason: str) -> int:
        self.damage = f"reading failed at offset {self._offset} of the file: {reason}"
        return 0

    def close(self) -> None:
        if self._owned:
            self._file.close()


def _standard_input() -> IO[bytes]:
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("-", "is closed", "pipe a capture into it")
    if sys.stdin.isatty():
        raise SourceError("-", "is a terminal", "pipe a capture into it: tcpdump -w - ... | ibcmtool ...")
    return sys.stdin.buffer


def _open(path: str) -> IO[bytes]:
    try:
        return cast("IO[bytes]", io.FileIO(path))
    except FileNotFoundError:
        raise SourceError(path, "no such file", "check the path") from None
    except IsADirectoryError:
        raise SourceError(path, "is a directory", "name the capture files in it") from None
    except PermissionError:
        hint = "captures written by root often need: sudo chown $USER FILE"
        raise SourceError(path, "permission denied", hint) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise SourceError(path, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None


class Window:
    """The part of a byte stream that is in memory; readers unpack `data` and ask for `more`.

    data: the memory, of which the first `size` bytes are at hand; SLACK more can be unpacked, so that a reader may look
    first and compare with `size` then. view: the same as a memoryview. offset: where data[0] lies in the (decompressed)
    stream. After `more` all of them may be others. last_time: a reader whose packets can lack a time keeps there, while
    more is read, the time of the last packet before (ns; None: of none).
    """

    def __init__(self, stream: ByteStream, path: str, *, decompressed: bool = False) -> None:
        self.data = bytearray(CHUNK + SLACK)
        self.view = memoryview(self.data)
        self.size = 0
        self.offset = 0
        self.path = path
        self.stream = stream
        self.last_time: int | None = None
        self._decompressed = decompressed

    def more(self, position: int, need: int) -> bool:
        """Let go of everything before data[position], which becomes data[0], and read until `need` bytes are at hand.

        False when the stream ended before; then `size` tells how much was left.
        """
        if position:
            self.size -= position
            self.offset += position
            self.view[: self.size] = self.view[position : position + self.size]
        while self.size < need:
            if self.size + SLACK == len(self.data):
                self._grow()
            read = self.stream.readinto(self.view[self.size : -SLACK])
            if not read:
                return False
            self.size += read
        return True

    def _grow(self) -> None:
        larger = bytearray(2 * self.size + SLACK)
        larger[: self.size] = self.view[: self.size]
        self.data = larger
        self.view = memoryview(larger)

    def changed(self) -> None:
        """The reader has learnt something that decides how all that follows is read."""

    def skip(self, length: int) -> int:
        """Let go of the next `length` bytes without ever holding them; returns how many of them did not come."""
        while length > self.size:
            length -= self.size
            self.offset += self.size
            self.size = 0
            if not self.more(0, 1):
                return length
        self.more(length, 0)
        return 0

    def head(self, length: int) -> bytes:
        """The first bytes, as many as there are."""
        return bytes(self.view[: min(length, self.size)])

    def readinto(self, room: memoryview) -> int:
        """The window as a stream: what is at hand first, then what follows. Used below a decompressor."""
        if not self.size:
            return self.stream.readinto(room)
        size = min(self.size, len(room))
        room[:size] = self.view[:size]
        self.more(size, 0)
        return size

    @property
    def damage(self) -> str:
        return self.stream.damage

    def close(self) -> None:
        self.stream.close()

    def place(self, position: int) -> str:
        """Where data[position] lies, in words."""
        suffix = " of the decompressed data" if self._decompressed else ""
        return f"offset {self.offset + position}{suffix}"

    def cut(self, position: int, need: int, what: str) -> str:
        """The damage line for `what`, which begins at data[position] and of whose `need` bytes the last are missing."""
        missing = position + need - self.size
        plural = "" if missing == 1 else "s"
        begun = self.offset + position
        return f"cut off at {self.place(self.size)}: {what} from offset {begun} on needs {missing} more byte{plural}"

    def refusal(self, problem: str, hint: str, position: int | None = 0) -> SourceError:
        """The error for an input of which nothing can be read."""
        if self.damage:
            problem = f"{problem}; {self.damage}"
        return SourceError(self.path, problem, hint, None if position is None else self.offset + position)
