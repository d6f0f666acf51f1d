"""CM packets as a pcapng file for Wireshark, what is known besides as comments of the packets (pcapng, IETF draft).

Wireshark reads link type 197 (ERF), but not 247, for InfiniBand: packets of the latter are put into ERF records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Literal

from ibcmtool import __version__
from ibcmtool.packets import Frame
from ibcmtool.wire.links.erf import ERF, record_around
from ibcmtool.wire.links.infiniband import INFINIBAND

Direction = Literal["in", "out"]

SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
END_OF_OPTIONS, COMMENT = 0, 1
APPLICATION, NAME, DESCRIPTION, RESOLUTION = 4, 2, 3, 9  # of a section, and of an interface
FLAGS, DROPPED = 2, 5  # of a packet, and of statistics
NANOSECONDS = b"\x09"
DIRECTIONS: dict[Direction | None, int] = {"in": 1, "out": 2}
LONGEST_OPTION = 0xFFFF

Option = tuple[int, bytes]


class PcapngWriter:
    """Writes one pcapng file, section and all. The file stays the caller's to close."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._interfaces: dict[tuple[str, int], int] = {}
        application = (APPLICATION, f"ibcmtool {__version__}".encode())
        self._block(SECTION, struct.pack("<IHHq", BYTE_ORDER_MAGIC, 1, 0, -1), [application])

    def write(
        self,
        frame: Frame,
        source: str,
        comments: Iterable[str] = (),
        direction: Direction | None = None,
        description: str = "",
    ) -> int:
        """One packet, and its interface when it is the first of it. Returns the bytes written.

        source, description: name and description of the interface.
        """
        link_type, data, missing = frame.link_type, frame.data, frame.wire_length - len(frame.data)
        if link_type == INFINIBAND.number:
            link_type, data = ERF.number, record_around(frame.time, data, frame.wire_length)
        written = 0
        number = self._interfaces.get((source, link_type))
        if number is None:
            number = self._interfaces[(source, link_type)] = len(self._interfaces)
            about = [(NAME, source.encode()), (RESOLUTION, NANOSECONDS)]
            if description:
                about.append((DESCRIPTION, description.encode()))
            written += self._block(INTERFACE, struct.pack("<HHI", link_type, 0, 0), about)
        head = struct.pack("<IIIII", number, frame.time >> 32, frame.time & 0xFFFFFFFF, len(data), len(data) + missing)
        options = _comments(comments)
        if direction is not None:
            options.append((FLAGS, struct.pack("<I", DIRECTIONS[direction])))
        return written + self._block(PACKET, head + _padded(data), options)

    def close(self, time: int, dropped: Sequence[tuple[str, int]] = (), comments: Iterable[str] = ()) -> None:
        """The last words: how many packets each source lost, and comments that no packet could carry any more."""
        lost = dict(dropped)
        for (source, _), number in self._interfaces.items():
            options = [*_comments(comments), (DROPPED, struct.pack("<Q", lost.get(source, 0)))]
            self._block(STATISTICS, struct.pack("<III", number, time >> 32, time & 0xFFFFFFFF), options)
            comments = ()
        self._out.flush()

    def _block(self, kind: int, body: bytes, options: list[Option]) -> int:
        for code, value in options:
            body += struct.pack("<HH", code, len(value)) + _padded(value)
        if options:
            body += struct.pack("<HH", END_OF_OPTIONS, 0)
        length = struct.pack("<I", len(body) + 12)
        self._out.write(struct.pack("<I", kind) + length + body + length)
        return len(body) + 12


def _comments(comments: Iterable[str]) -> list[Option]:
    return [(COMMENT, comment.encode()[:LONGEST_OPTION]) for comment in comments]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
