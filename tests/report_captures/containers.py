"""Frames into the bytes of a capture file, as the tools write them that such captures come from."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable

from dissectors.encapsulation import ERF, LINKTYPE_ERF
from dissectors.transport import LRH

ETHERNET = 1
SNAP_LENGTH = 0x40000
SECOND = 1_000_000_000

Frames = Iterable[tuple[int, bytes]]


def pcap(frames: Frames, link_type: int = ETHERNET) -> bytes:
    """tcpdump's: microseconds."""
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP_LENGTH, link_type)
    return header + b"".join(
        struct.pack("<IIII", time // SECOND, time % SECOND // 1000, len(data), len(data)) + data
        for time, data in frames
    )


def erf_pcap(frames: Frames) -> bytes:
    """ibdump's: native InfiniBand packets in ERF records."""
    return pcap(((time, bytes(ERF(timestamp=_fixed_point(time)) / LRH(data))) for time, data in frames), LINKTYPE_ERF)


def _fixed_point(time: int) -> int:
    return time // SECOND << 32 | (time % SECOND << 32) // SECOND


def pcapng(frames: Frames, link_type: int = ETHERNET) -> bytes:
    """dumpcap's: one section, one interface, nanoseconds."""
    section = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    nanoseconds = struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0)
    interface = _block(1, struct.pack("<HHI", link_type, 0, SNAP_LENGTH) + nanoseconds)
    packets = (
        _block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + data)
        for time, data in frames
    )
    return section + interface + b"".join(packets)


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def gzipped(capture: bytes) -> bytes:
    """The same bytes each time: no name, no time of its own."""
    return gzip.compress(capture, 9, mtime=0)
