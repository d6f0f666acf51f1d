from __future__ import annotations

import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.packets import Frame
from ibcmtool.sources.files import SourceError

SECOND = 1_000_000_000
START = 1_700_000_000 << 32
MILLISECOND = (1 << 32) // 1000


def test_fixed_bytes(read):
    header = bytes.fromhex("00000080 00f15365 15 04 0016 0000 0006")
    frames, info = read(header + b"abcdef")
    assert frames == [Frame(3, 1, 1_700_000_000_500_000_000, 197, header + b"abcdef", 22)]
    assert (info.format, info.link_types, info.frames, info.cut_frames) == ("erf", [197], 1, 0)
    assert (info.first_time, info.last_time) == (frames[0].time, frames[0].time)


@pytest.mark.parametrize(("fraction", "nanoseconds"), [(0, 0), (2, 0), (3, 1), (0x80000000, 500_000_000)])
def test_time_is_rounded_to_the_nearest(make, read, fraction, nanoseconds):
    frames, _ = read(make.erf_record(START + fraction, b"x"))
    assert frames[0].time == 1_700_000_000 * SECOND + nanoseconds
    frames, _ = read(make.erf_record(START + 0xFFFFFFFF, b"x"))
    assert frames[0].time == 1_700_000_001 * SECOND


def test_padding_extension_headers_and_subheaders(make, read):
    records = [
        make.erf_record(START, b"12345", padding=3),
        make.erf_record(START + 1, b"12345", extensions=[b"\x03" * 7, b"\x10" * 7], padding=3),
        make.erf_record(START + 2, b"12345", kind=2, subheader=b"\0\0", padding=1),
        make.erf_record(START + 3, b"12345", kind=5, subheader=bytes(4), extensions=[bytes(7)]),
        make.erf_record(START + 4, b"12345", wire=300),
    ]
    frames, info = read(b"".join(records))
    assert [frame.data for frame in frames] == [
        records[0][:-3],
        records[1][:-3],
        records[2][:-1],
        records[3],
        records[4],
    ]
    assert [frame.wire_length for frame in frames] == [21, 37, 23, 33, 316]
    assert info.cut_frames == 1


def test_pad_records_are_not_counted(make, read):
    pad = make.erf_record(0, bytes(40), kind=48)
    content = pad + make.erf_record(START, b"a") + pad + pad + make.erf_record(START + MILLISECOND, b"b") + pad
    frames, info = read(content)
    assert [(frame.number, frame.data[16:]) for frame in frames] == [(1, b"a"), (2, b"b")]
    assert info.frames == 2


def test_record_too_short_for_its_extension_headers(make, read):
    good = make.erf_record(START, b"x") * 10
    bad = make.erf_record(START, b"", kind=0x80 | 21, wire=290)
    frames, info = read(good + bad + good)
    assert frames[10].data == bad
    assert frames[10].wire_length == 16 + 8 + 290
    assert (len(frames), info.truncated) == (21, False)


def test_cut_at_every_byte(make, read):
    records = [
        make.erf_record(START + n * MILLISECOND, bytes([n]) * (9 * n), extensions=[bytes(7)] * n) for n in range(4)
    ]
    content = b"".join(records)
    whole, _ = read(content)
    ends = [sum(map(len, records[:n])) for n in range(5)]
    for size in range(1, ends[1]):  # nothing tells that this is ERF
        with pytest.raises(SourceError):
            read(content[:size])
    for size in range(ends[1], len(content) + 1):
        frames, info = read(content[:size])
        assert frames == whole[: sum(end <= size for end in ends) - 1]
        assert info.truncated == (size not in ends)
        assert (f"cut off at offset {size}: the record " in info.damage) == info.truncated


@pytest.mark.parametrize("length", [0, 15])
def test_impossible_record_length(make, read, length):
    good = make.erf_record(START, b"x") * 10
    bad = struct.pack("<Q", START) + struct.pack(">BBHHH", 21, 4, length, 0, 1)
    frames, info = read(good + bad)
    assert len(frames) == 10
    assert info.damage == (
        f"damaged at offset {len(good)}: the record of frame 11 claims {length} bytes, at least 16 expected"
    )


def test_what_is_not_plausible(make, read):
    good = make.erf_record(START, b"12345")
    later = START + 1 * MILLISECOND
    for bad in (
        make.erf_record(later, b"12345", kind=0),
        make.erf_record(later, b"12345", kind=26),
        make.erf_record(later, b"12345", kind=49),
        make.erf_record(later, b"12345", flags=0x44),
        make.erf_record(later, b"12345", padding=17),
        make.erf_record(START - 10 * MILLISECOND, b"12345"),
        make.erf_record(START + (400 * 86400 << 32), b"12345"),
        make.erf_record(later, b"", kind=0x80 | 21),
        make.erf_record(later, b"")[:10] + b"\0\x0f" + bytes(4),
    ):
        with pytest.raises(SourceError, match="unknown format: begins with the bytes 00 00 00 00 00 f1 53 65 15 04"):
            read(good + bad)
    assert len(read(good + make.erf_record(START - MILLISECOND, b"almost in order") + good)[0]) == 3


PACKET = st.tuples(
    st.integers(0, MILLISECOND), st.binary(min_size=1, max_size=40), st.integers(0, 7), st.integers(0, 3)
)


@settings(deadline=None)
@given(st.lists(PACKET, min_size=1, max_size=14))
def test_round_trip(make, read, packets):
    time = START
    expected, content = [], b""
    for number, (step, packet, padding, extensions) in enumerate(packets, 1):
        time += step
        record = make.erf_record(time, packet, extensions=[bytes(7)] * extensions, padding=padding)
        size = len(record) - padding
        nanoseconds = int(Fraction(time * SECOND, 1 << 32) + Fraction(1, 2))
        expected.append(Frame(3, number, nanoseconds, 197, record[:size], size))
        content += record
    frames, info = read(content)
    assert frames == expected
    assert not info.truncated


@pytest.mark.parametrize("chunk", [1, 7, 16, 33])
def test_any_size_of_reads_gives_the_same(make, read, monkeypatch, chunk):
    content = b"".join(make.erf_record(START + n, bytes(n), extensions=[bytes(7)], padding=n % 8) for n in range(60))
    whole = read(content)
    monkeypatch.setattr("ibcmtool.sources.files.streams.CHUNK", chunk)
    assert read(content) == whole
