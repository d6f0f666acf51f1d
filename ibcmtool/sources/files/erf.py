"""Plain files of ERF records (Endace's Extensible Record Format), as DAG cards and some InfiniBand tools write them.

A frame has link type 197, and its data begin at the ERF header, as in a pcap file of that link type: header, extension
headers, subheader, payload without the padding. Records of type PAD are not counted: Wireshark does not count them.
"""

from __future__ import annotations

from collections import defaultdict
from struct import Struct
from typing import TYPE_CHECKING

from ibcmtool.model import Frame
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.input_end import Ending, note_times
from ibcmtool.sources.files.prescan import NEAR, employ
from ibcmtool.sources.files.scan import QPN_MASK, FrameFilter, qpn_word
from ibcmtool.wire.links.erf import ERF, EXTENSION_SIZE, HEADER_SIZE, MORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.model import InputInfo
    from ibcmtool.sources.files.scan import ScanRequest
    from ibcmtool.sources.files.streams import Window

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

RECORD = "<IIBxBBxxBB"  # fraction, seconds, type, record length and wire length (big-endian, in two halves)

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


def frames(window: Window, file: int, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
    """The records from the beginning of the window, as far as they are wanted."""

    def from_start(window: Window, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
        return _walk(window, file, info, scan_request)

    return from_start(employ(window, info, scan_request, from_start, _follow), info, scan_request)


def _follow(window: Window, position: int, time: int) -> int:
    """See prescan.employ."""
    (timestamp,) = _timestamp(window.data, position)
    kind, flags, length, _counter, _wire_length = _header(window.data, position + 8)
    near = -NEAR < (timestamp >> 32) - time // 1_000_000_000 < NEAR
    plausible = near and kind & ~MORE in TYPES and not flags & RESERVED_FLAGS and length >= HEADER_SIZE
    return position + length if plausible else 0


def _walk(window: Window, file: int, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
    """The records from the beginning of the window; see pcap._walk."""
    new = tuple.__new__  # see pcap.frames
    everything, watched = scan_request.everything, scan_request.watched
    until = scan_request.until if watched else 0
    frame_filters: dict[int, FrameFilter] = defaultdict(
        lambda: FrameFilter(ERF.number, RECORD, HEADER_SIZE)
    )  # by record type
    usual, overhead, frame_filter = -1, 0, frame_filters[-1]  # the record type for which all is prepared
    unpack, shape_1, shape_2, gsi, qpn_at = (
        frame_filter.unpack,
        frame_filter.first,
        frame_filter.second,
        frame_filter.gsi,
        frame_filter.qpn_at,
    )
    data, view, position, size = window.data, window.view, 0, window.size
    number = cut = 0
    run_seconds = run_fraction = run_start = -1  # see `note_times`
    with Ending(window, info):
        try:
            while True:
                fraction, seconds, kind, high, low, wire_high, wire_low, field_1, field_2, qpn = unpack(data, position)
                length = high << 8 | low
                end = position + length
                if end > size or length < HEADER_SIZE:  # or the header itself is not at hand
                    if run_seconds >= 0:
                        note_times(info, run_start, _time(run_seconds, run_fraction))
                        run_seconds = -1
                    info.frames, info.cut_frames = number, cut
                    if scan_request.progress is not None:
                        scan_request.progress(number)
                    try:
                        if not _complete(window, position, info):
                            return
                    finally:
                        number, cut = info.frames, info.cut_frames
                    data, view, position, size = window.data, window.view, 0, window.size
                    continue
                if kind != usual:
                    if kind & ~MORE == PAD:
                        position = end
                        continue
                    if kind < MORE:
                        usual, overhead, frame_filter = kind, OVERHEAD[kind], frame_filters[kind]
                        unpack, shape_1, shape_2, qpn_at = (
                            frame_filter.unpack,
                            frame_filter.first,
                            frame_filter.second,
                            frame_filter.qpn_at,
                        )
                        continue
                    usual, overhead = -1, _overhead(data, position, kind, length)
                    field_1 = -1  # extension headers have no shape
                number += 1
                if seconds == run_seconds and fraction >= run_fraction:
                    run_fraction = fraction
                else:
                    if run_seconds >= 0:
                        note_times(info, run_start, _time(run_seconds, run_fraction))
                    run_start = _time(seconds, fraction)
                    run_seconds, run_fraction = (seconds, fraction) if run_start else (-1, -1)
                on_wire = (wire_high << 8 | wire_low) + overhead
                if on_wire > length:
                    cut += 1
                if field_1 == shape_1 and field_2 == shape_2:
                    if qpn != gsi and (
                        number > until or qpn_word(data, position + qpn_at)[0] & QPN_MASK not in watched
                    ):
                        position = end
                        continue
                elif not everything:
                    packet_end = min(end, position + on_wire)
                    wanted = frame_filter.wants(view[position:packet_end], number, watched if number <= until else ())
                    unpack, shape_1, shape_2, qpn_at = (
                        frame_filter.unpack,
                        frame_filter.first,
                        frame_filter.second,
                        frame_filter.qpn_at,
                    )
                    if not wanted:
                        position = end
                        continue
                packet = view[position : min(end, position + on_wire)].tobytes()
                position = end
                info.frames = number
                yield new(Frame, (file, number, _time(seconds, fraction), ERF.number, packet, on_wire, None, ""))
                until = scan_request.until if watched else 0
        finally:
            info.frames, info.cut_frames = number, cut
            if run_seconds >= 0:
                note_times(info, run_start, _time(run_seconds, run_fraction))


def _complete(window: Window, position: int, info: InputInfo) -> bool:
    """Let the record at data[position] be at hand, at data[0]. False when the file ends here; raises DamageError."""
    complete = window.more(position, HEADER_SIZE)
    number = info.frames + 1
    if not complete:
        if not window.size:
            return False
        raise DamageError(window.cut(0, HEADER_SIZE, f"the record header of frame {number}"))
    length = _header(window.data, 8)[2]
    if length < HEADER_SIZE:
        raise DamageError(
            f"damaged at {window.place(0)}: the record of frame {number} claims {length} bytes, "
            f"at least {HEADER_SIZE} expected"
        )
    if not window.more(0, length):
        raise DamageError(window.cut(0, length, f"the record of frame {number}"))
    return True


def _time(seconds: int, fraction: int) -> int:
    """ns, rounded to the nearest, as Wireshark rounds."""
    return seconds * 1_000_000_000 + (fraction * 1_000_000_000 + 0x8000_0000 >> 32)


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
