"""Bytes from a file, a pipe or standard input, and the sliding window through which the format readers see them.

Reads are large and unbuffered; from a pipe each read gives what is there, so that frames of a running capture come
out as they arrive. Nothing is ever allocated by a length that the input claims: the window grows by what was read.
"""

from __future__ import annotations

import io
import sys
from typing import IO, Protocol, cast

from ibcmtool.sources.errors import SourceError

CHUNK = 1 << 17  # bytes asked for at a time


class ByteStream(Protocol):
    """A forward-only source of bytes."""

    @property
    def damage(self) -> str:
        """Why the stream ended before its time; "" when it did not."""

    def read(self) -> bytes:
        """The next bytes, at least one; b"" at the end, and from then on."""

    def close(self) -> None: ...


class FileStream:
    """A file by its path, a named pipe, or standard input for "-". Raises SourceError where it cannot be opened."""

    def __init__(self, path: str) -> None:
        self.damage = ""
        self._offset = 0
        self._file = _standard_input() if path == "-" else _open(path)
        self._owned = path != "-"
        # A buffered file (standard input) must not wait until CHUNK bytes are there: read1 returns what one read gives.
        self._read = getattr(self._file, "read1", self._file.read)

    def read(self) -> bytes:
        try:
            chunk = cast("bytes | None", self._read(CHUNK))
        except OSError as error:
            return self._fail(error.strerror or str(error))
        if chunk is None:
            return self._fail("no data at hand in a non-blocking file")
        self._offset += len(chunk)
        return chunk

    def _fail(self, reason: str) -> bytes:
        self.damage = f"reading failed at offset {self._offset} of the file: {reason}"
        return b""

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
    """The part of a byte stream that is in memory; readers index `data` and ask for `more`.

    data: bytes at hand; offset: where data[0] lies in the (decompressed) stream.
    """

    def __init__(self, stream: ByteStream, path: str, *, decompressed: bool = False) -> None:
        self.data = b""
        self.offset = 0
        self.path = path
        self._stream = stream
        self._decompressed = decompressed

    def more(self, position: int, need: int) -> bool:
        """Let go of everything before data[position], which becomes data[0], and read until `need` bytes are at hand.

        False when the stream ended before; then `data` is all that was left.
        """
        parts = [self.data[position:]]
        self.offset += position
        missing = need - len(parts[0])
        while missing > 0:
            chunk = self._stream.read()
            if not chunk:
                break
            parts.append(chunk)
            missing -= len(chunk)
        self.data = b"".join(parts)
        return missing <= 0

    def skip(self, length: int) -> int:
        """Let go of the next `length` bytes without ever holding them; returns how many of them did not come."""
        while length > len(self.data):
            length -= len(self.data)
            self.offset += len(self.data)
            self.data = self._stream.read()
            if not self.data:
                return length
        self.offset += length
        self.data = self.data[length:]
        return 0

    def read(self) -> bytes:
        """The window as a stream: what is at hand first, then what follows. Used below a decompressor."""
        data, self.data = self.data, b""
        self.offset += len(data)
        return data or self._stream.read()

    @property
    def damage(self) -> str:
        return self._stream.damage

    def close(self) -> None:
        self._stream.close()

    def place(self, position: int) -> str:
        """Where data[position] lies, in words."""
        suffix = " of the decompressed data" if self._decompressed else ""
        return f"offset {self.offset + position}{suffix}"

    def cut(self, position: int, need: int, what: str) -> str:
        """The damage line for `what`, which begins at data[position] and of whose `need` bytes the last are missing."""
        missing = position + need - len(self.data)
        plural = "" if missing == 1 else "s"
        begun = self.offset + position
        return (
            f"cut off at {self.place(len(self.data))}: {what} from offset {begun} on needs {missing} more byte{plural}"
        )

    def refusal(self, problem: str, hint: str, position: int | None = 0) -> SourceError:
        """The error for an input of which nothing can be read."""
        if self.damage:
            problem = f"{problem}; {self.damage}"
        return SourceError(self.path, problem, hint, None if position is None else self.offset + position)
