"""The blocks of a pcapng file: completing one, checking its lengths, and what it says of the packets that follow."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from struct import Struct
from typing import Final, NamedTuple

from ibcmtool.analysis import InputInfo
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.pcap import MAX_CAPTURED
from ibcmtool.sources.files.scan import FrameFilter
from ibcmtool.sources.files.streams import Window
from ibcmtool.wire.links import LINK_TYPES

SECTION = 0x0A0D0D0A
INTERFACE = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
STATISTICS = 5  # of one interface, from its beginning until then
ENHANCED_PACKET: Final = 6
# Not packets, but records with a frame number in Wireshark: systemd journal, custom, and sysdig's event blocks.
NUMBERED = frozenset({9, 0x0BAD, 0x40000BAD, 0x204, 0x216, 0x221})

SECTION_SIZE = 28  # of blocks without options
PACKET_SIZE: Final = 32
STATISTICS_SIZE = 24
MIN_BLOCK = 12
MINIMUM = {
    SECTION: SECTION_SIZE,
    INTERFACE: 20,
    OBSOLETE_PACKET: PACKET_SIZE,
    SIMPLE_PACKET: 16,
    ENHANCED_PACKET: PACKET_SIZE,
}
MAX_BLOCK = 1 << 24  # of these kinds, the only ones that are held in memory at any length; Wireshark's limit

PACKETS = frozenset({OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET})

OPTION_END = 0
IF_TSRESOL = 9
IF_TSOFFSET = 14
ISB_IFDROP, ISB_OSDROP = 5, 7


class Interface(NamedTuple):
    """How to read the packets of an interface: ns since the epoch = ticks * multiplier // divisor + shift."""

    link_type: int
    frame_filter: FrameFilter | None  # None where the link type is not supported
    snap_length: int
    multiplier: int
    divisor: int
    shift: int

    def time(self, high: int, low: int) -> int:
        return (high << 32 | low) * self.multiplier // self.divisor + self.shift


NO_INTERFACE = Interface(0, None, 0, 0, 1, 0)


class Layouts:
    """The structures of a section, in its byte order."""

    def __init__(self, byte_order: str) -> None:
        # Type, length, interface, time high, time low, captured, length on the wire.
        self.packet_header = byte_order + "IIIIIII"
        self.packet = Struct(self.packet_header)
        self.obsolete = Struct(byte_order + "IIHxxIIII")  # the same; the hole counts drops
        self.word = Struct(byte_order + "I")
        self.version = Struct(byte_order + "HH")  # major, minor
        self.interface = Struct(byte_order + "HxxI")  # link type, snap length
        self.option = Struct(byte_order + "HH")  # code, length
        self.seconds = Struct(byte_order + "q")  # of if_tsoffset
        self.count = Struct(byte_order + "Q")  # of packets, in statistics


LAYOUTS = {b"\x4d\x3c\x2b\x1a": Layouts("<"), b"\x1a\x2b\x3c\x4d": Layouts(">")}


class MalformedError(Exception):
    """A block breaks the format. Who catches it knows where the block lies."""


class Blocks:
    """The blocks of a file one by one, and what they say of the packets that follow."""

    def __init__(self, window: Window, info: InputInfo, known: Blocks | None = None) -> None:
        """window: at the beginning of the file; known: what was found there, where the window is elsewhere."""
        self._info = info
        self.layouts: Layouts = section_layouts(window.data, 0) if known is None else known.layouts
        self.interfaces: list[Interface] = [] if known is None else known.interfaces.copy()
        self._frame_filters: dict[int, FrameFilter] = {}  # by link type
        self._dropped: dict[tuple[int, int], int] = {}  # packets, by section and interface
        self._section = 0

    def complete(self, window: Window, position: int) -> tuple[int, int, int] | None:
        """Let the block at data[position] be at hand: its type, and where it begins and ends. None at the file's end.

        Of a block that is too long to hold only the end is at hand. Raises DamageError.
        """
        header_at_hand = position + PACKET_SIZE <= window.size
        if not header_at_hand or position + self.layouts.word.unpack_from(window.data, position + 4)[0] > window.size:
            window.more(position, PACKET_SIZE)
            position = 0
            if not window.size:
                return None
            if window.size < MIN_BLOCK:
                raise DamageError(window.cut(0, MIN_BLOCK, "the block"))
        try:
            (kind,) = self.layouts.word.unpack_from(window.data, position)
            if kind == SECTION:  # reads the same in both byte orders; what follows does not
                self.layouts = section_layouts(window.data, position)
            (length,) = self.layouts.word.unpack_from(window.data, position + 4)
            minimum = MINIMUM.get(kind, MIN_BLOCK)
            if length < minimum or length % 4:
                expected = f"a multiple of 4 from {minimum} on expected"
                raise MalformedError(f"block of type {kind:#x} claims {length} bytes, {expected}")
            if position + length > window.size:
                if length > MAX_BLOCK and kind in MINIMUM:
                    raise MalformedError(f"block of type {kind:#x} claims {length} bytes, at most {MAX_BLOCK} expected")
                if length > MAX_BLOCK:
                    end = _skip(window, position, length)
                    return kind, end, end
                if not window.more(position, length):
                    raise DamageError(window.cut(0, length, "the block"))
                position = 0
            end = position + length
            (again,) = self.layouts.word.unpack_from(window.data, end - 4)
            if again != length:
                raise MalformedError(_lengths_differ(length))
        except MalformedError as error:
            raise DamageError(f"damaged at {window.place(position)}: {error}") from None
        return kind, position, end

    def follow(self, window: Window, position: int) -> int:
        """See RecordReader."""
        (length,) = self.layouts.word.unpack_from(window.data, position + 4)
        end = position + length
        if (window.offset + position) % 4 or length < MIN_BLOCK or end > window.size:
            return 0
        return end if self.layouts.word.unpack_from(window.data, end - 4)[0] == length else 0

    def packet(
        self, data: bytearray, kind: int, position: int, end: int
    ) -> tuple[int, tuple[int, int] | None, int, int, int]:
        """A packet block: interface, both halves of its time, where the packet begins, captured and wire length."""
        ticks: tuple[int, int] | None = None
        if kind == SIMPLE_PACKET:
            index, begin = 0, position + 12
            (wire_length,) = self.layouts.word.unpack_from(data, position + 8)
        else:
            layout = self.layouts.obsolete if kind == OBSOLETE_PACKET else self.layouts.packet
            _, _, index, high, low, captured, wire_length = layout.unpack_from(data, position)
            ticks, begin = (high, low), position + 28
        if index >= len(self.interfaces):
            raise MalformedError(f"packet of interface {index}, but {len(self.interfaces)} described")
        if kind == SIMPLE_PACKET:
            captured = min(wire_length, self.interfaces[0].snap_length or wire_length)
        if captured > MAX_CAPTURED or begin + captured > end - 4:
            limit = min(MAX_CAPTURED, end - 4 - begin)
            raise MalformedError(f"packet claims {captured} captured bytes, at most {limit} expected")
        return index, ticks, begin, captured, wire_length

    def other(self, window: Window, kind: int, position: int, end: int) -> None:
        """A block that holds no packet."""
        if kind in (SECTION, INTERFACE, STATISTICS):
            window.changed()
        if kind == STATISTICS and end - position >= STATISTICS_SIZE:
            (index,) = self.layouts.word.unpack_from(window.data, position + 8)
            options = _options(window.data, position + 20, end - 4, self.layouts)
            drops = [value for code, value in options if code in (ISB_IFDROP, ISB_OSDROP) and len(value) == 8]
            self._dropped[self._section, index] = sum(self.layouts.count.unpack(value)[0] for value in drops)
            self._info.dropped = sum(self._dropped.values())
        elif kind == SECTION:
            self._section += 1
            check_version(window.data, position, self.layouts)
            self.interfaces, self._frame_filters = [], {}
        elif kind == INTERFACE:
            link_type, snap_length, *time = _interface(window.data, position, end, self.layouts)
            if link_type not in self._frame_filters and link_type in LINK_TYPES:
                self._frame_filters[link_type] = FrameFilter(link_type, self.layouts.packet_header)
            self.interfaces.append(Interface(link_type, self._frame_filters.get(link_type), snap_length, *time))
            if link_type not in self._info.link_types:
                self._info.link_types.append(link_type)


def section_layouts(data: bytearray, position: int) -> Layouts:
    """The byte order of a section, by its header. Raises MalformedError."""
    magic = bytes(data[position + 8 : position + 12])
    if magic not in LAYOUTS:
        raise MalformedError(f"section header without byte-order magic, {magic.hex(' ')} found")
    return LAYOUTS[magic]


def check_version(data: bytearray, position: int, layouts: Layouts) -> None:
    """Raise MalformedError unless a section is of version 1."""
    major, minor = layouts.version.unpack_from(data, position + 12)
    if major != 1:
        raise MalformedError(f"pcapng version {major}.{minor} is not supported, 1.0 expected")


def _interface(data: bytearray, position: int, end: int, layouts: Layouts) -> tuple[int, int, int, int, int]:
    """Link type, snap length, multiplier, divisor, shift."""
    link_type, snap_length = layouts.interface.unpack_from(data, position + 8)
    units, shift = 1_000_000, 0
    for code, value in _options(data, position + 16, end - 4, layouts):
        if code == IF_TSRESOL and len(value) == 1:
            exponent = value[0] & 0x7F
            units = 1 << exponent if value[0] & 0x80 else 10**exponent
        elif code == IF_TSOFFSET and len(value) == 8:
            (seconds,) = layouts.seconds.unpack(value)
            shift = seconds * 1_000_000_000
    common = gcd(1_000_000_000, units)
    return link_type, snap_length, 1_000_000_000 // common, units // common, shift


def _options(data: bytearray, position: int, end: int, layouts: Layouts) -> Iterator[tuple[int, bytes]]:
    """Code and value of each option between these positions. Raises MalformedError."""
    while position + 4 <= end:
        code, size = layouts.option.unpack_from(data, position)
        if code == OPTION_END:
            break
        position += 4
        if position + size > end:
            raise MalformedError(f"option {code} claims {size} bytes, its block has {end - position} left")
        yield code, bytes(data[position : position + size])
        position += size + -size % 4


def _skip(window: Window, position: int, length: int) -> int:
    """Pass over a block that is too long to hold. Returns the position of what follows."""
    window.more(position, MIN_BLOCK)
    stated = window.data[4:8]  # a copy
    begin = window.offset
    window.skip(length - 4)
    if not window.more(0, 4):
        raise DamageError(window.cut(begin - window.offset, length, "the block"))
    if window.data[:4] != stated:
        raise DamageError(f"damaged at offset {begin}: {_lengths_differ(length)}")
    return 4


def _lengths_differ(length: int) -> str:
    return f"block length {length} is not repeated at the block's end"
