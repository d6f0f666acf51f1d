from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.packets import Frame
from ibcmtool.sources.files import SourceError, open_capture, streams

SECOND = 1_000_000_000
RECORDS = [(1795957124 * SECOND + 605436000, b"first", 5), (1795957125 * SECOND + 7000, b"", 0)]
VARIANTS = [("<", False), (">", False), ("<", True), (">", True)]


@pytest.mark.parametrize(("order", "nano"), VARIANTS)
def test_reads_every_byte_order_and_resolution(make, read, order, nano):
    time = 1795957126 * SECOND + 123456789
    frames, info = read(make.pcap([*RECORDS, (time, b"third!", 1500)], order, nano=nano, link_type=276))
    assert [(f.number, f.time, f.link_type, f.data, f.wire_length) for f in frames] == [
        (1, 1795957124605436000, 276, b"first", 5),
        (2, 1795957125000007000, 276, b"", 0),
        (3, time if nano else time - 789, 276, b"third!", 1500),
    ]
    assert (info.format, info.link_types, info.frames, info.cut_frames) == ("pcap", [276], 3, 1)
    assert (info.first_time, info.last_time) == (frames[0].time, frames[2].time)
    assert (info.truncated, info.damage) == (False, "")


def test_fixed_bytes(read):
    content = bytes.fromhex(
        "a1b23c4d 0002 0004 00000000 00000000 0000ffff 000000c5"  # file header: ns, big endian, ERF
        "6bf0c5c4 00000009 00000003 00000140 aabbcc"
    )
    frames, _ = read(content)
    assert frames == [Frame(3, 1, 0x6BF0C5C4 * SECOND + 9, 197, b"\xaa\xbb\xcc", 0x140)]


@pytest.mark.parametrize("fcs_bits", [0x24000000, 0x20000000, 0xF4000000])
def test_link_type_without_the_bits_of_the_frame_check_sequence(make, read, fcs_bits):
    frames, info = read(make.pcap(RECORDS, link_type=fcs_bits | 1))
    assert info.link_types == [1]
    assert {frame.link_type for frame in frames} == {1}


def test_times_out_of_order_and_unknown(make, read):
    _, info = read(make.pcap([(0, b"", 0), (5 * SECOND, b"", 0), (9 * SECOND, b"", 0), (2 * SECOND, b"", 0)]))
    assert (info.first_time, info.last_time) == (2 * SECOND, 9 * SECOND)


def test_capture_without_frames(make, read):
    frames, info = read(make.pcap([]))
    assert frames == []
    assert (info.frames, info.first_time, info.last_time, info.truncated) == (0, None, None, False)


@pytest.mark.parametrize(("order", "nano"), VARIANTS)
def test_cut_at_every_byte(make, read, order, nano):
    content = make.pcap([*RECORDS, (SECOND, b"third", 5)], order, nano=nano)
    whole, _ = read(content)
    ends = [24, 24 + 21, 24 + 21 + 16, len(content)]
    for size in range(24, len(content) + 1):
        frames, info = read(content[:size])
        assert frames == whole[: sum(end <= size for end in ends) - 1]
        assert info.frames == len(frames)
        assert info.truncated == (size not in ends)
        assert (f"cut off at offset {size}: " in info.damage) == info.truncated


def test_damage_line_of_a_cut(make, read):
    content = make.pcap([(SECOND, b"12345", 5)])
    assert read(content[:-2])[1].damage == (
        "cut off at offset 43: the record of frame 1 from offset 24 on needs 2 more bytes"
    )
    assert read(content[:27])[1].damage == (
        "cut off at offset 27: the record header of frame 1 from offset 24 on needs 13 more bytes"
    )
    assert read(content[:-1])[1].damage.endswith("needs 1 more byte")


@pytest.mark.parametrize("captured", [262145, 0x7FFFFFFF, 0xFFFFFFFF])
def test_impossible_record_length(make, read, captured):
    good = make.pcap([(SECOND, bytes(262144), 300000), (SECOND, b"x", 1)])
    frames, info = read(good + struct.pack("<IIII", 1, 2, captured, captured) + bytes(300000))
    assert [len(frame.data) for frame in frames] == [262144, 1]
    assert info.truncated
    assert info.damage == (
        f"damaged at offset {len(good)}: "
        f"the record of frame 3 claims {captured} captured bytes, at most 262144 expected"
    )


@pytest.mark.parametrize("size", [4, 5, 20, 23])
def test_header_cut_short(make, read, size):
    with pytest.raises(SourceError, match=f"file header cut short: 24 bytes expected, {size} found") as caught:
        read(make.pcap_header()[:size])
    assert caught.value.offset == 0


@pytest.mark.parametrize("version", [(2, 3), (2, 5), (1, 4), (543, 0)])
def test_other_versions_are_refused(make, read, version):
    with pytest.raises(SourceError, match=r"pcap version {}\.{} is not supported, 2\.4 expected".format(*version)):
        read(make.pcap_header(">", version=version))


def test_foreign_link_type_is_named(make, read):
    with pytest.raises(SourceError) as caught:
        read(make.pcap(RECORDS, link_type=242))
    assert caught.value.problem == (
        "link type 242 (IP over InfiniBand) carries no MADs; supported: 1 (Ethernet), 101 (raw IP), "
        "113 (Linux cooked v1), 197 (ERF), 228 (raw IPv4), 229 (raw IPv6), 247 (InfiniBand), 276 (Linux cooked v2)"
    )
    assert "ibdump" in caught.value.hint
    with pytest.raises(
        SourceError, match=r"link type 127 \(IEEE 802.11 with radiotap\) is not supported; supported: 1 "
    ):
        read(make.pcap(RECORDS, link_type=127))


TIMES = st.integers(0, (1 << 32) * SECOND - 1)
RECORD = st.tuples(TIMES, st.binary(max_size=40), st.integers(0, 0xFFFFFFFF))


@settings(deadline=None)
@given(st.lists(RECORD, max_size=8), st.sampled_from(VARIANTS), st.sampled_from([1, 113, 197, 247, 276]))
def test_round_trip(make, read, records, variant, link_type):
    order, nano = variant
    frames, info = read(make.pcap(records, order, nano=nano, link_type=link_type))
    unit = 1 if nano else 1000
    assert frames == [
        Frame(3, number, time // unit * unit, link_type, data, wire)
        for number, (time, data, wire) in enumerate(records, 1)
    ]
    assert info.cut_frames == sum(wire > len(data) for _, data, wire in records)
    assert not info.truncated


@pytest.mark.parametrize("chunk", [1, 7, 16, 24, 25, 61])
def test_any_size_of_reads_gives_the_same(make, read, monkeypatch, chunk):
    content = make.pcap([(n * SECOND, bytes([n]) * n, n) for n in range(1, 60)])
    whole = read(content)
    monkeypatch.setattr(streams, "CHUNK", chunk)
    assert read(content) == whole


def test_memory_does_not_grow_with_the_file(make, tmp_path):
    path = tmp_path / "large.pcap"
    with path.open("wb") as file:
        file.write(make.pcap_header())
        for _ in range(40):
            file.write(make.pcap_record(SECOND, bytes(60000), 60000) * 8)
    with open_capture(str(path), 0) as capture:
        tracemalloc.start()
        for _ in capture:
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert capture.info.frames == 320
    assert path.stat().st_size > 19_000_000
    assert peak < 2_000_000
