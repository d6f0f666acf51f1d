"""Whatever the bytes are, reading them ends, and raises nothing but SourceError."""

from __future__ import annotations

import gzip

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.sources.files import SourceError

PREFIXES = [
    b"",
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0" + bytes(8) + b"\xff\xff\0\0\x01\0\0\0",
    b"\xa1\xb2\x3c\x4d\0\x02\0\x04" + bytes(8) + b"\0\0\xff\xff\0\0\0\xc5",
    b"\xa1\xb2\xc3\xd4",
    b"\n\r\r\n",
    bytes.fromhex("0a0d0d0a1c0000004d3c2b1a01000000ffffffffffffffff1c000000"),
    bytes.fromhex("0a0d0d0a0000001c1a2b3c4d00010000ffffffffffffffff0000001c"),
    b"\x1f\x8b\x08\0" + bytes(6),
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
    bytes.fromhex("0000000000f15365 1504 0016 0000 0006 616263646566"),
]


def outcome(read, content):
    try:
        frames, info = read(content)
    except SourceError as error:
        assert "\n" not in str(error)
        return
    assert info.frames >= len(frames)
    assert [frame.number for frame in frames] == sorted({frame.number for frame in frames})
    assert info.truncated == bool(info.damage)
    assert "\n" not in info.damage
    assert sum(len(frame.data) for frame in frames) <= 1100 * len(content)


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(PREFIXES), st.binary(max_size=300))
def test_random_bytes(read, prefix, content):
    outcome(read, prefix + content)


WORDS = st.sampled_from([0, 1, 2, 3, 6, 9, 12, 16, 20, 28, 32, 36, 40, 0x0A0D0D0A, 0x1A2B3C4D, 0x0BAD, 0xFFFFFFFF])


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(PREFIXES), st.lists(WORDS, max_size=60), st.sampled_from(["little", "big"]))
def test_random_words(read, prefix, words, order):
    outcome(read, prefix + b"".join(word.to_bytes(4, order) for word in words))


def samples(make):
    pcap = make.pcap([(n << 32, bytes([n]) * n, n) for n in range(1, 9)])
    section = make.section() + make.interface(options=make.option(9, b"\x86") + make.option(14, bytes(8)))
    packets = make.enhanced(1, b"12345", 6, options=make.option(1, b"comment")) + make.simple(b"abc", 3)
    pcapng = (section + packets + make.obsolete(5, b"", 0) + make.block(5, bytes(8))) * 2
    erf = b"".join(make.erf_record((1 << 60) + n, bytes([n]) * n, extensions=[bytes(7)]) for n in range(1, 9))
    return [pcap, pcapng, erf, gzip.compress(pcap), zstandard.compress(pcap)]


@settings(deadline=None, max_examples=1000)
@given(st.integers(0, 4), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_good_files_with_some_bytes_changed(make, read, which, changes):
    content = bytearray(samples(make)[which])
    for position, value in changes:
        content[position % len(content)] = value
    outcome(read, bytes(content))


@pytest.mark.parametrize("which", range(5))
def test_good_files_with_each_byte_inverted(make, read, which):
    content = samples(make)[which]
    for position in range(len(content)):
        outcome(read, content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
