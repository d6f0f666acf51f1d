"""gzip, zstd, xz, bzip2 and lz4, decompressed on the way (RFC 1952, RFC 8878, the .xz and LZ4 frame formats): several
members, cut and damaged streams.

The compressed bytes are fed in pieces, because a hostile stream may expand a thousand times (gzip) or far more (zstd:
a block of 4 bytes stands for up to 128 KiB; bzip2: 45 bytes for 45 MB). So what a stream makes this module hold stays
below about 32 MiB, plus the stream's own window (zstd: at most 128 MiB, the limit of its library; the same for xz).
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any, Final

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.streams import CHUNK, ByteStream

XZ_MEMORY: Final = 1 << 27  # bytes: twice of what `xz -9` asks for
MOST_AT_ONCE: Final = 1 << 20  # bytes that come out of one call, where the library can stop there
ZERO_PADDED: Final = ("gzip", "xz", "bzip2")  # zeros behind the last member are no damage
PACKAGES: Final = {"zstd": "zstandard", "lz4": "lz4"}  # the others are in the standard library, if it is whole


def method(head: bytes) -> str | None:
    """ "gzip", "zstd", "xz", "bzip2" or "lz4" by the first four bytes; None when they begin none."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    # The second: a zstd skippable frame, as parallel compressors put in front.
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5):
        return "zstd"
    if head.startswith(b"\xfd7zX"):
        return "xz"
    if head.startswith(b"BZh") and b"1" <= head[3:4] <= b"9":
        return "bzip2"
    return "lz4" if head.startswith(b"\x04\x22\x4d\x18") else None


class _Member:
    """One gzip member, xz or bzip2 stream, zstd or lz4 frame; an object of about the same shape decompresses each."""

    def __init__(self, method: str) -> None:
        self.error = ""  # why it cannot be read on; "" while it can
        self.pending = False  # there is more to come out of what was fed
        self.piece = 1 << 10  # bytes to feed at a time: an error costs what a piece holds
        self.bounded = True  # the library stops after so many bytes
        self.library_error: type[Exception]
        self.decompressor: Any
        if method == "gzip":
            self.piece, self.bounded = 1 << 14, False
            self.library_error = zlib.error
            self.decompressor = zlib.decompressobj(wbits=31)
        elif method == "zstd":
            import zstandard

            self.bounded = False
            self.library_error = zstandard.ZstdError
            self.decompressor = zstandard.ZstdDecompressor().decompressobj()
        elif method == "xz":
            import lzma

            self.library_error = lzma.LZMAError
            self.decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY)
        elif method == "bzip2":
            import bz2

            self.library_error = OSError
            self.decompressor = bz2.BZ2Decompressor()
        else:
            import lz4.frame

            self.library_error = RuntimeError
            self.decompressor = lz4.frame.LZ4FrameDecompressor()

    def feed(self, piece: memoryview) -> bytes:
        copied = self.decompressor.copy() if self.library_error is zlib.error else None
        try:
            if not self.bounded:
                return bytes(self.decompressor.decompress(piece))
            part: bytes = self.decompressor.decompress(piece, MOST_AT_ONCE)
            self.pending = not self.ended and (not self.decompressor.needs_input or len(part) == MOST_AT_ONCE)
            return part
        except self.library_error as error:
            self.error, self.pending = str(error).rpartition(": ")[2], False
        # zlib keeps what it had inflated when it met the error: byte by byte, all before the error comes out.
        good = bytearray()
        if copied is not None:
            with suppress(zlib.error):
                for i in range(len(piece)):
                    good += copied.decompress(piece[i : i + 1])
        return bytes(good)

    @property
    def ended(self) -> bool:
        return bool(self.decompressor.eof)

    @property
    def unused(self) -> int:
        """How many of the bytes fed last lie behind its end."""
        return len(self.decompressor.unused_data or b"")


class DecompressedStream:
    """The decompressed bytes of `source`, which is compressed by `method`. A ByteStream.

    Raises SourceError when the library for it is missing.
    """

    def __init__(self, method: str, source: ByteStream, path: str) -> None:
        self.damage = ""
        self._method = method
        self._source = source
        try:
            self._member = _Member(method)
        except ImportError:
            package = PACKAGES.get(method)
            lack = f"the package {package} is missing" if package else "this Python was built without its library"
            hint = f"{f'pip install {package}, or: ' if package else ''}{method} -dc FILE | ibcmtool ... -"
            raise SourceError(path, f"compressed with {method}, but {lack}", hint) from None
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
            if self._position < len(self._compressed) or self._member.pending:
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
            if self._method in ZERO_PADDED and self._compressed[self._position] == 0:
                return self._skip_zeros()
            member = self._member = _Member(self._method)
        size = 0 if member.pending else member.piece
        piece = self._compressed[self._position : self._position + size]
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
