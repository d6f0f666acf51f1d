"""gzip and zstd, decompressed on the way (RFC 1952, RFC 8878): several members, cut and damaged streams.

The compressed bytes are fed in pieces, because a hostile stream may expand a thousand times (gzip) or far more (zstd:
a block of 4 bytes stands for up to 128 KiB). So what a stream makes this module hold stays below about 32 MiB, plus
the stream's own window (zstd: at most 128 MiB, the limit of its library).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.streams import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibcmtool.sources.files.streams import ByteStream


def method(head: bytes) -> str | None:
    """ "gzip" or "zstd" by the first four bytes; None when they begin neither."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    # The second: a zstd skippable frame, as parallel compressors put in front.
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5):
        return "zstd"
    return None


class _Member(Protocol):
    """One gzip member or zstd frame."""

    piece: int  # bytes to feed at a time
    error: str  # why it cannot be read on; "" while it can

    def feed(self, piece: memoryview) -> bytes: ...

    @property
    def ended(self) -> bool: ...

    @property
    def unused(self) -> int:
        """How many of the bytes fed last lie behind its end."""


class _GzipMember:
    def __init__(self) -> None:
        self.piece = 1 << 14
        self.error = ""
        self._inflate = zlib.decompressobj(wbits=31)

    def feed(self, piece: memoryview) -> bytes:
        spare = self._inflate.copy()
        try:
            return self._inflate.decompress(piece)
        except zlib.error:
            return self._salvage(spare, piece)

    def _salvage(self, inflate: zlib._Decompress, piece: memoryview) -> bytes:
        # zlib keeps what it had inflated when it met the error: byte by byte, all before the error comes out.
        good = bytearray()
        try:
            for i in range(len(piece)):
                good += inflate.decompress(piece[i : i + 1])
        except zlib.error as error:
            self.error = _reason(error)
        return bytes(good)

    @property
    def ended(self) -> bool:
        return self._inflate.eof

    @property
    def unused(self) -> int:
        return len(self._inflate.unused_data)


class _ZstdFrame:
    def __init__(self) -> None:
        import zstandard

        self.piece = 1 << 10
        self.error = ""
        self._library_error = zstandard.ZstdError
        self._frame = zstandard.ZstdDecompressor().decompressobj()

    def feed(self, piece: memoryview) -> bytes:
        try:
            return self._frame.decompress(piece)
        except self._library_error as error:
            self.error = _reason(error)
            return b""

    @property
    def ended(self) -> bool:
        return self._frame.eof

    @property
    def unused(self) -> int:
        return len(self._frame.unused_data)


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2]


_MEMBERS: dict[str, Callable[[], _Member]] = {"gzip": _GzipMember, "zstd": _ZstdFrame}


class DecompressedStream:
    """The decompressed bytes of `source`, which is compressed by `method`. A ByteStream.

    Raises SourceError when the package for zstd is missing.
    """

    def __init__(self, method: str, source: ByteStream, path: str) -> None:
        self.damage = ""
        self._method = method
        self._source = source
        self._new_member = _MEMBERS[method]
        try:
            self._member = self._new_member()
        except ImportError:
            hint = "pip install zstandard, or: zstd -dc FILE | ibcmtool ... -"
            raise SourceError(path, "compressed with zstd, but the package zstandard is missing", hint) from None
        self._memory = memoryview(bytearray(CHUNK))
        self._compressed = self._memory[:0]  # what of it is to be decompressed
        self._position = 0  # in _compressed
        self._offset = 0  # of _compressed in the source
        self._over = False
        self._ready = memoryview(b"")  # decompressed, not yet handed out

    def readinto(self, room: memoryview) -> int:
        if not self._ready:
            self._ready = memoryview(self._decompress(len(room)))
        size = min(len(self._ready), len(room))
        room[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _decompress(self, enough: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while size < enough and not self._over:
            if self._position < len(self._compressed):
                part = self._feed()
                parts.append(part)
                size += len(part)
            elif size:  # hand it out: the next read may have to wait
                break
            else:
                self._refill()
        return b"".join(parts)

    def _refill(self) -> None:
        self._offset += len(self._compressed)
        size = self._source.readinto(self._memory)
        self._compressed = self._memory[:size]
        self._position = 0
        if not self._compressed:
            self._over = True
            self.damage = self._source.damage
            if not self.damage and not self._member.ended:
                self.damage = f"the {self._method} stream ended early, at {self._place()}"

    def _feed(self) -> bytes:
        member = self._member
        if member.ended:
            if self._method == "gzip" and self._compressed[self._position] == 0:
                return self._skip_zeros()
            member = self._member = self._new_member()
        piece = self._compressed[self._position : self._position + member.piece]
        part = member.feed(piece)
        if member.error:
            self._over = True
            self.damage = f"the {self._method} stream is damaged near {self._place()}: {member.error}"
        self._position += len(piece) - member.unused
        return part

    def _skip_zeros(self) -> bytes:
        # Padding after the last member, as tapes and block devices leave it, is no damage.
        rest = bytes(self._compressed[self._position :]).lstrip(b"\0")
        self._position = len(self._compressed) - len(rest)
        return b""

    def _place(self) -> str:
        return f"offset {self._offset + self._position} of the compressed data"

    def close(self) -> None:
        self._source.close()
