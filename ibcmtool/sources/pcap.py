"""Classic pcap files (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds.

Read as libpcap and Wireshark read them: only version 2.4 (older ones disagree on the order of the length fields), and
no record longer than 262144 bytes, whatever snap length the file header claims. Link type 197 frames keep the time of
their pcap record; Wireshark shows that of the ERF header inside, which may differ by some microseconds.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ibcmtool.model import Frame
from ibcmtool.sources import link_types
from ibcmtool.sources.errors import DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.sources.streams import Window

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


class Header(NamedTuple):
    """What the file header says of the records."""

    byte_order: str  # of struct
    scale: int
    link_type: int


def read_header(window: Window) -> Header:
    """The file header at the start of the window. Raises SourceError: cut short, unknown version, foreign link type."""
    if not window.more(0, HEADER_SIZE):
        found = len(window.data)
        raise window.refusal(
            f"pcap file header cut short: {HEADER_SIZE} bytes expected, {found} found", "copy or capture the file again"
        )
    byte_order, scale = MAGICS[window.data[:4]]
    major, minor, _zone, _accuracy, _snap_length, network = Struct(byte_order + "HHiIII").unpack_from(window.data, 4)
    if (major, minor) != (2, 4):
        raise window.refusal(
            f"pcap version {major}.{minor} is not supported, 2.4 expected",
            "convert it with Wireshark's editcap: editcap -F pcap IN OUT",
            4,
        )
    link_type = network & LINK_TYPE_MASK
    if link_type not in link_types.SUPPORTED:
        raise window.refusal(link_types.problem([link_type]), link_types.HINT, 20)
    return Header(byte_order, scale, link_type)


def frames(window: Window, header: Header, file: int) -> Iterator[Frame]:
    """The records behind the file header. Raises DamageError."""
    unpack = Struct(header.byte_order + "IIII").unpack_from
    scale, link_type = header.scale, header.link_type
    # Frame(...) takes twice as long, and this is the hottest line of all.
    new = tuple.__new__
    data, position, size = window.data, HEADER_SIZE, len(window.data)
    number = 0
    while True:
        number += 1
        if position + RECORD_SIZE > size:
            complete = window.more(position, RECORD_SIZE)
            data, position, size = window.data, 0, len(window.data)
            if not size:
                return
            if not complete:
                raise DamageError(window.cut(0, RECORD_SIZE, f"the record header of frame {number}"))
        seconds, fraction, captured, wire_length = unpack(data, position)
        if captured > MAX_CAPTURED:
            raise DamageError(
                f"damaged at {window.place(position)}: the record of frame {number} claims {captured} captured bytes, "
                f"at most {MAX_CAPTURED} expected"
            )
        end = position + RECORD_SIZE + captured
        if end > size:
            complete = window.more(position, RECORD_SIZE + captured)
            data, position, size = window.data, 0, len(window.data)
            if not complete:
                raise DamageError(window.cut(0, RECORD_SIZE + captured, f"the record of frame {number}"))
            end = RECORD_SIZE + captured
        time = seconds * 1_000_000_000 + fraction * scale
        yield new(Frame, (file, number, time, link_type, data[position + RECORD_SIZE : end], wire_length))
        position = end
