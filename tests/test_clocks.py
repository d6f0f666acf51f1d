"""Clocks of two captures of the same packets: found apart, put together, and left alone where nothing is known."""

from __future__ import annotations

import struct

import pytest

from ibcmtool.analysis import analyze
from ibcmtool.clocks import offset

SECOND = 1_000_000_000


def shifted(source, target, seconds, keep=lambda number: True):
    """A copy of a classic pcap file whose clock is `seconds` ahead; `keep` chooses frames by number from 1."""
    data, at, number = source.read_bytes(), 24, 0
    parts = [data[:24]]
    while at < len(data):
        sec, usec, captured, length = struct.unpack_from("<4I", data, at)
        number += 1
        if keep(number):
            micro = sec * 1_000_000 + usec + round(seconds * 1_000_000)
            parts.append(struct.pack("<4I", *divmod(micro, 1_000_000), captured, length))
            parts.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    target.write_bytes(b"".join(parts))
    return str(target)


@pytest.mark.parametrize("seconds", [40.0, -3600.0, 100_000.0, 0.002])
def test_two_ends_with_clocks_apart_give_each_connection_once(captures, tmp_path, seconds):
    one, two = captures / "rping.pcap", tmp_path / "other.pcap"
    result = analyze([str(one), shifted(one, two, seconds)])
    alone = analyze([str(one)])
    assert [c.history for c in result.connections] == ["QpUDe"]
    assert [len(step.sightings) for step in result.connections[0].steps] == [1] * 5
    assert result.inputs[1].clock_offset == round(seconds * SECOND)
    assert result.inputs[1].shared_packets == 5
    assert result.connections[0].closed == alone.connections[0].closed


def test_successive_files_of_one_host_are_left_alone(captures, tmp_path):
    source = captures / "nvme_host_crash_stale.pcap"
    first = shifted(source, tmp_path / "ring1.pcap", 0, lambda number: number <= 7)
    second = shifted(source, tmp_path / "ring2.pcap", 0, lambda number: number > 7)
    result = analyze([first, second])
    assert [info.clock_offset for info in result.inputs] == [0, 0]
    assert [c.outcome for c in result.connections] == ["stale", "stale", "rejected", "rejected"]
    swapped = analyze([second, first])
    assert [c.history for c in swapped.connections] == [c.history for c in result.connections]


def test_half_the_sum_of_both_directions_is_the_offset():
    assert offset([[5_000_100] * 3, [4_999_900] * 3]) == 5_000_000


def test_one_direction_alone_tells_delay_and_offset_apart_only_when_it_is_large():
    assert offset([[3_000_000]]) == 0
    assert offset([[40 * SECOND, 40 * SECOND + 9, 40 * SECOND + 2]]) == 40 * SECOND + 2
    assert offset([]) == 0
