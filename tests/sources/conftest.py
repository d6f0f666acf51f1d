"""Writers of capture files, independent of the readers under test, and a reader of bytes."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ibcmtool.sources.files import open_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ibcmtool.analysis import InputInfo
    from ibcmtool.packets import Frame

Record = tuple[int, bytes, int]  # time (ns), data, length on the wire


def pcap_header(
    order: str = "<", *, nano: bool = False, link_type: int = 1, version: tuple[int, int] = (2, 4)
) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, 65535, link_type)


def pcap_record(time: int, data: bytes, wire: int, order: str = "<", *, nano: bool = False) -> bytes:
    seconds, fraction = divmod(time, 10**9)
    return struct.pack(order + "IIII", seconds, fraction if nano else fraction // 1000, len(data), wire) + data


def pcap(records: Iterable[Record], order: str = "<", *, nano: bool = False, link_type: int = 1) -> bytes:
    header = pcap_header(order, nano=nano, link_type=link_type)
    return header + b"".join(pcap_record(*record, order, nano=nano) for record in records)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += b"\0" * (-len(body) % 4)
    total = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + total + body + total


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def section(order: str = "<", *, options: bytes = b"", length: int = -1, version: tuple[int, int] = (1, 0)) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, *version, length) + options, order)


def interface(link_type: int = 1, order: str = "<", *, snap_length: int = 0, options: bytes = b"") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length) + options, order)


def enhanced(ticks: int, data: bytes, wire: int, index: int = 0, order: str = "<", *, options: bytes = b"") -> bytes:
    head = struct.pack(order + "IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
    return block(6, head + data + b"\0" * (-len(data) % 4) + options, order)


def obsolete(ticks: int, data: bytes, wire: int, index: int = 0, order: str = "<") -> bytes:
    head = struct.pack(order + "HHIIII", index, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
    return block(2, head + data, order)


def simple(data: bytes, wire: int, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", wire) + data, order)


def pcapng(records: Iterable[Record], order: str = "<", *, link_type: int = 1) -> bytes:
    """One section with one interface, times in ns."""
    blocks = [section(order), interface(link_type, order, options=option(9, b"\x09", order))]
    return b"".join(blocks + [enhanced(*record, 0, order) for record in records])


def erf_record(
    timestamp: int,
    packet: bytes,
    *,
    kind: int = 21,
    wire: int | None = None,
    extensions: Sequence[bytes] = (),
    subheader: bytes = b"",
    padding: int = 0,
    flags: int = 4,
) -> bytes:
    """timestamp: in units of 2^-32 s; extensions: 7 bytes each, the bit for "another one" is set here."""
    chained = b"".join(bytes([0x80 if i + 1 < len(extensions) else 0]) + e for i, e in enumerate(extensions))
    body = chained + subheader + packet + b"\0" * padding
    more = 0x80 if extensions else 0
    length = len(packet) if wire is None else wire
    return struct.pack("<Q", timestamp) + struct.pack(">BBHHH", kind | more, flags, 16 + len(body), 0, length) + body


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The writers above by their names."""
    packets = (pcap_header, pcap_record, pcap, pcapng, erf_record)
    blocks = (block, option, section, interface, enhanced, obsolete, simple)
    return SimpleNamespace(**{writer.__name__: writer for writer in packets + blocks})


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], tuple[list[Frame], InputInfo]]:
    """Read an input of these bytes: all its frames, and what the capture says of it in the end."""
    path = tmp_path_factory.mktemp("sources") / "input"

    def read_bytes(content: bytes) -> tuple[list[Frame], InputInfo]:
        path.write_bytes(content)
        with open_capture(str(path), 3) as capture:
            frames = list(capture)
        assert all(frame.file == 3 for frame in frames)
        return frames, capture.info

    return read_bytes
