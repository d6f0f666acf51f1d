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
from typing import TYPE_CHECKING, NamedTuple

from ibcmtool.model import Frame
from ibcmtool.sources import link_types
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.pcap import MAX_CAPTURED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.model import InputInfo
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

OPTION_END = 0
IF_TSRESOL = 9
IF_TSOFFSET = 14


class Interface(NamedTuple):
    """How to read the packets of an interface: ns since the epoch = ticks * multiplier // divisor + shift."""

    link_type: int
    supported: bool
    snap_length: int
    multiplier: int
    divisor: int
    shift: int


class Layouts:
    """The structures of a section, in its byte order."""

    def __init__(self, byte_order: str) -> None:
        # Type, length, interface, time high, time low, captured, length on the wire.
        self.packet = Struct(byte_order + "IIIIIII")
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
        found = len(window.data)
        raise window.refusal(f"pcapng section header cut short: {SECTION_SIZE} bytes expected, {found} found", again)
    try:
        _check_version(window.data, 0, _section(window.data, 0))
    except _MalformedError as error:
        raise window.refusal(str(error), again) from None


def frames(window: Window, file: int, info: InputInfo) -> Iterator[Frame]:
    """The packets from the beginning of the window. Raises DamageError.

    Keeps info.link_types, and info.frames for the records that are counted but not handed on.
    """
    new = tuple.__new__  # see pcap.frames
    data, position, size = window.data, 0, len(window.data)
    interfaces: list[Interface] = []
    layouts = LAYOUTS[data[8:12]]
    unpack, unpack_word = layouts.packet.unpack_from, layouts.word.unpack_from
    number = time = 0
    try:
        while True:
            if position + PACKET_SIZE > size:
                window.more(position, PACKET_SIZE)
                data, position, size = window.data, 0, len(window.data)
                if not size:
                    break
                if size < MIN_BLOCK:
                    raise DamageError(window.cut(0, MIN_BLOCK, "the block"))
                if size < PACKET_SIZE:
                    data = data.ljust(PACKET_SIZE, b"\0")  # the last block, shorter than a packet: see the next line
            # Right for a packet block; of any other only `kind` and `length` are.
            kind, length, index, high, low, captured, wire_length = unpack(data, position)
            if kind == SECTION:  # reads the same in both byte orders; what follows does not
                layouts = _section(data, position)
                unpack = layouts.packet.unpack_from
                unpack_word = layouts.word.unpack_from
                (length,) = unpack_word(data, position + 4)
                interfaces = []
            if length < MINIMUM.get(kind, MIN_BLOCK) or length % 4:
                expected = f"a multiple of 4 from {MINIMUM.get(kind, MIN_BLOCK)} on expected"
                raise _MalformedError(f"block of type {kind:#x} claims {length} bytes, {expected}")
            end = position + length
            if end > size:
                if length > MAX_BLOCK:
                    if kind in MINIMUM:
                        raise _MalformedError(
                            f"block of type {kind:#x} claims {length} bytes, at most {MAX_BLOCK} expected"
                        )
                    position = _skip(window, position, length)
                    data, size = window.data, len(window.data)
                    number += kind in NUMBERED
                    continue
                complete = window.more(position, length)
                data, position, size = window.data, 0, len(window.data)
                if not complete:
                    raise DamageError(window.cut(0, length, "the block"))
                end = length
            (again,) = unpack_word(data, end - 4)
            if again != length:
                raise _MalformedError(_lengths_differ(length))
            if kind == ENHANCED_PACKET:
                begin = position + 28
            elif kind == OBSOLETE_PACKET:
                _, _, index, high, low, captured, wire_length = layouts.obsolete.unpack_from(data, position)
                begin = position + 28
            elif kind == SIMPLE_PACKET:
                (wire_length,) = unpack_word(data, position + 8)
                index = 0
                begin = position + 12
            else:
                if kind == INTERFACE:
                    interfaces.append(_interface(data, position, end, layouts))
                    if interfaces[-1].link_type not in info.link_types:
                        info.link_types.append(interfaces[-1].link_type)
                elif kind == SECTION:
                    _check_version(data, position, layouts)
                number += kind in NUMBERED
                position = end
                continue
            if index >= len(interfaces):
                raise _MalformedError(f"packet of interface {index}, but {len(interfaces)} described")
            link_type, supported, snap_length, multiplier, divisor, shift = interfaces[index]
            if kind == SIMPLE_PACKET:
                captured = min(wire_length, snap_length or wire_length)
            else:
                time = (high << 32 | low) * multiplier
                if divisor != 1:
                    time //= divisor
                time += shift
            if captured > MAX_CAPTURED or begin + captured > end - 4:
                limit = min(MAX_CAPTURED, end - 4 - begin)
                raise _MalformedError(f"packet claims {captured} captured bytes, at most {limit} expected")
            number += 1
            if supported:
                yield new(Frame, (file, number, time, link_type, data[begin : begin + captured], wire_length))
            position = end
    except _MalformedError as error:
        raise DamageError(f"damaged at {window.place(position)}: {error}") from None
    finally:
        info.frames = number


def _section(data: bytes, position: int) -> Layouts:
    magic = data[position + 8 : position + 12]
    if magic not in LAYOUTS:
        raise _MalformedError(f"section header without byte-order magic, {magic.hex(' ')} found")
    return LAYOUTS[magic]


def _check_version(data: bytes, position: int, layouts: Layouts) -> None:
    major, minor = layouts.version.unpack_from(data, position + 12)
    if major != 1:
        raise _MalformedError(f"pcapng version {major}.{minor} is not supported, 1.0 expected")


def _interface(data: bytes, position: int, end: int, layouts: Layouts) -> Interface:
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
    supported = link_type in link_types.SUPPORTED
    return Interface(link_type, supported, snap_length, 1_000_000_000 // common, units // common, shift)


def _skip(window: Window, position: int, length: int) -> int:
    """Pass over a block that is too long to hold. Returns the position of what follows."""
    window.more(position, MIN_BLOCK)
    stated = window.data[4:8]
    begin = window.offset
    window.skip(length - 4)
    if not window.more(0, 4):
        raise DamageError(window.cut(begin - window.offset, length, "the block"))
    if window.data[:4] != stated:
        raise DamageError(f"damaged at offset {begin}: {_lengths_differ(length)}")
    return 4


def _lengths_differ(length: int) -> str:
    return f"block length {length} is not repeated at the block's end"
