"""Plain files of ERF records (Endace's Extensible Record Format), as DAG cards and some InfiniBand tools write them.

A frame has link type 197, and its data begin at the ERF header, as in a pcap file of that link type: header, extension
headers, subheader, payload without the padding. Records of type PAD are not counted: Wireshark does not count them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from ibcmtool.analysis import InputInfo
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.prescan import NEAR
from ibcmtool.sources.files.records import UNKNOWN, Record, RecordReader
from ibcmtool.sources.files.scan import QPN_MASK, FrameFilter, qpn_word
from ibcmtool.sources.files.streams import Window
from ibcmtool.wire.links.erf import ERF, EXTENSION_SIZE, HEADER_SIZE, MORE

VARIABLE_LENGTH = 0x04  # flag: the record is as long as its packet needs
RESERVED_FLAGS = 0xC0
PAD: Final = 48
NO_TYPE = 0
TYPES = frozenset({*range(1, 26), 27, 28, 29, PAD})
# Bytes between the headers and the packet, by type: 2 for the Ethernet types, 4 for the multichannel ones and AAL2.
SUBHEADERS = {2: 2, 11: 2, 16: 2, 20: 2, 5: 4, 6: 4, 7: 4, 8: 4, 9: 4, 12: 4, 17: 4, 18: 4}

OVERHEAD = [HEADER_SIZE + SUBHEADERS.get(kind, 0) for kind in range(MORE)]  # without extension headers

RECORDS_CHECKED = 10
BACKWARD = 1 << 24  # 1/256 s, in units of the timestamp: ports of one card are merged almost in order
FORWARD = 366 * 86400 << 32

RECORD = "<IIBxBBxxBB"
Unpack = Callable[[bytearray, int], tuple[int, int, int, int, int, int, int, object, object, object, int]]
"""Fraction, seconds, type, record and wire length (big-endian, so in two halves); the rest as in pcap."""

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


class ErfReader(RecordReader):
    """The records from the beginning of a window on. All is prepared for records of the type of the one before."""

    link_type = ERF.number

    def __init__(self, window: Window, file: int, info: InputInfo) -> None:
        super().__init__(window, file, info, 0)
        self._frame_filters: dict[int, FrameFilter] = {}  # by record type
        self._choose(NO_TYPE)

    def next_record(self) -> Record | None:
        info, window, watched, until = self.info, self.window, self.scan_request.watched, self.watched_until
        while True:
            current, overhead, frame_filter = self._type, self._overhead, self.frame_filter
            unpack: Unpack = frame_filter.unpack
            first, second, third = frame_filter.first, frame_filter.second, frame_filter.third
            qpn_at = frame_filter.qpn_at
            gsi: int = frame_filter.gsi
            data, size, position = window.data, window.size, self.position
            number, cut, run_high, run_low = info.frames, info.cut_frames, self.run_high, self.run_low
            while True:
                fraction, seconds, kind, high, low, wire_high, wire_low, field_1, field_2, field_3, qpn = unpack(
                    data, position
                )
                length = high << 8 | low
                end = position + length
                complete = end <= size and length >= HEADER_SIZE
                if (
                    not complete
                    or kind != current
                    or seconds != run_high
                    or fraction < run_low
                    or field_1 != first
                    or field_2 != second
                    or field_3 != third
                    or qpn == gsi
                    or (number < until and qpn_word(data, position + qpn_at)[0] & QPN_MASK in watched)
                ):
                    break
                number += 1
                run_low = fraction
                if (wire_high << 8 | wire_low) + overhead > length:
                    cut += 1
                position = end
            info.frames, info.cut_frames, self.run_low, self.position = number, cut, run_low, position
            if not complete:
                if not self._complete():
                    return None
            elif kind & ~MORE == PAD:
                self.position = end
            elif kind != current and kind < MORE:
                self._choose(kind)
            else:
                if seconds == run_high and fraction >= run_low:
                    self.run_low = fraction
                else:
                    self.begin_run(seconds, fraction)
                self.position = end
                known = kind == current and field_1 == first and field_2 == second and field_3 == third
                qpn = qpn_word(data, position + qpn_at)[0] & QPN_MASK if known else UNKNOWN
                on_wire = wire_high << 8 | wire_low
                on_wire += overhead if kind == current else _overhead(data, position, kind, length)
                return self.time(seconds, fraction), position, min(end, position + on_wire), on_wire, qpn

    def _choose(self, kind: int) -> None:
        """Prepare for records of this type without extension headers, whose content can be anything."""
        self._type = kind
        self._overhead = OVERHEAD[kind]
        if kind not in self._frame_filters:
            self._frame_filters[kind] = FrameFilter(ERF.number, RECORD, HEADER_SIZE)
        self.frame_filter = self._frame_filters[kind]

    def _complete(self) -> bool:
        """Let the next record be at hand, at data[0]. False when the file ends here; raises DamageError."""
        if not self.header_at_hand(HEADER_SIZE):
            return False
        window, number = self.window, self.info.frames + 1
        length = _header(window.data, 8)[2]
        if length < HEADER_SIZE:
            raise DamageError(
                f"damaged at {window.place(0)}: the record of frame {number} claims {length} bytes, "
                f"at least {HEADER_SIZE} expected"
            )
        if not window.more(0, length):
            raise DamageError(window.cut(0, length, f"the record of frame {number}"))
        return True

    def time(self, high: int, low: int) -> int:
        """Rounded to the nearest, as Wireshark rounds."""
        return high * 1_000_000_000 + (low * 1_000_000_000 + 0x8000_0000 >> 32)

    def elsewhere(self, window: Window, info: InputInfo) -> ErfReader:
        return ErfReader(window, self.file, info)

    def follow(self, window: Window, position: int, time: int) -> int:
        (timestamp,) = _timestamp(window.data, position)
        kind, flags, length, _counter, _wire_length = _header(window.data, position + 8)
        near = -NEAR < (timestamp >> 32) - time // 1_000_000_000 < NEAR
        plausible = near and kind & ~MORE in TYPES and not flags & RESERVED_FLAGS and length >= HEADER_SIZE
        return position + length if plausible else 0


def _overhead(data: bytearray, position: int, kind: int, length: int) -> int:
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
