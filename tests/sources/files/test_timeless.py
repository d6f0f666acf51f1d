"""Inputs without times are known by their first frames."""

from __future__ import annotations

import pytest

from ibcmtool.sources.files.timeless import STEPS

START = 1_700_000_000_000_000_000
DATA = bytes(64)


def records(times):
    return [(time, DATA, len(DATA)) for time in times]


@pytest.mark.parametrize("step", STEPS)
def test_equal_steps(make, read, step):
    enough = STEPS[step]
    for count, times in ((enough - 1, False), (enough, True), (4000, True)):
        info = read(make.pcapng(records(START + n * step for n in range(count))))[1]
        assert (info.timeless, info.frames) == (times, count)


@pytest.mark.parametrize("step", [2, 999, 1_001, 10_000, 999_999, 1_000_000_000])
def test_other_steps_are_times(make, read, step):
    assert not read(make.pcapng(records(START + n * step for n in range(100))))[1].timeless


def test_one_other_step_is_a_time(make, read):
    times = [START + n * 1000 for n in range(100)]
    times[50] += 1
    assert not read(make.pcapng(records(times)))[1].timeless
    assert not read(make.pcapng(records([*times[:50], *times[40:]])))[1].timeless


def test_zeros(make, read):
    for count in (1, 2, 100):
        assert read(make.pcap(records([0] * count)))[1].timeless
    assert not read(make.pcap(records([START])))[1].timeless
    assert not read(make.pcap(records([0, START])))[1].timeless
    assert not read(make.pcap([]))[1].timeless


def test_simple_packet_blocks(make, read):
    frames, info = read(make.section() + make.interface() + make.simple(DATA, 64) * 3)
    assert (len(frames), info.timeless) == (3, True)
    mixed = make.section() + make.interface() + make.simple(DATA, 64) + make.enhanced(START // 1000, DATA, 64)
    assert not read(mixed)[1].timeless


def test_erf(make, read):
    assert read(b"".join(make.erf_record(0, DATA) for _ in range(3)))[1].timeless
    assert not read(b"".join(make.erf_record(1 << 60 | n << 30, DATA) for n in range(9)))[1].timeless


def test_cut_and_foreign(make, read):
    assert read(make.pcap(records([0] * 5))[:-10])[1].timeless
    other = make.section() + make.interface(127) + make.interface(1)
    assert not read(other + make.enhanced(1, DATA, 64, 0))[1].timeless
