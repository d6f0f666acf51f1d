"""What was recorded when: captures in pieces, holes between them, and silence that proves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, run
from recordings import Recording, judged, moment
from worlds import truth
from worlds.world import World

from ibcmtool.analysis import InputInfo
from ibcmtool.packets import CmMessage
from ibcmtool.rules.facts.coverage import Coverage, chained, holes

WORLDS = int(os.environ.get("IBCMTOOL_WORLDS", "40"))  # of each kind
KINDS = ("quiet", "crossing", "slow", "refused")


def seconds(*spans: tuple[float | None, float | None]) -> list[tuple[int | None, int | None]]:
    return [(begin and moment(begin), end and moment(end)) for begin, end in spans]


# -- spans -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spans", "chains"),
    [
        ([(1, 10), (10.001, 20), (20.5, 30)], [0, 0, 0]),  # a ring
        ([(20.5, 30), (1, 10), (10.001, 20)], [1, 1, 1]),  # in any order: named after the one that came first
        ([(1, 10), (12, 20)], [0, 1]),  # started again
        ([(1, 10), (5, 20)], [0, 1]),  # at two places
        ([(1, 10), (9.98, 20)], [0, 0]),  # the times of one are a little out of order
        ([(1, 10), (2, 11), (10.2, 20), (11.2, 20)], [0, 1, 0, 1]),  # two rings
        ([(1, 10), (10.1, 20), (10.2, 20)], [0, 0, 2]),  # one of them cannot go on in both
        ([(1, None), (10.1, 20), (None, 30)], [0, 1, 2]),  # not known yet
        ([(1, 10), (10, 10), (10.5, 11)], [0, 0, 0]),  # one frame alone
    ],
)
def test_files_that_follow_on_each_other(spans: list[tuple[float | None, float | None]], chains: list[int]) -> None:
    assert chained(seconds(*spans)) == chains


def test_holes_between_inputs() -> None:
    def info(first: float | None, last: float | None, ahead: float = 0.0) -> InputInfo:
        times = seconds((first, last))[0]
        return InputInfo("x", first_time=times[0], last_time=times[1], clock_offset=round(ahead * SECOND))

    assert holes([info(1, 10)]) == []
    assert holes([info(None, None)]) == []
    assert holes([info(20, 30), info(1, 10), info(None, None)]) == [(moment(10), moment(20))]
    assert holes([info(1, 10), info(10.9, 30)]) == []
    assert holes([info(1, 10), info(112, 130, ahead=100)]) == [(moment(10), moment(12))]
    assert holes([info(1, 50), info(2, 10), info(60, 61), info(61.5, 70)]) == [(moment(50), moment(60))]


def test_a_pair_is_watched_where_it_is_shown() -> None:
    """By the input that shows it, by those of its ring, and as long as they last."""
    here, there, other = Host("10.0.0.1"), Host("10.0.0.2"), Host("10.0.0.3")
    names = ("ring1", "ring2", "elsewhere")
    spans = seconds((1, 10), (10.2, 20), (1, 100))
    coverage = Coverage(names)
    for file, (begin, _) in enumerate(spans):
        coverage.begin(file, begin)
    coverage.note(Conversation(here, there).active(5, "REQ"))
    coverage.note(Conversation(other, there).active(6, "REQ", file=2))
    ports = (here.address, there.address)

    def watched(begin: float, end: float) -> float:
        return coverage.watched(ports, moment(begin), moment(end)) / SECOND

    assert watched(2, 9) == 7  # nothing has ended
    coverage.end(0, spans[0][1])
    assert watched(2, 15) == 13
    assert watched(10.1, 15) == 4.9  # from between the files on
    coverage.end(1, spans[1][1])
    assert watched(2, 20) == 18
    assert watched(2, 50) == 18
    assert watched(30, 50) == 0
    assert watched(0, 5) == 0
    assert coverage.watched(ports[::-1], moment(2), moment(9)) == 7 * SECOND
    assert coverage.watched((there.address, other.address), moment(2), moment(90)) == 88 * SECOND
    assert coverage.watched((here.address, other.address), moment(2), moment(9)) == 0
    assert [coverage.input_at(0, moment(at)) for at in (5, 15)] == [0, 1]


def test_one_input_is_all_that_there_is() -> None:
    ports = (Host("10.0.0.1").address, Host("10.0.0.2").address)
    assert Coverage().watched(ports, 0, 50) == 50
    assert Coverage(["a"]).watched(ports, 0, 50) == 50


def test_where_an_input_begins_that_cannot_be_read_twice() -> None:
    """With its first CM message, as far as is known."""
    coverage = Coverage(["-", "a"])
    coverage.begin(1, moment(0))
    req = Conversation().active(5, "REQ")
    coverage.note(req)
    ports = (req.source, req.destination)
    assert coverage.watched(ports, moment(5), moment(9)) == 4 * SECOND
    assert coverage.watched(ports, moment(4), moment(9)) == 0


# -- rules -------------------------------------------------------------------------------------------------------------


def another(talk: Conversation, time: float = 200) -> None:
    """A later connection of the same hosts: the second piece shows them too."""
    talk.another().establish(time)


def dreq_once(talk: Conversation) -> None:
    talk.establish()
    talk.active(10, "DREQ")
    another(talk)


def promise(talk: Conversation) -> None:
    talk.active(0, "REQ")
    talk.passive(1, "MRA")
    another(talk)


def unanswered(talk: Conversation) -> None:
    talk.repeat(talk.active(0, "REQ", max_cm_retries=2), every=5, count=2)
    another(talk)


def unconfirmed(talk: Conversation) -> None:
    talk.active(0, "REQ", max_cm_retries=2)
    talk.repeat(talk.passive(0.01, "REP"), every=5, count=2)
    another(talk)


def no_drep(talk: Conversation) -> None:
    talk.establish(max_cm_retries=2)
    talk.repeat(talk.active(1, "DREQ"), every=4.5, count=2)
    another(talk)


def no_dreq_after_rej_10(talk: Conversation) -> None:
    talk.establish()
    later = talk.another(active_qpn=talk.qpns["active"])
    later.active(9.99, "REQ")
    later.passive(10, "REJ", reason=10)
    another(talk)


def stale_accepted(talk: Conversation) -> None:
    talk.establish(10)
    later = talk.another(active_qpn=talk.qpns["active"])
    later.active(200, "REQ")
    later.passive(200.01, "REP")


def stale_rep_accepted(talk: Conversation) -> None:
    talk.establish(10)
    talk.another(passive_qpn=talk.qpns["passive"]).establish(200)


def same_comm_id(talk: Conversation) -> None:
    talk.establish(10)
    talk.another().active(200, "REQ", local_comm_id=talk.comm_ids["active"], tid=99)


def same_passive_comm_id(talk: Conversation) -> None:
    talk.establish(10)
    later = talk.another()
    later.comm_ids["passive"] = talk.comm_ids["passive"]
    later.establish(200)


def reused_after_lapse(talk: Conversation) -> None:
    talk.establish(0, max_cm_retries=0, primary_local_ack_timeout=20)
    talk.active(10, "DREQ")
    later = talk.another(active_qpn=talk.qpns["active"])
    later.active(21, "REQ")


def rejected_and_accepted(talk: Conversation) -> None:
    talk.active(9.99, "REQ")
    talk.passive(10, "REJ")
    talk.passive(50, "REP")


def rtu_for_another_rep(talk: Conversation) -> None:
    talk.active(0, "REQ")
    talk.passive(10, "REP")
    talk.active(50, "RTU", remote_comm_id=0x1234)


def after_the_end(talk: Conversation) -> None:
    talk.establish()
    talk.close(10)
    talk.active(50, "LAP")


def rep_alone(talk: Conversation) -> None:
    talk.another().establish(0)
    talk.another().establish(10)
    talk.passive(400, "REP")


def late_rep(talk: Conversation) -> None:
    talk.another().establish(0)
    talk.active(10, "REQ")
    talk.passive(50, "REP")


def late_rtu(talk: Conversation) -> None:
    talk.active(9.99, "REQ")
    talk.passive(10, "REP")
    talk.active(50, "RTU")


def late_answer_to_an_mra(talk: Conversation) -> None:
    talk.active(9, "REQ")
    talk.passive(10, "MRA", service_timeout=20)
    talk.passive(50, "REP")


def rtu_after_rej_10(talk: Conversation) -> None:
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(10, "REJ", reason=10)
    talk.active(50, "RTU")


def repeated_after_drep(talk: Conversation) -> None:
    talk.establish(max_cm_retries=3)
    dreq, _ = talk.close(10)
    talk.again(14.5, dreq)
    talk.again(50, dreq)
    another(talk)


SILENCES: list[tuple[str, Callable[[Conversation], None], tuple[float, float]]] = [
    ("S12", dreq_once, (11, 190)),
    ("R06", promise, (11, 190)),
    ("R06", late_answer_to_an_mra, (11, 40)),
    ("H18", unanswered, (11, 190)),
    ("H05", unconfirmed, (11, 190)),
    ("R07", no_drep, (11, 190)),
    ("S03", no_dreq_after_rej_10, (11, 190)),
    ("S01", stale_accepted, (11, 190)),
    ("S04", stale_rep_accepted, (11, 190)),
    ("T03", same_comm_id, (11, 190)),
    ("X02", same_passive_comm_id, (11, 190)),
    ("T02", reused_after_lapse, (11, 20)),
    ("H02", rejected_and_accepted, (11, 40)),
    ("H04", rtu_for_another_rep, (11, 40)),
    ("H08", after_the_end, (11, 40)),
    ("H01", rep_alone, (11, 390)),
    ("R04", late_rep, (11, 40)),
    ("R05", late_rtu, (11, 40)),
    ("S10", rtu_after_rej_10, (11, 40)),
    ("T06", repeated_after_drep, (15, 40)),
]


@pytest.mark.parametrize(("code", "said", "hole"), SILENCES)
def test_nothing_is_concluded_from_a_hole(
    code: str, said: Callable[[Conversation], None], hole: tuple[float, float]
) -> None:
    """Files of a ring tell what one file would; a capture that was stopped meanwhile does not."""
    talk = Conversation()
    said(talk)
    assert code in run(talk, until=500).codes
    assert code in judged(pieces(talk, (-1, hole[0]), (hole[0] + 0.2, 500))).codes
    assert code in judged(pieces(talk, (hole[0] + 0.2, 500), (-1, hole[0]))).codes
    assert code not in judged(pieces(talk, (-1, hole[0]), (hole[1], 500))).codes
    assert code not in judged(pieces(talk, (hole[1], 500), (-1, hole[0]))).codes


@pytest.mark.parametrize(
    ("said", "hole", "outcome", "in_sight"),
    [
        (unanswered, (11, 190), "connecting", "timed_out"),
        (unconfirmed, (11, 190), "connecting", "timed_out"),
        (dreq_once, (11, 190), "closed", "half_open"),
    ],
)
def test_what_became_of_it_in_a_hole_is_not_known(
    said: Callable[[Conversation], None], hole: tuple[float, float], outcome: str, in_sight: str
) -> None:
    talk = Conversation()
    said(talk)
    assert judged(pieces(talk, (-1, hole[0]), (hole[0] + 0.2, 500))).connections[0].outcome == in_sight
    assert judged(pieces(talk, (-1, hole[0]), (hole[1], 500))).connections[0].outcome == outcome


def test_silence_as_long_as_it_was_recorded() -> None:
    """S12: 60 s of it are enough, whatever came after."""
    talk = Conversation()
    dreq_once(talk)
    finding = judged(pieces(talk, (-1, 70), (150, 500))).only("S12")
    assert "in the 60 s that followed" in finding.message


def test_the_end_of_another_capture_is_not_the_end_of_this_one() -> None:
    """S12: a target's capture ends right after the DREQ; that of another target goes on."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.establish()
    talk.active(10, "DREQ")
    elsewhere = talk.another(talk.hosts["active"], Host("10.0.0.3"))
    elsewhere.active(5, "REQ", file=1)
    elsewhere.passive(5.01, "REP", file=1)
    elsewhere.active(5.02, "RTU", file=1)
    assert "S12" in run(talk, until=500).codes
    first, second = ([item for item in talk.capture if item.file == file] for file in (0, 1))
    recordings = [Recording(first, -1, 11), Recording(second, -1, 500)]  # type: ignore[arg-type]
    assert "S12" not in judged(recordings).codes


def test_a_connection_older_than_the_hole() -> None:
    """S08: it may have been opened while nobody was recording."""
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    later = talk.another()
    later.active(200, "REQ")
    later.passive(200.01, "REJ", reason=10)
    assert {
        finding.severity for finding in (run(talk).only("S08"), judged(pieces(talk, (-1, 11), (190, 300))).only("S08"))
    } == {"info"}


def pieces(talk: Conversation, *spans: tuple[float, float]) -> list[Recording]:
    """One capture in pieces."""
    said = sorted((item for item in talk.capture if isinstance(item, CmMessage)), key=lambda item: item.time)
    return [
        Recording([replace(item, file=file) for item in said if moment(begin) <= item.time <= moment(end)], begin, end)
        for file, (begin, end) in enumerate(spans)
    ]


# -- anything ----------------------------------------------------------------------------------------------------------


def cut(recording: Recording, rng: Random, *, holes: bool) -> list[Recording]:
    """A recording in up to four pieces: files of a ring, or with times between them when it did not run."""
    begin = recording.start
    cuts = sorted(rng.uniform(begin + 50, recording.end - 300) for _ in range(rng.choice((0, 1, 1, 3))))
    found = []
    for end in [*cuts, recording.end]:
        if end - begin > 0.1:
            found.append((begin, end))
        begin = end + (rng.choice((0.0, rng.uniform(1, 5), rng.uniform(0, 100))) if holes else 0.0)
    if holes and len(found) > 1 and rng.random() < 0.2:
        del found[rng.randrange(len(found))]
    made = [
        Recording([item for item in recording.items if moment(begin) < item.time <= moment(end)], begin, end)
        for begin, end in found
    ]
    # Nothing tells of the clock of a piece without a message; by chance it might seem to continue the other capture.
    return [piece for piece in made if any(isinstance(item, CmMessage) for item in piece.items)] if holes else made


def numbered(recordings: list[Recording]) -> list[Recording]:
    return [
        recording._replace(items=[replace(item, file=file) for item in recording.items])
        for file, recording in enumerate(recordings)
    ]


def drawn(seed: int, kind: str) -> tuple[World, list[Recording], Random]:
    """A world, and what is given to the analysis: the capture of one end, or of both."""
    rng = Random(seed)
    world = World(seed, kind, both_ends=True, mended=("late", "doubled"))
    return world, world.recordings if rng.random() < 0.6 else [rng.choice(world.recordings)], rng


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_accused_however_the_captures_are_cut(kind: str) -> None:
    """At one end or at both; no loss is named that was none."""
    for seed in range(WORLDS):
        world, ends, rng = drawn(seed, kind)
        parts = [part for end in ends for part in cut(end, rng, holes=True)]
        rng.shuffle(parts)
        if not parts:
            continue
        shown = {
            (file, item.frame): world.taps[item.file].shown[item.frame]
            for file, part in enumerate(parts)
            for item in part.items
        }
        for finding in judged(numbered(parts), world.policy).findings:
            packets = [shown[frame] for frame in finding.frames]
            judgement = truth.judged(finding, world.truth.deeds, packets)
            assert judgement is None or judgement.verdict == "true", (seed, finding.message)
            assert finding.code != "C05" or set(packets) <= world.lost_between, (seed, finding.message)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ring_is_one_capture(kind: str) -> None:
    """The findings are those of one file each, at one end or at both."""
    for seed in range(WORLDS // 2):
        world, ends, rng = drawn(seed, kind)
        ends = numbered(ends)
        parts = [part for end in ends for part in cut(end, rng, holes=False)]
        rng.shuffle(parts)
        whole, ring = judged(ends, world.policy), judged(numbered(parts), world.policy)
        assert [(c.outcome, c.history) for c in ring.connections] == [(c.outcome, c.history) for c in whole.connections]
        several = len(ends) > 1
        told = [(f.code, f.severity, f.connection) for f in ring.findings if several or f.code != "X05"]
        known = [(f.code, f.severity, f.connection) for f in whole.findings if several or f.code != "X05"]
        assert without_copies(told) == without_copies(known), seed


def without_copies(findings: list[tuple[str, str, int | None]]) -> list[tuple[str, str, int | None]]:
    """X05 is told for each two inputs."""
    return sorted(finding for finding in findings if finding[0] != "X05")  # type: ignore[type-var]


def test_times_are_as_in_the_conversation() -> None:
    assert moment(1.5) == FIRST_DAY + 1_500_000_000
