from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.sources.files import SourceError, open_capture, pcapng_blocks

SECOND = 1_000_000_000
MICROS = 1_700_000_000_000_000  # a time in the default unit


def summary(frames):
    return [(frame.number, frame.time, frame.link_type, frame.data, frame.wire_length) for frame in frames]


def test_fixed_bytes(read):
    content = bytes.fromhex(
        "0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffffffffffff 1c000000"
        "01000000 14000000 f700 0000 00000000 14000000"  # link type 247
        "06000000 28000000 00000000 180a0600 00e4f6ad 05000000 22010000 0102030405 000000 28000000"
    )
    frames, info = read(content)
    assert summary(frames) == [(1, 0x60A18_ADF6E400 * 1000, 247, b"\1\2\3\4\5", 290)]
    assert (info.format, info.link_types, info.frames, info.cut_frames) == ("pcapng", [247], 1, 1)


def test_sections_have_their_own_byte_order_and_interfaces(make, read):
    content = b"".join(
        [
            make.section("<", options=make.option(4, b"dumpcap")),
            make.interface(197),
            make.enhanced(MICROS, b"a", 1),
            make.section(">", length=4711),
            make.interface(1, ">"),
            make.interface(113, ">"),
            make.enhanced(MICROS + 1, b"bb", 2, 1, ">"),
            make.enhanced(MICROS + 2, b"ccc", 3, 0, ">"),
            make.section("<"),
            make.interface(276),
            make.enhanced(MICROS + 3, b"dddd", 4),
        ]
    )
    frames, info = read(content)
    assert summary(frames) == [
        (1, MICROS * 1000, 197, b"a", 1),
        (2, MICROS * 1000 + 1000, 113, b"bb", 2),
        (3, MICROS * 1000 + 2000, 1, b"ccc", 3),
        (4, MICROS * 1000 + 3000, 276, b"dddd", 4),
    ]
    assert info.link_types == [197, 1, 113, 276]
    assert (info.first_time, info.last_time) == (frames[0].time, frames[3].time)
    assert not info.truncated


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks", "nanoseconds"),
    [
        (0, 1_700_000_000, 1_700_000_000 * SECOND),
        (3, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (6, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 17_000_000_123_456_789_999, 17_000_000_123_456_789),
        (0x80 | 10, (1_700_000_000 << 10) + 512, 1_700_000_000 * SECOND + 500_000_000),
        (0x80 | 32, (1_700_000_000 << 32) + 1, 1_700_000_000 * SECOND),
        (0x80 | 32, (1_700_000_000 << 32) + 0xFFFFFFFF, 1_700_000_000 * SECOND + 999_999_999),
        (0x80, 1_700_000_000, 1_700_000_000 * SECOND),
        (127, 1 << 63, 0),
    ],
)
def test_time_resolutions(make, read, order, resolution, ticks, nanoseconds):
    options = make.option(2, b"ib0", order) + make.option(9, bytes([resolution]), order) + make.option(0, b"", order)
    interface = make.interface(1, order, options=options)
    frames, _ = read(make.section(order) + interface + make.enhanced(ticks, b"", 0, 0, order))
    assert frames[0].time == nanoseconds


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("seconds", [1_600_000_000, -3600, 0])
def test_time_offset(make, read, order, seconds):
    options = make.option(14, struct.pack(order + "q", seconds), order)
    interface = make.interface(1, order, options=options)
    frames, _ = read(make.section(order) + interface + make.enhanced(5_000_001, b"", 0, 0, order))
    assert frames[0].time == 5_000_001_000 + seconds * SECOND


def test_options_behind_the_end_of_options_do_not_count(make, read):
    options = make.option(0, b"") + make.option(9, b"\x09")
    frames, _ = read(make.section() + make.interface(options=options) + make.enhanced(7, b"", 0))
    assert frames[0].time == 7000


def test_comments_and_other_options_of_packets_are_passed_over(make, read):
    comment = make.option(1, b"\x06\0\0\0 looks like a block") + make.option(2, bytes(4)) + make.option(0, b"")
    content = make.section(options=make.option(1, b"odd")) + make.interface(options=make.option(1, b"port 1"))
    content += make.enhanced(MICROS, b"12345", 5, options=comment) + make.enhanced(MICROS, b"6", 1)
    assert [frame.data for frame in read(content)[0]] == [b"12345", b"6"]


def test_simple_packets_have_the_time_before_them(make, read):
    content = make.section() + make.interface(snap_length=4)
    content += make.simple(b"1234", 9) + make.enhanced(MICROS, b"abcdef", 6) + make.simple(b"xyz", 3)
    frames, info = read(content)
    assert summary(frames) == [
        (1, 0, 1, b"1234", 9),
        (2, MICROS * 1000, 1, b"abcdef", 6),
        (3, MICROS * 1000, 1, b"xyz", 3),
    ]
    assert (info.first_time, info.cut_frames) == (MICROS * 1000, 1)


def test_simple_packet_without_snap_length(make, read):
    frames, _ = read(make.section(">") + make.interface(1, ">") + make.simple(b"12345", 5, ">"))
    assert summary(frames) == [(1, 0, 1, b"12345", 5)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_obsolete_packets(make, read, order):
    content = make.section(order) + make.interface(1, order) + make.interface(247, order)
    frames, _ = read(content + make.obsolete(MICROS, b"12345", 77, 1, order) + make.obsolete(1, b"", 0, 0, order))
    assert summary(frames) == [(1, MICROS * 1000, 247, b"12345", 77), (2, 1000, 1, b"", 0)]


@pytest.mark.parametrize("kind", [4, 5, 7, 10, 0x7777, 0x80000001, 0xFFFFFFFF])
def test_other_blocks_are_passed_over(make, read, kind):
    content = make.section() + make.block(kind, b"") + make.interface() + make.block(kind, b"\x06\0\0\0" * 9)
    content += make.enhanced(1, b"a", 1) + make.block(kind, b"x") + make.enhanced(2, b"b", 1) + make.block(kind, b"")
    frames, info = read(content)
    assert [(frame.number, frame.data) for frame in frames] == [(1, b"a"), (2, b"b")]
    assert (info.frames, info.truncated) == (2, False)


@pytest.mark.parametrize("kind", sorted(pcapng_blocks.NUMBERED))
def test_records_that_wireshark_numbers(make, read, kind):
    other = make.block(kind, bytes(64))
    frames, info = read(make.section() + make.interface() + other + make.enhanced(1, b"a", 1) + other)
    assert [frame.number for frame in frames] == [2]
    assert info.frames == 3


def test_packets_of_unsupported_interfaces_count_and_are_not_handed_on(make, read):
    content = make.section() + make.interface(127) + make.interface(1)
    content += make.enhanced(1, b"a", 1, 0) + make.enhanced(2, b"b", 1, 1) + make.enhanced(3, b"c", 1, 0)
    frames, info = read(content)
    assert [(frame.number, frame.data) for frame in frames] == [(2, b"b")]
    assert (info.frames, info.link_types) == (3, [127, 1])


def test_supported_interface_described_late(make, read):
    content = make.section() + make.interface(242) + make.enhanced(1, b"a", 1) + make.section() + make.interface(1)
    assert [frame.number for frame in read(content + make.enhanced(1, b"b", 1))[0]] == [2]


def test_no_supported_interface_is_an_error_after_all(make, tmp_path):
    path = tmp_path / "foreign.pcapng"
    content = make.section() + make.interface(242) + make.interface(127) + make.enhanced(1, b"a", 1)
    path.write_bytes(content)
    with open_capture(str(path), 0) as capture, pytest.raises(SourceError) as caught:
        list(capture)
    assert caught.value.problem.startswith(
        "link types 242 (IP over InfiniBand), 127 (IEEE 802.11 with radiotap) are not supported; supported: 1 (Eth"
    )
    assert capture.info.frames == 1
    path.write_bytes(content[:-3])  # cut as well
    with open_capture(str(path), 0) as capture, pytest.raises(SourceError, match="are not supported"):
        list(capture)
    path.write_bytes(make.section() + make.interface(242))
    with open_capture(str(path), 0) as capture, pytest.raises(SourceError, match=r"242 .* carries no MADs"):
        list(capture)


def test_no_interface_and_no_packet(make, read):
    frames, info = read(make.section())
    assert (frames, info.frames, info.link_types, info.truncated) == ([], 0, [], False)


def sample(make, order):
    """One of everything, with its end offsets and whether a frame ends there."""
    parts = [
        (make.section(order), False),
        (make.interface(1, order, options=make.option(9, b"\x09", order)), False),
        (make.enhanced(MICROS, b"12345", 5, 0, order, options=make.option(1, b"comment", order)), True),
        (make.block(5, bytes(20), order), False),
        (make.simple(b"123", 3, order), True),
        (make.section(order), False),
        (make.interface(197, order), False),
        (make.obsolete(MICROS, b"1", 1, 0, order), True),
        (make.enhanced(MICROS, b"", 0, 0, order), True),
        (make.block(0x0BAD, b"", order), False),
    ]
    return b"".join(part for part, _ in parts), parts


@pytest.mark.parametrize("order", ["<", ">"])
def test_cut_at_every_byte(make, read, order):
    content, parts = sample(make, order)
    whole, _ = read(content)
    assert len(whole) == 4
    ends, end, count = {}, 0, 0
    for part, is_frame in parts:
        end += len(part)
        count += is_frame
        ends[end] = count
    for size in range(28, len(content) + 1):
        frames, info = read(content[:size])
        assert frames == whole[: max(count for end, count in ends.items() if end <= size)]
        assert info.truncated == (size not in ends)
        assert (f"cut off at offset {size}: the block from offset " in info.damage) == info.truncated


@pytest.mark.parametrize("size", [4, 11, 12, 27])
def test_section_header_cut_short(make, read, size):
    with pytest.raises(SourceError, match=f"section header cut short: 28 bytes expected, {size} found"):
        read(make.section()[:size])


def test_damaged_section_header_at_the_beginning(make, read):
    with pytest.raises(SourceError, match="without byte-order magic, 00 00 00 00 found"):
        read(make.block(0x0A0D0D0A, bytes(16)))
    with pytest.raises(SourceError, match=r"pcapng version 2\.0 is not supported, 1\.0 expected"):
        read(make.section(version=(2, 0)))


def malformed(make):
    """Blocks that end what can be read, and what the damage line says of them."""
    good = make.enhanced(MICROS, b"1234", 4)
    length = struct.pack("<I", len(good))
    return {
        "undescribed interface": (make.enhanced(1, b"", 0, 1), "packet of interface 1, but 1 described"),
        "obsolete, too": (make.obsolete(1, b"", 0, 0xFFFF), "packet of interface 65535, but 1 described"),
        "lengths differ": (good[:-4] + b"\x28\0\0\0", "block length 36 is not repeated at the block's end"),
        "odd length": (
            good.replace(length, b"\x23\0\0\0"),
            "block of type 0x6 claims 35 bytes, a multiple of 4 from 32 on expected",
        ),
        "length zero": (bytes(40), "block of type 0x0 claims 0 bytes, a multiple of 4 from 12 on expected"),
        "length 8": (b"\x07\0\0\0\x08\0\0\0", "block of type 0x7 claims 8 bytes, a multiple of 4 from 12 on expected"),
        "short packet": (
            make.block(6, bytes(16)),
            "block of type 0x6 claims 28 bytes, a multiple of 4 from 32 on expected",
        ),
        "short simple packet": (
            make.block(3, b""),
            "block of type 0x3 claims 12 bytes, a multiple of 4 from 16 on expected",
        ),
        "simple packet too long": (make.simple(b"1234", 5), "packet claims 5 captured bytes, at most 4 expected"),
        "captured too long": (
            good[:20] + b"\x05\0\0\0" + good[24:],
            "packet claims 5 captured bytes, at most 4 expected",
        ),
        "captured longer than any": (
            make.enhanced(1, bytes(262148), 262148),
            "packet claims 262148 captured bytes, at most 262144 expected",
        ),
        "interface too short": (
            make.block(1, b"\1\0\0\0"),
            "block of type 0x1 claims 16 bytes, a multiple of 4 from 20 on expected",
        ),
        "interface option": (
            make.interface(options=struct.pack("<HH", 9, 200) + bytes(4)),
            "option 9 claims 200 bytes, its block has 4 left",
        ),
        "huge packet block": (
            struct.pack("<II", 6, 0xFFFFFFFC) + bytes(100),
            "block of type 0x6 claims 4294967292 bytes, at most 16777216 expected",
        ),
        "section without magic": (
            make.block(0x0A0D0D0A, b"\1\2\3\4" * 4),
            "section header without byte-order magic, 01 02 03 04 found",
        ),
        "section too short": (
            make.block(0x0A0D0D0A, b"\x4d\x3c\x2b\x1a\1\0\0\0"),
            "block of type 0xa0d0d0a claims 20 bytes, a multiple of 4 from 28 on expected",
        ),
        "section of another version": (
            make.section(version=(3, 7)),
            "pcapng version 3.7 is not supported, 1.0 expected",
        ),
    }


@pytest.mark.parametrize("case", range(17))
def test_malformed_blocks(make, read, case):
    bad, problem = list(malformed(make).values())[case]
    good = make.section() + make.interface() + make.enhanced(MICROS, b"good", 4)
    frames, info = read(good + bad + make.enhanced(MICROS, b"never", 5))
    assert [frame.data for frame in frames] == [b"good"]
    assert info.truncated
    assert info.damage == f"damaged at offset {len(good)}: {problem}"


def test_simple_packet_without_interface(make, read):
    _, info = read(make.section() + make.simple(b"1234", 4))
    assert info.damage == "damaged at offset 28: packet of interface 0, but 0 described"


def test_largest_packet(make, read):
    frames, info = read(make.section() + make.interface() + make.enhanced(1, bytes(262144), 262144))
    assert len(frames[0].data) == 262144
    assert not info.truncated


@pytest.mark.parametrize("kind", [5, 0x0BAD])
def test_block_too_long_to_hold_is_passed_over(make, read, kind):
    good = make.section() + make.interface() + make.enhanced(1, b"a", 1)
    long = make.block(kind, bytes(pcapng_blocks.MAX_BLOCK))
    last = make.enhanced(2, b"b", 1)
    frames, info = read(good + long + last)
    assert [(f.number, f.data) for f in frames] == [(1, b"a"), (3 if kind == 0x0BAD else 2, b"b")]
    assert not info.truncated
    _, info = read(good + long[:-3])
    assert info.damage == (
        f"cut off at offset {len(good) + len(long) - 3}: the block from offset {len(good)} on needs 3 more bytes"
    )
    _, info = read(good + long[:-5000])
    assert info.damage.endswith(f"the block from offset {len(good)} on needs 5000 more bytes")
    _, info = read(good + long[:-4] + bytes(4) + last)
    assert info.damage == (
        f"damaged at offset {len(good)}: block length {len(long)} is not repeated at the block's end"
    )


TICKS = st.integers(0, (1 << 64) - 1)
RECORD = st.tuples(TICKS, st.binary(max_size=40), st.integers(0, 0xFFFFFFFF))


@settings(deadline=None)
@given(st.lists(RECORD, max_size=8), st.sampled_from("<>"), st.sampled_from([1, 113, 197, 247, 276]))
def test_round_trip(make, read, records, order, link_type):
    frames, info = read(make.pcapng(records, order, link_type=link_type))
    assert summary(frames) == [
        (number, ticks, link_type, data, wire) for number, (ticks, data, wire) in enumerate(records, 1)
    ]
    assert not info.truncated
    assert info.cut_frames == sum(wire > len(data) for _, data, wire in records)


@pytest.mark.parametrize("chunk", [1, 7, 28, 33])
def test_any_size_of_reads_gives_the_same(make, read, monkeypatch, chunk):
    content, _ = sample(make, ">")
    content += sample(make, "<")[0]
    whole = read(content)
    monkeypatch.setattr("ibcmtool.sources.files.streams.CHUNK", chunk)
    assert read(content) == whole


def statistics(make, index: int, order: str = "<", **counts: int) -> bytes:
    codes = {"received": 4, "dropped": 5, "accepted": 6, "by_system": 7}
    options = b"".join(
        make.option(codes[name], struct.pack(order + "Q", value), order) for name, value in counts.items()
    )
    return make.block(5, struct.pack(order + "III", index, 0, 0) + options, order)


@pytest.mark.parametrize("order", "<>")
def test_drops_are_counted(make, read, order):
    one = make.section(order) + make.interface(1, order) + make.interface(1, order)
    one += statistics(make, 0, order, received=9, dropped=3) + statistics(make, 1, order, dropped=10, by_system=5)
    one += statistics(make, 0, order, received=90, dropped=7, accepted=1)  # of the same interface, later
    assert read(one)[1].dropped == 22
    assert read(one + one)[1].dropped == 44
    assert read(make.section(order) + make.interface(1, order) + statistics(make, 5, order))[1].dropped == 0


def test_odd_statistics(make, read):
    begin = make.section() + make.interface()
    assert read(begin + make.block(5, bytes(12) + make.option(5, b"1234")))[1].dropped == 0
    _, info = read(begin + make.block(5, bytes(12) + b"\5\0\xff\0"))
    assert "option 5 claims 255 bytes" in info.damage
    for body in (b"1234", bytes(1 << 25)):  # too short; too long to hold
        frames, info = read(begin + make.block(5, body) + make.enhanced(1, b"end", 3))
        assert (len(frames), info.dropped, info.damage) == (1, 0, "")
