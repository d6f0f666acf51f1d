"""Two hosts, a wire that loses packets, and a capture at each end: every loss is named, and none that was none.

IBCMTOOL_LIVES=20000 tries more wires; a failure names the seed, and `wire(seed)` shows the case again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, Result, run
from lives import LONGEST_LIFE, Conditions, Life, Plan
from recordings import Recording, judged, of

from ibcmtool.packets import CmMessage

WIRES = int(os.environ.get("IBCMTOOL_LIVES", "300"))
SLICES = 6  # so that they can run side by side
BEFORE, BEHIND = 60.0, 200.0  # seconds that both captures run before the first packet and behind the last

Packet = tuple[int, int]  # its sender's file, and its PSN


class Wire(NamedTuple):
    """What both captures recorded, and what the wire did."""

    recordings: list[Recording]
    sent: dict[Packet, CmMessage]
    dropped: set[Packet]
    clock_offset: float


def wire(seed: int, *, loss: float | None = None, disorder: float | None = None) -> Wire:
    """One to four lives between two hosts, all of which both captures record."""
    rng = Random(seed)
    conditions = Conditions(
        where="both ends",
        loss=rng.choice((0.02, 0.1, 0.3)) if loss is None else loss,
        disorder=rng.choice((0.0, 0.001, 0.02)) if disorder is None else disorder,
        clock_offset=rng.choice((0.0, rng.uniform(-0.5, 0.5), rng.uniform(-1000, 1000))),
    )
    plan = Plan()
    talk = Conversation(Host("10.0.0.1", psn=rng.randrange(1 << 24)), Host("10.0.0.2", psn=rng.randrange(1 << 24)))
    start = 0.0
    for number in range(rng.choice((1, 1, 2, 4))):
        Life(talk if number == 0 else talk.another(), plan, rng, conditions, start)
        start += rng.uniform(0, 100)
    plan.run(start + LONGEST_LIFE)
    talk.capture.sort(key=lambda item: item.time)
    seen: defaultdict[Packet, set[int]] = defaultdict(set)
    sent: dict[Packet, CmMessage] = {}
    for item in talk.capture:
        assert isinstance(item, CmMessage)
        packet = packet_of(item)
        seen[packet].add(item.file)
        if item.file == packet[0]:
            sent[packet] = item
    ahead = conditions.clock_offset
    last = max(item.time for item in sent.values()) / SECOND - FIRST_DAY / SECOND + abs(ahead)
    spans = [(-BEFORE + by, last + BEHIND + by) for by in (0.0, ahead)]
    return Wire(of(talk, *spans), sent, {packet for packet, files in seen.items() if len(files) == 1}, ahead)


def sender(message: CmMessage) -> int:
    """The file of the capture at the sender's end."""
    assert message.source.gid is not None
    return message.source.gid[-1] - 1


def packet_of(message: CmMessage) -> Packet:
    assert message.psn is not None
    return sender(message), message.psn


def named(result: Result, case: Wire) -> tuple[dict[Packet, str], list[str]]:
    """The packets that C05 calls lost, with their confidence; and the sentences."""
    frames = {(item.file, item.frame): item for recording in case.recordings for item in recording.items}
    packets: dict[Packet, str] = {}
    sentences = []
    for finding in result.of("C05"):
        sentences.append(finding.message)
        assert finding.severity == "info"
        assert finding.evidence["not_captured"] == 0, finding.message
        assert finding.evidence["lost"] == len(finding.frames)
        senders = set()
        for frame in finding.frames:
            packet = packet_of(frames[frame])
            senders.add(packet[0])
            packets[packet] = finding.confidence
        assert len(senders) == 1, finding.message
        (one,) = senders
        assert f"from 10.0.0.{one + 1} w" in finding.message
        assert f"seen in {'ab'[one]}.pcap and never in {'ba'[one]}.pcap" in finding.message
    return packets, sentences


@pytest.mark.parametrize("part", range(SLICES))
def test_every_loss_is_named_and_none_that_was_none(part: int) -> None:
    """C05"""
    for seed in range(part, WIRES, SLICES):
        case = wire(seed)
        result = judged(case.recordings)
        told, sentences = named(result, case)
        assert set(told) <= case.dropped, (seed, sentences)
        for connection in result.connections:
            shared = [step for step in connection.steps if step.sightings]
            for step in connection.steps:
                # One with little in common does not tell what it lacks.
                comparable = len(shared) >= 3 and any(other.sender == step.sender for other in shared)
                assert step.sightings or not comparable or packet_of(step.message) in told, (seed, sentences)


@pytest.mark.parametrize("part", range(SLICES))
def test_both_ends_together_show_what_was_sent(part: int) -> None:
    """As many connections as there were lives, each with the outcome that a capture of every packet would show."""
    for seed in range(part, WIRES, SLICES):
        case = wire(seed, disorder=0.0)
        merged = judged(case.recordings)
        everything = sorted((replace(item, file=0) for item in case.sent.values()), key=lambda item: item.time)
        # The clock at the second host is ahead; what it sent is put where it belongs.
        shift = round(case.clock_offset * SECOND)
        everything = [replace(item, time=item.time - shift) if sender(item) == 1 else item for item in everything]
        end = (max(item.time for item in everything) - FIRST_DAY) / SECOND + BEHIND
        union = run(everything, until=end)
        assert [c.outcome for c in merged.connections] == [c.outcome for c in union.connections], seed
        for one, other in zip(merged.connections, union.connections, strict=True):
            assert sorted(one.history) == sorted(other.history), seed
            assert one.request == other.request


@pytest.mark.parametrize("part", range(SLICES))
def test_nobody_is_accused_of_what_the_wire_did(part: int) -> None:
    accusations = [
        f"seed {seed}: {finding.severity} {finding.code} {finding.message}"
        for seed in range(part, WIRES, SLICES)
        for finding in judged(wire(seed).recordings).findings
        if finding.severity != "info"
    ]
    assert accusations == []


def test_a_wire_that_loses_nothing() -> None:
    """C05"""
    for seed in range(100):
        case = wire(seed, loss=0.0)
        assert case.dropped == set()
        assert judged(case.recordings).of("C05") == []


def test_the_wires_are_worth_a_look() -> None:
    """Losses of every kind and in both directions, and clocks that are apart."""
    cases = [wire(seed) for seed in range(60)]
    kinds = {(case.sent[packet].type, packet[0]) for case in cases for packet in case.dropped}
    assert kinds >= {("REQ", 0), ("REP", 1), ("RTU", 0), ("DREQ", 0), ("DREQ", 1), ("DREP", 0), ("DREP", 1)}
    assert max(abs(case.clock_offset) for case in cases) > 100
    assert {confidence for case in cases for confidence in named(judged(case.recordings), case)[0].values()} == {
        "probable",
        "possible",
    }
