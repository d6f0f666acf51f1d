"""A capture at each end that drops nothing: every packet lost between them is named (C05), and none that was not.

IBCMTOOL_WORLDS=600 tries more of each kind. A failure names the world: `tests/worlds/run.py --both-ends --kind KIND
--seed SEED` shows it.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from conversation import Result
from recordings import Recording, judged

from ibcmtool.analysis import Finding
from worlds import scenes
from worlds.known import unknown
from worlds.network import Packet
from worlds.tally import Tally
from worlds.tap import Flaws, Tap
from worlds.world import World

WORLDS = int(os.environ.get("IBCMTOOL_WORLDS", "40"))  # of each kind
KINDS = sorted(scenes.INNOCENT)
ENOUGH = 3  # packets that both captures hold; those of a pair with less in common do not tell what they lack


def told(world: World, findings: list[Finding]) -> dict[Packet, str]:
    """The packets that C05 calls lost, with its confidence."""
    lost: dict[Packet, str] = {}
    for finding in findings:
        packets = world.packets_of(finding)
        assert finding.severity == "info"
        assert finding.evidence["not_captured"] == 0, finding.message
        assert finding.evidence["lost"] == len(finding.frames) == len(packets) > 0
        senders = {packet.sender.host for packet in packets}
        assert len(senders) == 1, finding.message
        here = world.hosts[:2].index(senders.pop())
        assert f"seen in {'ab'[here]}.pcap and never in {'ba'[here]}.pcap" in finding.message
        lost |= dict.fromkeys(packets, finding.confidence)
    return lost


def comparable(world: World, result: Result) -> set[Packet]:
    """What was captured at one end only, of connections of which both ends show enough."""
    found = set()
    for connection in result.connections:
        shared = [step for step in connection.steps if step.sightings]
        senders = {step.sender for step in shared} if len(shared) >= ENOUGH else set()
        for step in connection.steps:
            if not step.sightings and step.sender in senders:
                found.add(world.taps[step.message.file].shown[step.message.frame])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_is_named_and_none_that_was_none(kind: str) -> None:
    """C05"""
    for seed in range(WORLDS):
        world = World(seed, kind, both_ends=True, mended=("late", "doubled"))
        result = judged(world.recordings, world.policy)
        named = told(world, result.of("C05"))
        lost = world.lost_between
        assert set(named) <= lost, seed
        if kind != "shared_address":  # there it is not told whose packets one of the captures lacks
            assert comparable(world, result) & lost <= set(named), seed


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_late_or_twice_is_not_lost(kind: str) -> None:
    """C05; and nobody is accused of what the wire did."""
    tally = Tally()
    for seed in range(WORLDS):
        world = World(seed, kind, both_ends=True)
        tally.add(world)
        for finding in world.findings():
            if finding.code == "C05" and finding.evidence["lost"]:
                assert set(world.packets_of(finding)) <= world.lost_between, seed
    assert unknown(tally, kind, missed=False) == []


@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_together_show_what_was_sent(kind: str) -> None:
    """As many connections as were asked for, each with the outcome that one capture of every packet would show."""
    for seed in range(WORLDS):
        world = World(seed, kind, both_ends=True, mended=("disorder", "doubled", "late"))
        merged, union = judged(world.recordings), judged([everything(world)])
        assert lives(merged) == lives(union), seed
        if len(world.hosts) == 2:  # of others, what was lost was captured nowhere
            asked = {packet.first for packet in world.network.packets if packet.kind in ("REQ", "SIDR_REQ")}
            assert len(union.connections) == len(asked), seed


def lives(result: Result) -> list[tuple[str, ...]]:
    """What became of each connection; of two that began at once, the captures do not show which was first."""
    return sorted(
        (repr(connection.request), connection.outcome, *sorted(connection.history)) for connection in result.connections
    )


def everything(world: World) -> Recording:
    """One capture of each packet that passed one of the taps, when it did first."""
    tap = Tap(0, None, world.roce)
    known: set[Packet] = set()
    for time, packet in sorted((seen for each in world.taps for seen in each.seen), key=lambda seen: seen[0]):
        if packet not in known:
            known.add(packet)
            tap.seen.append((time, packet))
    return tap.recording(Flaws(), Random(0), world.end)


def test_the_wires_are_worth_a_look() -> None:
    """Losses of every kind and in both directions, wires that lose nothing, and clocks that are apart."""
    worlds = [World(seed, kind, both_ends=True, mended=("late", "doubled")) for kind in KINDS for seed in range(20)]
    lost = {(packet.kind, packet.sender.host.number) for world in worlds for packet in world.lost_between}
    assert lost >= {(kind, number) for kind in ("REQ", "REP", "RTU", "DREQ", "DREP") for number in (1, 2)}
    assert sum(not world.lost_between for world in worlds) > 20
    assert max(abs(world.flaws[1].ahead) for world in worlds) > 100
    confidences = {
        confidence
        for world in worlds
        for confidence in told(world, [each for each in world.findings() if each.code == "C05"]).values()
    }
    assert confidences == {"probable", "possible"}
