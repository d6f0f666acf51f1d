from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import sys
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ibcmtool.sources.files import SourceError, compressed, open_capture, streams
from ibcmtool.sources.files.compressed import DecompressedStream

SECOND = 1_000_000_000


def pack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def pack_lz4(data: bytes) -> bytes:
    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, content_checksum=True))


def pack_bzip2(data: bytes) -> bytes:
    return bz2.compress(data, 1)


PACKERS = {"gzip": gzip.compress, "zstd": pack_zstd, "xz": lzma.compress, "bzip2": pack_bzip2, "lz4": pack_lz4}
PADDED = ("gzip", "xz", "bzip2")
SKIPPABLE = b"\x5e\x2a\x4d\x18\x03\0\0\0abc"  # a zstd frame without content


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress, the same each time."""
    return random.Random(seed).randbytes(size)


@pytest.fixture(scope="module")
def content(make) -> bytes:
    return make.pcap([(n * SECOND, noise(n), n) for n in range(1, 200)])


@pytest.mark.parametrize("method", PACKERS)
def test_formats_and_names(make, read, content, method):
    pack = PACKERS[method]
    plain, _ = read(content)
    frames, info = read(pack(content))
    assert frames == plain
    assert (info.format, info.truncated) == (f"pcap+{method}", False)
    assert read(pack(make.pcapng([(1, b"a", 1)])))[1].format == f"pcapng+{method}"
    assert read(pack(make.erf_record(1 << 60, b"a")))[1].format == f"erf+{method}"


def test_one_inside_the_other(read, content):
    frames, info = read(pack_zstd(gzip.compress(content)))
    assert (len(frames), info.format) == (199, "pcap+zstd+gzip")
    with pytest.raises(SourceError, match="compressed more than 2 times over"):
        read(gzip.compress(gzip.compress(gzip.compress(content))))


@pytest.mark.parametrize("method", PACKERS)
def test_several_members(read, content, method):
    pack = PACKERS[method]
    parts = [content[:1000], b"", content[1000:1003], content[1003:]]
    frames, info = read(b"".join(map(pack, parts)))
    assert (len(frames), info.truncated) == (199, False)


def test_zstd_skippable_frames(read, content):
    packed = SKIPPABLE + pack_zstd(content[:99]) + SKIPPABLE + pack_zstd(content[99:]) + SKIPPABLE
    frames, info = read(packed)
    assert (len(frames), info.truncated) == (199, False)


@pytest.mark.parametrize("method", PADDED)
def test_zeros_behind_are_padding(read, content, method):
    frames, info = read(PACKERS[method](content) + bytes(100_000))
    assert (len(frames), info.truncated) == (199, False)


@pytest.mark.parametrize("method", PACKERS)
def test_other_bytes_behind_are_damage(read, content, method):
    packed = PACKERS[method](content)
    frames, info = read(packed + b"some stray bytes")
    assert len(frames) == 199
    assert info.truncated
    assert info.damage.startswith(f"the {method} stream is damaged near offset {len(packed)} of the compressed data: ")


@pytest.mark.parametrize("method", PACKERS)
def test_cut(make, read, method):
    content = make.pcap([(SECOND, noise(5000, seed), 5000) for seed in range(40)])
    packed = PACKERS[method](content)
    whole, _ = read(content)
    counts = set()
    for size in range(2000, len(packed), 500):
        try:
            frames, info = read(packed[:size])
        except SourceError as error:
            assert "header cut short" in error.problem or "holds nothing" in error.problem
            assert f"the {method} stream ended early, at offset {size} of the compressed data" in error.problem
            continue
        assert frames == whole[: len(frames)]
        counts.add(len(frames))
        assert info.truncated
        assert info.damage.startswith(f"the {method} stream ended early, at offset {size} of the compressed data")
        assert "; cut off at offset" not in info.damage or "of the decompressed data: " in info.damage
    assert len(counts) > 1


@pytest.mark.parametrize("method", ["xz", "bzip2", "lz4"])
def test_recognized_by_content(method):
    assert compressed.method(PACKERS[method](b"")[:4]) == method
    for other in (b"BZh", b"BZh0", b"BZhe", b"\xfd7z", b"\x04\x22\x4d", b""):
        assert compressed.method(other) is None


def test_cut_gives_what_is_whole_before(make, read):
    """xz gives what it has; bzip2 and lz4 decompress block by block."""
    content = make.pcap([(SECOND, noise(5000, seed), 5000) for seed in range(80)])
    for method, lost in (("xz", 2), ("bzip2", 25), ("lz4", 16)):
        packed = PACKERS[method](content)
        frames, info = read(packed[: len(packed) * 3 // 4])
        assert 60 - lost <= len(frames) <= 60, method
        assert info.truncated


def test_xz_asks_for_too_much_memory(read, content):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]
    packed = lzma.compress(content, filters=filters)
    with pytest.raises(SourceError, match=r"the xz stream is damaged .*: Memory usage limit exceeded"):
        read(packed)


def test_gzip_cut_at_every_byte_of_a_small_file(make, read):
    content = make.pcap([(n * SECOND, noise(n), n) for n in range(9)])
    packed = gzip.compress(content)
    whole, _ = read(content)
    for size in range(len(packed)):
        try:
            frames, info = read(packed[:size])
        except SourceError:
            continue
        assert frames == whole[: len(frames)]
        assert info.truncated
        if size >= len(packed) - 8:  # in the checksum
            assert len(frames) == 9
            assert info.damage == f"the gzip stream ended early, at offset {size} of the compressed data"


def test_wrong_gzip_checksum_loses_no_frame(read, content):
    packed = bytearray(gzip.compress(content))
    packed[-5] ^= 1
    frames, info = read(bytes(packed))
    assert len(frames) == 199
    assert info.truncated
    assert info.damage.startswith("the gzip stream is damaged near offset ")
    assert info.damage.endswith(" of the compressed data: incorrect data check")


def test_damaged_gzip_gives_what_was_before(make, read):
    content = make.pcap([(SECOND, noise(5000, seed), 5000) for seed in range(40)])
    whole, _ = read(content)
    packed = bytearray(gzip.compress(content))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) // 2)
    frames, info = read(bytes(packed))
    assert 15 <= len(frames) <= 21
    assert frames[:15] == whole[:15]
    assert info.truncated


@pytest.mark.parametrize("method", PACKERS)
def test_nothing_inside(read, method):
    with pytest.raises(SourceError, match=rf"holds nothing \({method} stream\)"):
        read(PACKERS[method](b""))
    with pytest.raises(SourceError, match="unknown format: begins with the bytes 00 01 02"):
        read(PACKERS[method](bytes(range(256))))
    with pytest.raises(SourceError, match=rf"holds nothing .*the {method} stream (ended early|is damaged)"):
        read(PACKERS[method](b"content")[:5])


@pytest.mark.pure  # compiled code imports a package once and keeps it
def test_missing_package(read, content, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SourceError, match="the package zstandard is missing; pip install zstandard"):
        read(pack_zstd(content))
    assert len(read(gzip.compress(content))[0]) == 199


@pytest.mark.parametrize("method", PACKERS)
def test_on_standard_input(content, monkeypatch, method):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PACKERS[method](content))))
    with open_capture("-", 0) as capture:
        assert sum(1 for _ in capture) == 199
    assert (capture.info.path, capture.info.format) == ("-", f"pcap+{method}")


def test_what_is_decompressed_comes_before_the_next_read(make):
    class Source:
        damage = ""

        def __init__(self, parts):
            self.parts = parts

        def readinto(self, room):
            part = self.parts.pop(0)
            room[: len(part)] = part
            return len(part)

        def close(self):
            pass

    def read():
        room = bytearray(100)
        return bytes(room[: stream.readinto(memoryview(room))])

    packer = zlib.compressobj(wbits=31)
    first = packer.compress(b"first") + packer.flush(zlib.Z_SYNC_FLUSH)
    source = Source([first, packer.compress(b"second") + packer.flush()])
    stream = DecompressedStream("gzip", source, "-")
    assert read() == b"first"
    assert len(source.parts) == 1
    assert read() == b"second"


@pytest.mark.parametrize("method", PACKERS)
def test_expansion_is_bounded(make, read, tmp_path, method):
    path = tmp_path / "bomb"
    bomb = make.section() + make.block(5, bytes(200_000_000)) + make.interface() + make.enhanced(1, b"end", 3)
    path.write_bytes(PACKERS[method](bomb))
    del bomb
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with open_capture(str(path), 0) as capture:
        frames = list(capture)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [frame.data for frame in frames] == [b"end"]
    assert peak < 100_000_000


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=20), st.sampled_from(sorted(PACKERS)), st.integers(0, 6000))
def test_round_trip_in_two_members(make, read, packets, method, cut):
    content = make.pcap([(SECOND, packet, len(packet)) for packet in packets])
    pack = PACKERS[method]
    frames, info = read(pack(content[:cut]) + pack(content[cut:]))
    assert [frame.data for frame in frames] == packets
    assert not info.truncated


@pytest.mark.pure  # compiled code imports a package once and keeps it
def test_missing_lz4(read, content, monkeypatch):
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(SourceError, match="the package lz4 is missing; pip install lz4, or: lz4 -dc FILE"):
        read(pack_lz4(content))
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(SourceError, match="this Python was built without its library; xz -dc FILE"):
        read(lzma.compress(content))


@pytest.mark.parametrize("method", ["gzip", "xz", "bzip2", "lz4"])
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_any_size_of_reads_gives_the_same(read, content, monkeypatch, chunk, method):
    packed = PACKERS[method](content[:999]) + PACKERS[method](content[999:])
    monkeypatch.setattr(streams, "CHUNK", chunk)
    frames, info = read(packed)
    assert (len(frames), info.truncated) == (199, False)
