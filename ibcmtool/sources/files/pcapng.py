"""pcapng files (draft-ietf-opsawg-pcapng): sections, interfaces, and every kind of block that holds packets.

Frame numbers are Wireshark's: packet blocks count, and so do the few other blocks that it lists as records. Packets of
interfaces whose link type is not supported are counted, but not handed on: a capture of all interfaces of a host holds
many. An input that describes no supported interface at all is a SourceError at its end (see Capture); not earlier,
because an interface may be described anywhere. Simple packet blocks have no time: their frames repeat the time before
(0 at first). Section lengths are not needed, as blocks are walked one by one; unknown blocks and options are skipped.
As for Wireshark, a block whose two lengths differ, or a packet of an undescribed interface, ends what can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibcmtool.model import Frame
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.input_end import Ending, note_times
from ibcmtool.sources.files.pcap import MAX_CAPTURED
from ibcmtool.sources.files.pcapng_blocks import (
    ENHANCED_PACKET,
    NO_INTERFACE,
    NUMBERED,
    PACKET_SIZE,
    PACKETS,
    SECTION,
    SECTION_SIZE,
    Blocks,
    MalformedError,
    check_version,
    section_layouts,
)
from ibcmtool.sources.files.prescan import employ
from ibcmtool.sources.files.scan import QPN_MASK, qpn_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.model import InputInfo
    from ibcmtool.sources.files.scan import FrameFilter, ScanRequest
    from ibcmtool.sources.files.streams import Window

MAGIC = b"\n\r\r\n"
PACKET = 28  # where the packet begins in its block


def check(window: Window) -> None:
    """Check the section header at the start of the file. Raises SourceError: cut short, damaged, unknown version."""
    again = "copy or capture the file again"
    if not window.more(0, SECTION_SIZE):
        found = window.size
        raise window.refusal(f"pcapng section header cut short: {SECTION_SIZE} bytes expected, {found} found", again)
    try:
        check_version(window.data, 0, section_layouts(window.data, 0))
    except MalformedError as error:
        raise window.refusal(str(error), again) from None


def frames(window: Window, file: int, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
    """The packets from the beginning of the window, as far as they are wanted. Keeps info.link_types."""

    def from_here(window: Window, info: InputInfo, scan_request: ScanRequest) -> Iterator[Frame]:
        return _walk(window, file, info, scan_request, Blocks(window, info, blocks))

    window = employ(window, info, scan_request, from_here, lambda *place: blocks.follow(*place))
    blocks = Blocks(window, info)
    return _walk(window, file, info, scan_request, blocks)


def _walk(window: Window, file: int, info: InputInfo, scan_request: ScanRequest, blocks: Blocks) -> Iterator[Frame]:
    """The packets from the beginning of the window on; see pcap._walk."""
    new = tuple.__new__  # see pcap.frames
    everything, watched = scan_request.everything, scan_request.watched
    until = scan_request.until if watched else 0
    unpack, unpack_word = blocks.unpack, blocks.layouts.word.unpack_from
    # The interface for which all is prepared: its number, itself, and what is in it.
    current, interface = -1, NO_INTERFACE
    frame_filter: FrameFilter  # of the interface
    link_type, _, _, multiplier, divisor, shift = interface
    shape_1, shape_2, gsi, qpn_at = None, None, -1, 0
    data, view, position, size = window.data, window.view, 0, window.size
    number = cut = 0
    run_high = run_low = run_start = -1  # see `note_times`
    last_time = window.last_time  # of the last packet, unless it is in a run
    with Ending(window, info):
        try:
            while True:
                kind, length, index, high, low, captured, wire_length, field_1, field_2, qpn = unpack(data, position)
                end = position + length
                if (
                    kind != ENHANCED_PACKET
                    or index != current
                    or end > size
                    or length % 4
                    or captured > length - PACKET_SIZE
                    or captured > MAX_CAPTURED
                    or unpack_word(data, end - 4)[0] != length
                ):
                    if run_high >= 0:
                        last_time = interface.time(run_high, run_low)
                        note_times(info, run_start, last_time)
                        run_high = -1
                    interfaces = blocks.interfaces
                    if kind == ENHANCED_PACKET and index != current and index < len(interfaces):
                        chosen = interfaces[index]
                        if chosen.frame_filter is not None:
                            current, interface, frame_filter = index, chosen, chosen.frame_filter
                            link_type, _, _, multiplier, divisor, shift = interface
                            unpack, shape_1, shape_2 = frame_filter.unpack, frame_filter.first, frame_filter.second
                            qpn_at, gsi = frame_filter.qpn_at, frame_filter.gsi
                            continue
                    if scan_request.progress is not None and end > size:
                        scan_request.progress(number)
                    info.frames, info.cut_frames, window.last_time = number, cut, last_time
                    try:
                        block = blocks.complete(position)
                    finally:
                        number, cut, last_time = info.frames, info.cut_frames, window.last_time
                    data, view, size = window.data, window.view, window.size
                    if block is None:
                        return
                    kind, position, end = block
                    if kind not in PACKETS:
                        blocks.other(position, kind, end)
                        if kind == SECTION:
                            current, unpack, unpack_word = -1, blocks.unpack, blocks.layouts.word.unpack_from
                        number += kind in NUMBERED
                        position = end
                        continue
                    index, ticks, begin, captured, wire_length = blocks.packet(position, kind, end)
                    chosen = blocks.interfaces[index]
                    if kind == ENHANCED_PACKET and chosen.frame_filter is not None:
                        continue
                    if ticks is not None:
                        last_time = chosen.time(*ticks)
                    elif last_time is None:  # the first packet of the file, or of what a scout walks
                        window.changed()
                        last_time = 0
                    number += 1
                    position = end
                    if chosen.frame_filter is None:
                        continue
                    cut += wire_length > captured
                    note_times(info, last_time or 0, last_time or 0)
                    frame = view[begin : begin + captured]
                    if everything or chosen.frame_filter.wants(frame, number, watched if number <= until else ()):
                        info.frames = number
                        yield Frame(file, number, last_time or 0, chosen.link_type, frame.tobytes(), wire_length)
                        until = scan_request.until if watched else 0
                    continue
                number += 1
                if high == run_high and low >= run_low:
                    run_low = low
                else:
                    if run_high >= 0:
                        note_times(info, run_start, interface.time(run_high, run_low))
                    last_time = run_start = interface.time(high, low)
                    run_high, run_low = (high, low) if run_start else (-1, -1)
                if wire_length > captured:
                    cut += 1
                if field_1 == shape_1 and field_2 == shape_2:
                    if qpn != gsi and (
                        number > until or qpn_word(data, position + qpn_at)[0] & QPN_MASK not in watched
                    ):
                        position = end
                        continue
                elif not everything:
                    begin = position + PACKET
                    wanted = frame_filter.wants(
                        view[begin : begin + captured], number, watched if number <= until else ()
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
                time = (high << 32 | low) * multiplier  # as Interface.time does, without the call
                if divisor != 1:
                    time //= divisor
                packet = view[position + PACKET : position + PACKET + captured].tobytes()
                position = end
                info.frames = number
                yield new(Frame, (file, number, time + shift, link_type, packet, wire_length, None, ""))
                until = scan_request.until if watched else 0
        except MalformedError as error:
            raise DamageError(f"damaged at {window.place(position)}: {error}") from None
        finally:
            info.frames, info.cut_frames = number, cut
            if run_high >= 0:
                note_times(info, run_start, interface.time(run_high, run_low))
