"""A mirror port that shows each packet as it enters a switch and as it leaves: counted once, whatever changed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.test_clocks import records, write

from ibcmtool.engine.files import analyze
from ibcmtool.packets import CmMessage
from ibcmtool.sources.files import open_capture
from ibcmtool.wire.decode import Decoder

VLAN = bytes.fromhex("8100 6042")
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"


def bridged(frame: bytes) -> bytes:
    """As it leaves on a port whose packets are tagged; MAC addresses as they were."""
    return frame[:12] + VLAN + frame[12:]


def routed(frame: bytes) -> bytes:
    """As a router sends it on: other MAC addresses, one hop less, other DSCP and ECN, a new header checksum."""
    network = bytearray(frame[14:])
    if frame[12:14] == IPV4:
        network[1] ^= 0x03
        network[8] -= 1
        network[10:12] = bytes(2)
        network[10:12] = checksum(bytes(network[:20]))
    else:
        assert frame[12:14] == IPV6
        network[1] ^= 0x30  # ECN
        network[7] -= 1
    return bytes.fromhex("0a0000000001 0a0000000002") + frame[12:14] + bytes(network)


def checksum(header: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)


@pytest.mark.parametrize("change", [bridged, routed, lambda frame: bridged(routed(frame))])
@pytest.mark.parametrize("name", ["rping", "rping_ipv6", "nvme_host_crash_stale", "rep_lost_retransmit"])
def test_each_packet_counts_once(name: str, change: Callable[[bytes], bytes], captures: Path, tmp_path: Path) -> None:
    """X05"""
    source, target = captures / f"{name}.pcap", tmp_path / "mirror.pcap"
    both = [
        (time + later, data) for time, frame in records(source) for later, data in ((0, frame), (20_000, change(frame)))
    ]
    write(target, both)
    alone, mirrored = analyze([str(source)]), analyze([str(target)])
    assert [(c.outcome, c.history) for c in mirrored.connections] == [(c.outcome, c.history) for c in alone.connections]
    assert all(len(step.sightings) == 1 for c in mirrored.connections for step in c.steps)
    assert sorted(f.code for f in mirrored.findings) == sorted([*(f.code for f in alone.findings), "X05"])
    assert len({f.code for f in mirrored.findings if f.code == "X05"}) == 1


@pytest.mark.parametrize("change", [bridged, routed])
def test_the_copies_are_whole(change: Callable[[bytes], bytes], captures: Path, tmp_path: Path) -> None:
    """The ICRC covers nothing of what a switch or a router changes."""
    target = tmp_path / "mirror.pcap"
    write(target, [(time, change(frame)) for time, frame in records(captures / "rping.pcap")])
    decode = Decoder()
    with open_capture(str(target), 0) as capture:
        messages = [message for message in map(decode, capture) if isinstance(message, CmMessage)]
    assert [message.icrc_ok for message in messages] == [True] * 5


def test_a_mirror_port_beside_a_host(captures: Path, tmp_path: Path) -> None:
    """X05, C05: its clock is found all the same, and each packet has three sightings of which none is missed."""
    source, target = captures / "nvme_host_crash_stale.pcap", tmp_path / "mirror.pcap"
    ahead = 40_000_000_000
    write(
        target,
        [
            (time + ahead + later, data)
            for time, frame in records(source)
            for later, data in ((0, frame), (5_000, routed(frame)))
        ],
    )
    result = analyze([str(source), str(target)])
    assert result.inputs[1].clock_offset == ahead
    assert result.inputs[1].shared_packets == 14
    assert all(len(step.sightings) == 2 for c in result.connections for step in c.steps)
    assert "C05" not in {finding.code for finding in result.findings}
