"""The frames of small captures, to be put together anew."""

from __future__ import annotations

import struct
from pathlib import Path

FILE_HEADER, RECORD_HEADER = 24, 16


def records(path: Path) -> tuple[bytes, list[bytes]]:
    """The file header and the records of a little-endian pcap file."""
    data, at, found = path.read_bytes(), FILE_HEADER, []
    while at < len(data):
        end = at + RECORD_HEADER + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at:end])
        at = end
    return data[:FILE_HEADER], found
