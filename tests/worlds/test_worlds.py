"""Every finding is held against the truth of some hundreds of worlds; known.py lists what is known to be wrong.

IBCMTOOL_WORLDS=600 tries more of each kind, and allows accordingly more. A failure names seeds, and
`tests/worlds/run.py --kind KIND --seed SEED` shows the world.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from conversation import FIRST_DAY
from recordings import judged as judged_whole

from dissectors.icrc import icrc_of
from ibcmtool.analysis import Finding, Severity
from ibcmtool.messages import Req
from ibcmtool.model import Confidence
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.network import PACKETS
from worlds import mads, scenes
from worlds.known import FALSE, MISSED, Known, unknown
from worlds.shrink import FLAWS, misjudged, shrunk
from worlds.tally import Tally
from worlds.truth import EXPECTED, judged
from worlds.world import World

WORLDS = int(os.environ.get("IBCMTOOL_WORLDS", "80"))  # of each kind
GUILTY = {"S01", "S03", "S04", "S06", "T01", "X03", "S12"}  # deeds of which none is done in an innocent world


def tally(kind: str) -> Tally:
    counts = Tally()
    for seed in range(WORLDS):
        counts.add(World(seed, kind))
    return counts


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_findings_are_true_and_deeds_are_told(kind: str) -> None:
    counts = tally(kind)
    assert unknown(counts, kind, missed=False) == []
    assert unknown(counts, kind, missed=True) == []


@pytest.mark.parametrize("known", [*FALSE, *MISSED], ids=lambda known: f"{known.code}-{known.kind}-{known.seed}")
def test_what_is_known_to_be_wrong_still_is(known: Known) -> None:
    """A line of known.py that is not needed any more, or needs another world to show it, must go."""
    assert misjudged(World(known.seed, known.kind), known.code), f"judged right by now: strike or renew {known}"


def test_every_deed_is_done_somewhere() -> None:
    """A deed that no world holds tests nothing."""
    done: Counter[str] = Counter()
    complete = 0
    for kind in scenes.KINDS:
        for seed in range(40):
            world = World(seed, kind)
            done.update({deed.code for deed in world.truth.deeds})
            complete += world.complete
    assert set(done) >= {*EXPECTED, "H02", "R04", "R06", "S11", "T09", "X09"}
    assert complete > 50


def test_nobody_is_guilty_in_an_innocent_world() -> None:
    for kind in sorted(scenes.INNOCENT):
        for seed in range(40):
            assert GUILTY.isdisjoint(deed.code for deed in World(seed, kind).truth.deeds), (kind, seed)


def test_innocent_worlds_end_as_their_cms_say() -> None:
    """With the whole capture in hand, nothing lost: a closed or a rejected connection for each id, and no finding."""
    seen: Counter[str] = Counter()
    for kind in sorted(scenes.INNOCENT):
        for seed in range(WORLDS):
            world = World(seed, kind, mended=FLAWS)
            if not world.complete:
                continue  # a third host, whose connections go by no capture
            result = judged_whole(world.recordings, world.policy)
            assert [each.message for each in result.findings if each.severity != "info"] == [], (kind, seed)
            asked = [(each.request, each.outcome) for each in result.connections]
            told = [(request.local_comm_id, outcome) for request, outcome in asked if isinstance(request, Req)]
            ids = [id_ for host in world.hosts for id_ in host.cm.ids if id_.active]
            ends = [(id_.local, "closed" if "ESTABLISHED" in id_.since else "rejected") for id_ in ids]
            assert sorted(told) == sorted(ends), (kind, seed)
            seen.update(end for _, end in ends)
    assert min(seen["closed"], seen["rejected"]) > WORLDS


def test_innocent_worlds_are_hard_to_judge() -> None:
    """They hold what innocents are accused for: repetitions, MRAs, crossing DREQs, lost and late packets, cuts."""
    worlds = [World(seed, kind) for kind in sorted(scenes.INNOCENT) for seed in range(25)]
    results = [judged_whole(world.recordings, world.policy) for world in worlds]
    connections = [connection for result in results for connection in result.connections]
    assert {mark for each in connections for mark in each.history} >= {"Q", "p", "U", "D", "d", "e", "E", "m", "j", "^"}
    assert {each.outcome for each in connections} >= {"closed", "rejected", "partial", "established"}
    assert {code for result in results for code in result.codes} >= {"X05", "X08", "C02", "C05", "R04", "R07"}


def test_a_seed_always_makes_the_same_world() -> None:
    one, other = World(5, "hasty"), World(5, "hasty")
    assert [recording.items for recording in one.recordings] == [recording.items for recording in other.recordings]
    assert one.findings() == other.findings()


def test_messages_are_what_the_decoder_reads() -> None:
    """Frames that carry these MADs give the same messages."""
    read = 0
    for seed in range(40):
        world = World(seed, mended=("cut",))
        if not world.roce:
            continue
        for message in world.recordings[0].items:
            if isinstance(message, CmMessage):
                assert Decoder()(frame_of(message)) == message
                read += 1
    assert read > 200


def frame_of(message: CmMessage) -> Frame:
    packet = message.headers + message.mad
    at = len(packet)
    whole = packet + bytes(4)
    whole = packet + icrc_of(whole, 14, 14 + 20 + 8, at, PACKETS["ipv4"].checked)
    return Frame(message.file, message.frame, message.time, mads.ETHERNET, whole, len(whole))


def finding(code: str, severity: Severity, confidence: Confidence) -> Finding:
    return Finding(code, "", severity, confidence, "both", 1, (), (), "", "", {}, FIRST_DAY)


def test_a_finding_is_true_by_its_packets() -> None:
    """The truth tells a finding of a deed from the same accusation on packets that have no part in it."""
    world = next(world for world in (World(seed, "deaf") for seed in range(100)) if "S01" in codes(world))
    deed = next(deed for deed in world.truth.deeds if deed.code == "S01")
    others = [packet for packet in world.network.packets if packet.first not in deed.packets]
    accusation = finding("S01", "error", "certain")
    for packets, verdict in ((deed.packets, "true"), (others[:1], "false"), ([], "false")):
        judgement = judged(accusation, [deed], packets)
        assert judgement is not None
        assert judgement.verdict == verdict
    assert judged(finding("T05", "error", "certain"), world.truth.deeds, deed.packets).verdict == "false"  # type: ignore[union-attr]
    assert judged(finding("T10", "info", "certain"), world.truth.deeds, deed.packets) is None


def test_certain_silence_is_more_than_no_answer() -> None:
    """A DREP that was sent and lost: the DREQ got none, but its peer did answer."""
    worlds = (World(seed, kind) for seed in range(200) for kind in ("reboot", "failover"))
    deed = next(deed for world in worlds for deed in world.truth.deeds if deed.code == "R07" and not deed.silent)
    for confidence, verdict in (("certain", "overclaimed"), ("probable", "true")):
        judgement = judged(finding("R07", "warning", confidence), [deed], deed.packets)  # type: ignore[arg-type]
        assert judgement is not None
        assert judgement.verdict == verdict


def test_a_world_is_shrunk_to_what_it_needs() -> None:
    world = next(world for world in (World(seed, "deaf") for seed in range(100)) if "S01" in codes(world))
    small = shrunk(world, lambda smaller: "S01" in codes(smaller))
    assert "S01" in codes(small)
    assert len(small.what) <= len(world.what)
    assert small.network.conditions.late == small.network.conditions.doubled == 0
    assert all(flaws.drops == 0 for flaws in small.flaws)


def codes(world: World) -> set[str]:
    return {deed.code for deed in world.truth.deeds}
