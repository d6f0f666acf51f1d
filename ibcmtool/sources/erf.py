"""Plain files of ERF records (Endace's Extensible Record Format), as DAG cards and some InfiniBand tools write them.

A frame has link type 197, and its data begin at the ERF header, as in a pcap file of that link type: header, extension
headers, subheader, payload without the padding. Records of type PAD are not counted: Wireshark does not count them.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ibcmtool.model import Frame
from ibcmtool.sources import link_types
from ibcmtool.sources.errors import DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.sources.streams import Window

HEADER_SIZE = 16
EXTENSION_SIZE = 8
MORE = 0x80  # in the type byte, and in the first byte of an extension header: an extension header follows
VARIABLE_LENGTH = 0x04  # flag: the record is as long as its packet needs
RESERVED_FLAGS = 0xC0
PAD = 48
TYPES = frozenset({*range(1, 26), 27, 28, 29, PAD})
# Bytes between the headers and the packet, by type: 2 for the Ethernet types, 4 for the multichannel ones and AAL2.
SUBHEADERS = {2: 2, 11: 2, 16: 2, 20: 2, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 12: 4, 17: 4, 18: 4}

OVERHEAD = [HEADER_SIZE + SUBHEADERS.get(kind, 0) for kind in range(MORE)]  # without extension headers

RECORDS_CHECKED = 10
BACKWARD = 1 << 24  # 1/256 s, in units of the timestamp: ports of one card are merged almost in order
FORWARD = 366 * 86400 << 32

_timestamp = Struct("<Q").unpack_from  # seconds, and fractions of 2^-32 s
_header = Struct(">BBHHH").unpack_from  # type, flags, record length, loss counter or colour, wire length


def plausible(window: Window) -> bool:
    """Whether ERF records begin here. The format has no magic: its first ten records (or all) must make sense.

    Each has a known type, no reserved flag, room for its headers, no more bytes than its packet and padding need;
    their times hardly decrease and do not jump by a year. At least one must be complete.
    """
    position = 0
    previous: int | None = None
    for _ in range(RECORDS_CHECKED):
        if not window.more(0, position + HEADER_SIZE):
            break
        kind, flags, length, _counter, wire_length = _header(window.data, position + 8)
        if kind & ~MORE not in TYPES or flags & RESERVED_FLAGS or length < HEADER_SIZE:
            return False
        complete = window.more(0, position + length)
        if kind & ~MORE != PAD:
            overhead = _overhead(window.data, position, kind, length)
            if overhead > length or (flags & VARIABLE_LENGTH and length - overhead > wire_length + HEADER_SIZE):
                return False
            (time,) = _timestamp(window.data, position)
            if previous is not None and not -BACKWARD <= time - previous <= FORWARD:
                return False
            if complete:
                previous = time
        if not complete:
            break
        position += length
    return previous is not None


def frames(window: Window, file: int) -> Iterator[Frame]:
    """The records from the beginning of the window. Raises DamageError."""
    new = tuple.__new__  # see pcap.frames
    data, position, size = window.data, 0, len(window.data)
    number = 1
    while True:
        if position + HEADER_SIZE > size:
            complete = window.more(position, HEADER_SIZE)
            data, position, size = window.data, 0, len(window.data)
            if not size:
                return
            if not complete:
                raise DamageError(window.cut(0, HEADER_SIZE, f"the record header of frame {number}"))
        kind, _flags, length, _counter, wire_length = _header(data, position + 8)
        if length < HEADER_SIZE:
            raise DamageError(
                f"damaged at {window.place(position)}: the record of frame {number} claims {length} bytes, "
                f"at least {HEADER_SIZE} expected"
            )
        end = position + length
        if end > size:
            complete = window.more(position, length)
            data, position, size = window.data, 0, len(window.data)
            if not complete:
                raise DamageError(window.cut(0, length, f"the record of frame {number}"))
            end = length
        if kind & ~MORE != PAD:
            (timestamp,) = _timestamp(data, position)
            time = (timestamp * 1_000_000_000 + 0x8000_0000) >> 32  # to the nearest, as Wireshark rounds
            overhead = OVERHEAD[kind] if kind < MORE else _overhead(data, position, kind, length)
            on_wire = overhead + wire_length
            packet = data[position : min(end, position + on_wire)]
            yield new(Frame, (file, number, time, link_types.ERF, packet, on_wire))
            number += 1
        position = end


def _overhead(data: bytes, position: int, kind: int, length: int) -> int:
    """Bytes of headers in the record at data[position]; more than `length` when they do not fit into it."""
    size = HEADER_SIZE
    more = kind & MORE
    while more:
        begin = position + size
        size += EXTENSION_SIZE
        if size > length or begin >= len(data):
            break
        more = data[begin] & MORE
    return size + SUBHEADERS.get(kind & ~MORE, 0)
