"""Classic pcap files (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds.

Read as libpcap and Wireshark read them: only version 2.4 (older ones disagree on the order of the length fields), and
no record longer than 262144 bytes, whatever snap length the file header claims. Link type 197 frames keep the time of
their pcap record; Wireshark shows that of the ERF header inside, which may differ by some microseconds.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ibcmtool.model import Frame
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.input_end import Ending, note_times
from ibcmtool.sources.files.prescan import NEAR, employ
from ibcmtool.sources.files.scan import QPN_MASK, FrameFilter, qpn_word
from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibcmtool.model import InputInfo
    from ibcmtool.sources.files.scan import ScanRequest
    from ibcmtool.sources.files.streams import Window

# First four bytes: byte order, and nanoseconds per unit of the time's second half.
MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
HEADER_SIZE = 24
RECORD_SIZE = 16  # header of a record
MAX_CAPTURED = 262144  # libpcap's MAXIMUM_SNAPLEN, Wireshark's WTAP_MAX_PACKET_SIZE_STANDARD
LINK_TYPE_MASK = 0x03FFFFFF  # the bits above tell of a frame check sequence
LONGEST = 1 << 20  # bytes of a packet on the wire, where a record is to be recognised


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


def frames(window: Window, header: Header, file: int, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
    """The records behind the file header, as far as they are wanted."""

    def from_start(window: Window, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
        return _walk(window, header, file, info, scan_request, 0)

    window = employ(window, info, scan_request, from_start, partial(_follow, header))
    return _walk(window, header, file, info, scan_request, HEADER_SIZE)


def _follow(header: Header, window: Window, position: int, time: int) -> int:
    """See prescan.employ."""
    seconds, fraction, captured, wire_length = Struct(header.byte_order + "IIII").unpack_from(window.data, position)
    near = -NEAR < seconds - time // 1_000_000_000 < NEAR
    plausible = near and fraction * header.scale < 1_000_000_000 and captured <= wire_length <= LONGEST
    return position + RECORD_SIZE + captured if plausible else 0


def _walk(
    window: Window, header: Header, file: int, info: InputInfo, scan_request: ScanRequest, position: int
) -> Iterator[Frame]:
    """The records from data[position] of the window on.

    Whenever more is to be read, `info` is up to date, and what the window adds to it is counted.
    """
    new = tuple.__new__  # Frame(...) takes twice as long
    scale, link_type = header.scale, header.link_type
    everything, watched = scan_request.everything, scan_request.watched
    until = scan_request.until if watched else 0
    frame_filter = FrameFilter(link_type, header.byte_order + "IIII")
    unpack, shape_1, shape_2, gsi, qpn_at = (
        frame_filter.unpack,
        frame_filter.first,
        frame_filter.second,
        frame_filter.gsi,
        frame_filter.qpn_at,
    )
    data, view, size = window.data, window.view, window.size
    number = cut = 0
    run_seconds = run_fraction = run_start = -1  # see `note_times`
    second = 0  # when the second of the frame at hand began
    with Ending(window, info):
        try:
            while True:
                seconds, fraction, captured, wire_length, field_1, field_2, qpn = unpack(data, position)
                end = position + captured + RECORD_SIZE
                if end > size or captured > MAX_CAPTURED:  # where the header itself is not at hand, end > size as well
                    if run_seconds >= 0:
                        note_times(info, run_start, run_seconds * 1_000_000_000 + run_fraction * scale)
                        run_seconds = -1
                    info.frames, info.cut_frames = number, cut
                    if scan_request.progress is not None:
                        scan_request.progress(number)
                    try:
                        if not _complete(window, position, info, unpack):
                            return
                    finally:
                        number, cut = info.frames, info.cut_frames
                    data, view, position, size = window.data, window.view, 0, window.size
                    continue
                number += 1
                if seconds == run_seconds and fraction >= run_fraction:
                    run_fraction = fraction
                else:
                    if run_seconds >= 0:
                        note_times(info, run_start, run_seconds * 1_000_000_000 + run_fraction * scale)
                    second = seconds * 1_000_000_000
                    run_start = second + fraction * scale
                    run_seconds, run_fraction = (seconds, fraction) if run_start else (-1, -1)
                if wire_length > captured:
                    cut += 1
                if field_1 == shape_1 and field_2 == shape_2:
                    if qpn != gsi and (
                        number > until or qpn_word(data, position + qpn_at)[0] & QPN_MASK not in watched
                    ):
                        position = end
                        continue
                elif not everything:
                    wanted = frame_filter.wants(
                        view[position + RECORD_SIZE : end], number, watched if number <= until else ()
                    )
                    unpack, shape_1, shape_2, qpn_at = (
                        frame_filter.unpack,
                        frame_filter.first,
                        frame_filter.second,
                        frame_filter.qpn_at,
                    )
                    if not wanted:
                        position = end
                        continue
                time = second + fraction * scale
                packet = view[position + RECORD_SIZE : end].tobytes()
                position = end
                info.frames = number
                yield new(Frame, (file, number, time, link_type, packet, wire_length, None, ""))
                until = scan_request.until if watched else 0
        finally:
            info.frames, info.cut_frames = number, cut
            if run_seconds >= 0:
                note_times(info, run_start, run_seconds * 1_000_000_000 + run_fraction * scale)


def _complete(window: Window, position: int, info: InputInfo, unpack: Callable[..., tuple[Any, ...]]) -> bool:
    """Let the record at data[position] be at hand, at data[0]. False when the file ends here; raises DamageError."""
    complete = window.more(position, RECORD_SIZE)
    number = info.frames + 1
    if not complete:
        if not window.size:
            return False
        raise DamageError(window.cut(0, RECORD_SIZE, f"the record header of frame {number}"))
    captured = unpack(window.data)[2]
    if captured > MAX_CAPTURED:
        raise DamageError(
            f"damaged at {window.place(0)}: the record of frame {number} claims {captured} captured bytes, "
            f"at most {MAX_CAPTURED} expected"
        )
    if not window.more(0, RECORD_SIZE + captured):
        raise DamageError(window.cut(0, RECORD_SIZE + captured, f"the record of frame {number}"))
    return True
