"""pcapng files (draft-ietf-opsawg-pcapng): sections, interfaces, and every kind of block that holds packets.

Frame numbers are Wireshark's: packet blocks count, and so do the few other blocks that it lists as records. Packets of
interfaces whose link type is not supported are counted, but not handed on: a capture of all interfaces of a host holds
many. An input that describes no supported interface at all is a SourceError at its end (see Capture); not earlier,
because an interface may be described anywhere. Simple packet blocks have no time: their frames repeat the time before
(0 at first). Section lengths are not needed, as blocks are walked one by one; unknown blocks and options are skipped.
As for Wireshark, a block whose two lengths differ, or a packet of an undescribed interface, ends what can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ibcmtool.analysis import InputInfo
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.input_end import note_times
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
from ibcmtool.sources.files.records import NO_RUN, UNKNOWN, Record, RecordReader
from ibcmtool.sources.files.scan import QPN_MASK, qpn_word
from ibcmtool.sources.files.streams import Window

MAGIC = b"\n\r\r\n"
PACKET: Final = 28  # where the packet begins in its block
NO_INDEX: Final = -1

Unpack = Callable[[bytearray, int], tuple[int, int, int, int, int, int, int, object, object, object, int]]
"""Type, length, interface, time in two halves, captured and wire length; the rest as in pcap."""

Word = Callable[[bytearray, int], tuple[int]]


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


class PcapngReader(RecordReader):
    """The packets of an input. Keeps info.link_types.

    All is prepared for one interface, that of the packet before. known: the blocks that were read so far, where the
    window is not at the beginning of the file.
    """

    def __init__(self, window: Window, file: int, info: InputInfo, known: Blocks | None = None) -> None:
        super().__init__(window, file, info, 0)
        self.blocks = Blocks(window, info, known)
        self._index, self._interface = NO_INDEX, NO_INTERFACE

    def next_record(self) -> Record | None:
        try:
            while True:
                record = self._next_of_interface() if self._index != NO_INDEX else None
                if record is not None:
                    return record
                block = self._next_block()
                if block is None:
                    return None
                kind, self.position, end = block
                if kind in PACKETS:
                    record = self._packet(kind, end)
                    if record is not None:
                        return record
                else:
                    self._other(kind, end)
        except MalformedError as error:
            raise DamageError(f"damaged at {self.window.place(self.position)}: {error}") from None

    def _next_of_interface(self) -> Record | None:
        """The next record as long as enhanced packet blocks of the interface come, whole and sound ones."""
        info, window, watched, current = self.info, self.window, self.scan_request.watched, self._index
        frame_filter, until = self.frame_filter, self.watched_until
        unpack: Unpack = frame_filter.unpack
        word: Word = self.blocks.layouts.word.unpack_from
        first, second, third = frame_filter.first, frame_filter.second, frame_filter.third
        qpn_at = frame_filter.qpn_at
        gsi: int = frame_filter.gsi
        data, size, position = window.data, window.size, self.position
        number, cut, run_high, run_low = info.frames, info.cut_frames, self.run_high, self.run_low
        while True:
            kind, length, index, high, low, captured, wire_length, field_1, field_2, field_3, qpn = unpack(
                data, position
            )
            end = position + length
            sound = (
                kind == ENHANCED_PACKET
                and index == current
                and end <= size
                and not length % 4
                and captured <= length - PACKET_SIZE
                and captured <= MAX_CAPTURED
                and word(data, end - 4)[0] == length
            )
            if (
                not sound
                or high != run_high
                or low < run_low
                or field_1 != first
                or field_2 != second
                or field_3 != third
                or qpn == gsi
                or (number < until and qpn_word(data, position + qpn_at)[0] & QPN_MASK in watched)
            ):
                break
            number += 1
            run_low = low
            if wire_length > captured:
                cut += 1
            position = end
        info.frames, info.cut_frames, self.run_low, self.position = number, cut, run_low, position
        if not sound:
            return None
        if high == run_high and low >= run_low:
            self.run_low = low
        else:
            self.begin_run(high, low)
        self.position = end
        time = window.last_time = self._interface.time(high, low)
        known = field_1 == first and field_2 == second and field_3 == third
        qpn = qpn_word(data, position + qpn_at)[0] & QPN_MASK if known else UNKNOWN
        return time, position + PACKET, position + PACKET + captured, wire_length, qpn

    def _next_block(self) -> tuple[int, int, int] | None:
        """Of any kind, as Blocks.complete gives it."""
        self.end_run()
        offset = self.window.offset
        block = self.blocks.complete(self.window, self.position)
        if self.window.offset != offset:
            self.show_progress()
        return block

    def _packet(self, kind: int, end: int) -> Record | None:
        """A packet of another interface or in a block of another kind. None: it is passed over, or can be read now."""
        window = self.window
        index, ticks, begin, captured, wire_length = self.blocks.packet(window.data, kind, self.position, end)
        interface = self.blocks.interfaces[index]
        if interface.frame_filter is not None:
            self._index, self._interface = index, interface
            self.link_type, self.frame_filter = interface.link_type, interface.frame_filter
            if kind == ENHANCED_PACKET:
                return None
        self.position = end
        if ticks is not None:
            window.last_time = interface.time(*ticks)
        elif window.last_time is None:  # the first packet of the file, or of what a prescan walks
            window.changed()
            window.last_time = 0
        if interface.frame_filter is None:
            self.info.frames += 1
            return None
        time = window.last_time
        note_times(self.info, time, time)
        return time, begin, begin + captured, wire_length, UNKNOWN

    def _other(self, kind: int, end: int) -> None:
        """A block that holds no packet."""
        self.blocks.other(self.window, kind, self.position, end)
        if kind == SECTION:
            self._index = NO_INDEX
        self.info.frames += kind in NUMBERED
        self.position = end

    def end_run(self) -> None:
        if self.run_high != NO_RUN:
            self.window.last_time = self.time(self.run_high, self.run_low)
        super().end_run()

    def time(self, high: int, low: int) -> int:
        return self._interface.time(high, low)

    def elsewhere(self, window: Window, info: InputInfo) -> PcapngReader:
        return PcapngReader(window, self.file, info, self.blocks)

    def follow(self, window: Window, position: int, time: int) -> int:
        return self.blocks.follow(window, position)
