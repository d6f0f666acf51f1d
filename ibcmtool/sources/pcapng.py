"""pcapng files (draft-ietf-opsawg-pcapng): sections, interfaces, and every kind of block that holds packets.

Frame numbers are Wireshark's: packet blocks count, and so do the few other blocks that it lists as records. Packets of
interfaces whose link type is not supported are counted, but not handed on: a capture of all interfaces of a host holds
many. An input that describes no supported interface at all is a SourceError at its end (see Capture); not earlier,
because an interface may be described anywhere. Simple packet blocks have no time: their frames repeat the time before
(0 at first). Section lengths are not needed, as blocks are walked one by one; unknown blocks and options are skipped.
As for Wireshark, a block whose two lengths differ, or a packet of an undescribed interface, ends what can be read.
"""

from __future__ import annotations

from math import gcd
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ibcmtool.model import Frame
from ibcmtool.sources import link_types
from ibcmtool.sources.ending import Ending, note_times
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.pcap import MAX_CAPTURED
from ibcmtool.sources.scan import QPN_MASK, Sieve, qpn_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibcmtool.model import InputInfo
    from ibcmtool.sources.scan import Attention
    from ibcmtool.sources.streams import Window

SECTION = 0x0A0D0D0A
INTERFACE = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
ENHANCED_PACKET = 6
# Not packets, but records with a frame number in Wireshark: systemd journal, custom, and sysdig's event blocks.
NUMBERED = frozenset({9, 0x0BAD, 0x40000BAD, 0x204, 0x216, 0x221})

MAGIC = b"\n\r\r\n"
SECTION_SIZE = 28  # of blocks without options
PACKET_SIZE = 32
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


class Interface(NamedTuple):
    """How to read the packets of an interface: ns since the epoch = ticks * multiplier // divisor + shift."""

    link_type: int
    sieve: Sieve | None  # None where the link type is not supported
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


LAYOUTS = {b"\x4d\x3c\x2b\x1a": Layouts("<"), b"\x1a\x2b\x3c\x4d": Layouts(">")}


class _MalformedError(Exception):
    """A block breaks the format. Who catches it knows where the block lies."""


def check(window: Window) -> None:
    """Check the section header at the start of the file. Raises SourceError: cut short, damaged, unknown version."""
    again = "copy or capture the file again"
    if not window.more(0, SECTION_SIZE):
        found = window.size
        raise window.refusal(f"pcapng section header cut short: {SECTION_SIZE} bytes expected, {found} found", again)
    try:
        _check_version(window.data, 0, _section(window.data, 0))
    except _MalformedError as error:
        raise window.refusal(str(error), again) from None


def frames(window: Window, file: int, info: InputInfo, attention: Attention) -> Iterator[Frame]:
    """The packets from the beginning of the window, as far as they are wanted. Keeps info.link_types."""
    new = tuple.__new__  # see pcap.frames
    everything, watched = attention.everything, attention.watched
    until = attention.until if watched else 0
    blocks = _Blocks(window, info)
    unpack, unpack_word = blocks.unpack, blocks.layouts.word.unpack_from
    # The interface for which all is prepared: its number, itself, and what is in it.
    current, interface = -1, NO_INTERFACE
    sieve: Sieve  # of the interface
    link_type, _, _, multiplier, divisor, shift = interface
    shape_1, shape_2, gsi, qpn_at = None, None, -1, 0
    data, view, position, size = window.data, window.view, 0, window.size
    number = cut = 0
    run_high = run_low = run_start = -1  # see `note_times`
    last_time = 0  # of the last packet, unless it is in a run
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
                        if chosen.sieve is not None:
                            current, interface, sieve = index, chosen, chosen.sieve
                            link_type, _, _, multiplier, divisor, shift = interface
                            unpack, shape_1, shape_2 = sieve.unpack, sieve.first, sieve.second
                            qpn_at, gsi = sieve.qpn_at, sieve.gsi
                            continue
                    info.frames = number
                    if attention.progress is not None and end > size:
                        attention.progress(number)
                    block = blocks.complete(position)
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
                    if kind == ENHANCED_PACKET and chosen.sieve is not None:
                        continue
                    number += 1
                    if ticks is not None:
                        last_time = chosen.time(*ticks)
                    position = end
                    if chosen.sieve is None:
                        continue
                    cut += wire_length > captured
                    note_times(info, last_time, last_time)
                    frame = view[begin : begin + captured]
                    if everything or chosen.sieve.wants(frame, number, watched if number <= until else ()):
                        info.frames = number
                        yield Frame(file, number, last_time, chosen.link_type, frame.tobytes(), wire_length)
                        until = attention.until if watched else 0
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
                    begin = position + 28
                    wanted = sieve.wants(view[begin : begin + captured], number, watched if number <= until else ())
                    unpack, shape_1, shape_2, qpn_at = sieve.unpack, sieve.first, sieve.second, sieve.qpn_at
                    if not wanted:
                        position = end
                        continue
                time = (high << 32 | low) * multiplier  # as Interface.time does, without the call
                if divisor != 1:
                    time //= divisor
                packet = view[position + 28 : position + 28 + captured].tobytes()
                position = end
                info.frames = number
                yield new(Frame, (file, number, time + shift, link_type, packet, wire_length))
                until = attention.until if watched else 0
        except _MalformedError as error:
            raise DamageError(f"damaged at {window.place(position)}: {error}") from None
        finally:
            info.frames, info.cut_frames = number, cut
            if run_high >= 0:
                note_times(info, run_start, interface.time(run_high, run_low))


class _Blocks:
    """The blocks of a file one by one, and what they say of the packets that follow."""

    def __init__(self, window: Window, info: InputInfo) -> None:
        self._window = window
        self._info = info
        self.layouts = _section(window.data, 0)
        self.interfaces: list[Interface] = []
        self._sieves: dict[int, Sieve] = {}  # by link type

    @property
    def unpack(self) -> Callable[..., tuple[Any, ...]]:
        """Reads a packet block as the `unpack` of a sieve that knows no shape."""
        return Struct(self.layouts.packet_header + "BBH").unpack_from

    def complete(self, position: int) -> tuple[int, int, int] | None:
        """Let the block at data[position] be at hand: its type, and where it begins and ends. None at the file's end.

        Of a block that is too long to hold only the end is at hand. Raises DamageError.
        """
        window = self._window
        if position + PACKET_SIZE > window.size:
            window.more(position, PACKET_SIZE)
            position = 0
            if not window.size:
                return None
            if window.size < MIN_BLOCK:
                raise DamageError(window.cut(0, MIN_BLOCK, "the block"))
        try:
            (kind,) = self.layouts.word.unpack_from(window.data, position)
            if kind == SECTION:  # reads the same in both byte orders; what follows does not
                self.layouts = _section(window.data, position)
            (length,) = self.layouts.word.unpack_from(window.data, position + 4)
            minimum = MINIMUM.get(kind, MIN_BLOCK)
            if length < minimum or length % 4:
                expected = f"a multiple of 4 from {minimum} on expected"
                raise _MalformedError(f"block of type {kind:#x} claims {length} bytes, {expected}")
            if position + length > window.size:
                if length > MAX_BLOCK and kind in MINIMUM:
                    raise _MalformedError(
                        f"block of type {kind:#x} claims {length} bytes, at most {MAX_BLOCK} expected"
                    )
                if length > MAX_BLOCK:
                    end = _skip(window, position, length)
                    return kind, end, end
                if not window.more(position, length):
                    raise DamageError(window.cut(0, length, "the block"))
                position = 0
            end = position + length
            (again,) = self.layouts.word.unpack_from(window.data, end - 4)
            if again != length:
                raise _MalformedError(_lengths_differ(length))
        except _MalformedError as error:
            raise DamageError(f"damaged at {window.place(position)}: {error}") from None
        return kind, position, end

    def packet(self, position: int, kind: int, end: int) -> tuple[int, tuple[int, int] | None, int, int, int]:
        """A packet block: interface, both halves of its time, where the packet begins, captured and wire length."""
        data = self._window.data
        ticks: tuple[int, int] | None = None
        if kind == SIMPLE_PACKET:
            index, begin = 0, position + 12
            (wire_length,) = self.layouts.word.unpack_from(data, position + 8)
        else:
            layout = self.layouts.obsolete if kind == OBSOLETE_PACKET else self.layouts.packet
            _, _, index, high, low, captured, wire_length = layout.unpack_from(data, position)
            ticks, begin = (high, low), position + 28
        if index >= len(self.interfaces):
            raise _MalformedError(f"packet of interface {index}, but {len(self.interfaces)} described")
        if kind == SIMPLE_PACKET:
            captured = min(wire_length, self.interfaces[0].snap_length or wire_length)
        if captured > MAX_CAPTURED or begin + captured > end - 4:
            limit = min(MAX_CAPTURED, end - 4 - begin)
            raise _MalformedError(f"packet claims {captured} captured bytes, at most {limit} expected")
        return index, ticks, begin, captured, wire_length

    def other(self, position: int, kind: int, end: int) -> None:
        """A block that holds no packet."""
        if kind == SECTION:
            _check_version(self._window.data, position, self.layouts)
            self.interfaces, self._sieves = [], {}
        elif kind == INTERFACE:
            link_type, snap_length, *time = _interface(self._window.data, position, end, self.layouts)
            if link_type not in self._sieves and link_type in link_types.SUPPORTED:
                self._sieves[link_type] = Sieve(link_type, self.layouts.packet_header)
            self.interfaces.append(Interface(link_type, self._sieves.get(link_type), snap_length, *time))
            if link_type not in self._info.link_types:
                self._info.link_types.append(link_type)


def _section(data: bytearray, position: int) -> Layouts:
    magic = bytes(data[position + 8 : position + 12])
    if magic not in LAYOUTS:
        raise _MalformedError(f"section header without byte-order magic, {magic.hex(' ')} found")
    return LAYOUTS[magic]


def _check_version(data: bytearray, position: int, layouts: Layouts) -> None:
    major, minor = layouts.version.unpack_from(data, position + 12)
    if major != 1:
        raise _MalformedError(f"pcapng version {major}.{minor} is not supported, 1.0 expected")


def _interface(data: bytearray, position: int, end: int, layouts: Layouts) -> tuple[int, int, int, int, int]:
    """Link type, snap length, multiplier, divisor, shift."""
    link_type, snap_length = layouts.interface.unpack_from(data, position + 8)
    units, shift = 1_000_000, 0
    position += 16
    end -= 4
    while position + 4 <= end:
        code, size = layouts.option.unpack_from(data, position)
        if code == OPTION_END:
            break
        position += 4
        if position + size > end:
            raise _MalformedError(f"option {code} claims {size} bytes, its block has {end - position} left")
        if code == IF_TSRESOL and size == 1:
            exponent = data[position] & 0x7F
            units = 1 << exponent if data[position] & 0x80 else 10**exponent
        elif code == IF_TSOFFSET and size == 8:
            (seconds,) = layouts.seconds.unpack_from(data, position)
            shift = seconds * 1_000_000_000
        position += size + -size % 4
    common = gcd(1_000_000_000, units)
    return link_type, snap_length, 1_000_000_000 // common, units // common, shift


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
