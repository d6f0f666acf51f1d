"""Frame numbers, times and lengths are Wireshark's, on every capture at hand and on made ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from sources.files.traffic import recorded

from ibcmtool.sources.files import SourceError, open_capture

FIELDS = ("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len")
TSHARK = shutil.which("tshark")
NATIVE = (247).to_bytes(4, "little")  # in a pcap header: InfiniBand without ERF, which no Wireshark reads

pytestmark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed")


def captures() -> list[Path]:
    return [path for path in recorded() if not path.read_bytes()[:24].endswith(NATIVE)]


def tshark(path: Path) -> list[tuple[int, int | None, int, int]]:
    fields = [argument for field in FIELDS for argument in ("-e", field)]
    command = [TSHARK or "", "-n", "-r", str(path), "-T", "fields", *fields]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    rows = []
    for line in output.splitlines():
        number, time, length, captured = line.split("\t")
        seconds, _, fraction = time.partition(".")
        nanoseconds = int(seconds) * 10**9 + int(fraction.ljust(9, "0")) if time else None
        rows.append((int(number), nanoseconds, int(length), int(captured)))
    return rows


def compare(path: Path) -> int:
    """Compare all frames; returns how many there were."""
    with open_capture(str(path), 0) as capture:
        frames = list(capture)
    rows = tshark(path)
    assert [frame.number for frame in frames] == [row[0] for row in rows]
    for frame, (_, time, length, captured) in zip(frames, rows, strict=True):
        if frame.link_type == 197:  # without the ERF header; in a pcap file Wireshark takes the time from it
            overhead = frame.wire_length - int.from_bytes(frame.data[14:16], "big")
            assert (length, captured) == (frame.wire_length - overhead, len(frame.data) - overhead)
            tolerance = 0 if capture.info.format == "erf" else 10_000
        else:
            assert (length, captured) == (frame.wire_length, len(frame.data))
            tolerance = 0
        if time is not None:  # a simple packet block has none
            assert abs(frame.time - time) <= tolerance
    return len(frames)


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.name)
def test_captures(path):
    try:
        assert compare(path) > 0
    except SourceError as error:
        assert path.name == "linktype-242-ipoib.pcap"
        assert "242 (IP over InfiniBand) carries no MADs" in str(error)


MICROS = 1_700_000_000_123_456


def made(make) -> dict[str, bytes]:
    data = bytes(64)
    binary = make.option(9, bytes([0x80 | 20])) + make.option(14, (86400).to_bytes(8, "little"))
    journal = b"__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=x\n"
    erf = [
        make.erf_record((1_700_000_000 << 32) + 0x12345678, data),
        make.erf_record((1_700_000_000 << 32) + 0x22345678, data, padding=5),
        make.erf_record(0, bytes(16), kind=48),
        make.erf_record((1_700_000_001 << 32) + 0xFFFFFFFF, data, wire=2000),
        make.erf_record((1_700_000_002 << 32) + 3, data, kind=2, subheader=b"\0\0"),
        make.erf_record((1_700_000_002 << 32) + 9, data, extensions=[bytes(7), bytes(7)]),
        make.erf_record((1_700_000_003 << 32), data, kind=27),
    ]
    return {
        "sections.pcapng": make.section("<", options=make.option(1, b"hello"))
        + make.interface(snap_length=40)
        + make.enhanced(MICROS, data, 64, options=make.option(1, b"comment"))
        + make.simple(data[:40], 64)
        + make.section(">")
        + make.interface(1, ">", options=make.option(9, b"\x09", ">"))
        + make.enhanced(MICROS * 1000 + 1, data, 1000, 0, ">")
        + make.obsolete(MICROS * 1000 + 2, data, 64, 0, ">"),
        "times.pcapng": make.section()
        + make.interface(options=binary)
        + make.interface(options=make.option(9, b"\x03"))
        + make.enhanced((1_700_000_000 << 20) + 777_777, data, 64, 0)
        + make.enhanced(1_700_000_000_123, data, 64, 1),
        "blocks.pcapng": make.section()
        + make.block(0x7777, data)
        + make.interface()
        + make.enhanced(MICROS, data, 64)
        + make.block(5, bytes(16))
        + make.enhanced(MICROS, data[:7], 7),
        "erf.erf": b"".join(erf),
        "nanoseconds.pcap": make.pcap([(MICROS * 1000 + 789, data, 100)], ">", nano=True),
        "fcs.pcap": make.pcap([(MICROS * 1000, data, 64)], link_type=0x24000001),
        "cooked.pcap": make.pcap([(MICROS * 1000, data, 64)], link_type=276),
        # Of a short cut file Wireshark makes a pcap variant that it is not: many records.
        "cut.pcap": make.pcap([(MICROS * 1000, data, 64)] * 30)[:-10],
        "cut.pcapng": make.pcapng([(MICROS * 1000, data, 64)] * 3)[:-2],
        "longer-than-on-the-wire.pcap": make.pcap([(MICROS * 1000, data, 20)]),
        "numbered.pcapng": make.section()
        + make.interface()
        + make.block(9, journal)
        + make.block(0x0BAD, (32473).to_bytes(4, "little") + b"abcd")
        + make.enhanced(MICROS, data, 64),
    }


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("sections.pcapng", 4),
        ("times.pcapng", 2),
        ("blocks.pcapng", 2),
        ("erf.erf", 6),
        ("nanoseconds.pcap", 1),
        ("fcs.pcap", 1),
        ("cooked.pcap", 1),
        ("cut.pcap", 29),
        ("cut.pcapng", 2),
        ("longer-than-on-the-wire.pcap", 1),
    ],
)
def test_made_files(make, tmp_path, name, count):
    path = tmp_path / name
    path.write_bytes(made(make)[name])
    assert compare(path) == count


def test_records_that_are_no_packets_keep_the_numbers_right(make, tmp_path):
    path = tmp_path / "numbered.pcapng"
    path.write_bytes(made(make)["numbered.pcapng"])
    with open_capture(str(path), 0) as capture:
        numbers = [frame.number for frame in capture]
    assert numbers == [tshark(path)[-1][0]] == [3]
