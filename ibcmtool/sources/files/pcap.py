"""Classic pcap files (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds.

Read as libpcap and Wireshark read them: only version 2.4 (older ones disagree on the order of the length fields), and
no record longer than 262144 bytes, whatever snap length the file header claims. Link type 197 frames keep the time of
their pcap record; Wireshark shows that of the ERF header inside, which may differ by some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.prescan import NEAR
from ibcmtool.sources.files.records import UNKNOWN, Record, RecordReader
from ibcmtool.sources.files.scan import QPN_MASK, FrameFilter, qpn_word
from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES

if TYPE_CHECKING:
    from ibcmtool.analysis import InputInfo
    from ibcmtool.sources.files.streams import Window

# First four bytes: byte order, and nanoseconds per unit of the time's second half.
MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
HEADER_SIZE: Final = 24
RECORD_SIZE: Final = 16  # header of a record
MAX_CAPTURED: Final = 262144  # libpcap's MAXIMUM_SNAPLEN, Wireshark's WTAP_MAX_PACKET_SIZE_STANDARD
LINK_TYPE_MASK: Final = 0x03FFFFFF  # the bits above tell of a frame check sequence
LONGEST: Final = 1 << 20  # bytes of a packet on the wire, where a record is to be recognised

Unpack = Callable[[bytearray, int], tuple[int, int, int, int, object, object, object, int]]
"""Seconds, fraction, captured and wire length, the three fields of the header pattern, half of the destination QPN."""


class Header(NamedTuple):
    """What the file header says of the records."""

    byte_order: str  # of struct
    scale: int
    link_type: int


def read_header(window: Window) -> Header:
    """The file header at the start of the window. Raises SourceError: cut short, unknown version, foreign link type."""
    if not window.more(0, HEADER_SIZE):
        found = window.size
        raise window.refusal(
            f"pcap file header cut short: {HEADER_SIZE} bytes expected, {found} found", "copy or capture the file again"
        )
    byte_order, scale = MAGICS[window.head(4)]
    major, minor, _zone, _accuracy, _snap_length, network = Struct(byte_order + "HHiIII").unpack_from(window.data, 4)
    if (major, minor) != (2, 4):
        raise window.refusal(
            f"pcap version {major}.{minor} is not supported, 2.4 expected",
            "convert it with Wireshark's editcap: editcap -F pcap IN OUT",
            4,
        )
    link_type = network & LINK_TYPE_MASK
    if link_type not in LINK_TYPES:
        raise window.refusal(link_types.problem([link_type]), link_types.HINT, 20)
    return Header(byte_order, scale, link_type)


class PcapReader(RecordReader):
    """The records behind a file header."""

    def __init__(self, window: Window, header: Header, file: int, info: InputInfo, position: int = HEADER_SIZE) -> None:
        super().__init__(window, file, info, position)
        self.header = header
        self.link_type = header.link_type
        self.frame_filter = FrameFilter(header.link_type, header.byte_order + "IIII")
        self._record_header = Struct(header.byte_order + "IIII").unpack_from

    def next_record(self) -> Record | None:
        info, window, watched = self.info, self.window, self.scan_request.watched
        frame_filter, until = self.frame_filter, self.watched_until
        unpack: Unpack = frame_filter.unpack
        first, second, third = frame_filter.first, frame_filter.second, frame_filter.third
        qpn_at = frame_filter.qpn_at
        gsi: int = frame_filter.gsi
        while True:
            data, size, position = window.data, window.size, self.position
            number, cut, run_high, run_low = info.frames, info.cut_frames, self.run_high, self.run_low
            while True:
                seconds, fraction, captured, wire_length, field_1, field_2, field_3, qpn = unpack(data, position)
                end = position + RECORD_SIZE + captured
                complete = end <= size and captured <= MAX_CAPTURED
                if (
                    not complete
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
                if wire_length > captured:
                    cut += 1
                position = end
            info.frames, info.cut_frames, self.run_low, self.position = number, cut, run_low, position
            if complete:
                if seconds == run_high and fraction >= run_low:
                    self.run_low = fraction
                else:
                    self.begin_run(seconds, fraction)
                self.position = end
                time = seconds * 1_000_000_000 + fraction * self.header.scale
                known = field_1 == first and field_2 == second and field_3 == third
                qpn = qpn_word(data, position + qpn_at)[0] & QPN_MASK if known else UNKNOWN
                return time, position + RECORD_SIZE, end, wire_length, qpn
            if not self._complete():
                return None

    def _complete(self) -> bool:
        """Let the next record be at hand, at data[0]. False when the file ends here; raises DamageError."""
        if not self.header_at_hand(RECORD_SIZE):
            return False
        window, number = self.window, self.info.frames + 1
        captured = self._record_header(window.data)[2]
        if captured > MAX_CAPTURED:
            raise DamageError(
                f"damaged at {window.place(0)}: the record of frame {number} claims {captured} captured bytes, "
                f"at most {MAX_CAPTURED} expected"
            )
        if not window.more(0, RECORD_SIZE + captured):
            raise DamageError(window.cut(0, RECORD_SIZE + captured, f"the record of frame {number}"))
        return True

    def time(self, high: int, low: int) -> int:
        return high * 1_000_000_000 + low * self.header.scale

    def elsewhere(self, window: Window, info: InputInfo) -> PcapReader:
        return PcapReader(window, self.header, self.file, info, 0)

    def follow(self, window: Window, position: int, time: int) -> int:
        seconds, fraction, captured, wire_length = self._record_header(window.data, position)
        near = -NEAR < seconds - time // 1_000_000_000 < NEAR
        plausible = near and fraction * self.header.scale < 1_000_000_000 and captured <= wire_length <= LONGEST
        return position + RECORD_SIZE + captured if plausible else 0
