"""A live session: what it hands on, how time passes in it, what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibcmtool.analysis import analyze
from ibcmtool.connections.tracker import Tracker
from ibcmtool.live import session as session_module
from ibcmtool.live.session import Heard, Session
from ibcmtool.model import CmMessage, Connection, Event, Finding, Frame, InputInfo
from ibcmtool.sources import Attention, open_capture
from ibcmtool.sources.live import Arrival


def source(**given: Any) -> Any:
    return SimpleNamespace(**{"name": "test", "speed": 1.0, "made_up": False, "dropped": 0, "notes": [], **given})


def arrivals(path: Path) -> list[Arrival]:
    with open_capture(str(path), 0) as capture:
        return [Arrival(frame) for frame in capture.scan(Attention())]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time of the machine."""
    now = [1000.0]
    monkeypatch.setattr(session_module.time, "monotonic", lambda: now[0])

    def pass_(seconds: float) -> None:
        now[0] += seconds

    return pass_


def test_the_same_findings_as_an_analysis(captures: Path) -> None:
    """Frame numbers are those of the messages kept: in this capture all are CM messages."""
    for name in ("nvme_host_crash_stale", "stale_req_dup_dreq_edge", "timewait_qpn_reuse"):
        path = captures / f"{name}.pcap"
        session = Session([source()], "relaxed")
        records = [*session.take(0, arrivals(path)), *session.finish()]
        analysis = analyze([str(path)])
        findings = [record for record in records if isinstance(record, Finding)]
        assert sorted(finding.message for finding in findings) == sorted(f.message for f in analysis.findings)
        ended = [record for record in records if isinstance(record, Connection)]
        assert sorted(one.id for one in ended) == [one.id for one in analysis.connections]
        assert [one.outcome for one in sorted(ended, key=lambda one: one.id)] == [
            one.outcome for one in analysis.connections
        ]


def test_what_is_heard_comes_before_its_event(captures: Path) -> None:
    session = Session([source()], "relaxed")
    records = list(session.take(0, arrivals(captures / "rping.pcap")))
    heard = [record for record in records if isinstance(record, Heard)]
    assert [one.number for one in heard] == [1, 2, 3, 4, 5]
    for before, record in pairwise(records):
        if isinstance(record, Event) and record.step is not None:
            assert isinstance(before, Heard)
            assert before.number == record.step.message.frame
    info = session.sources[0].info
    assert info.cm_messages == 5


def test_a_finding_comes_when_the_time_has_come(captures: Path, clock: Callable[[float], None]) -> None:
    """A REQ that nobody answers: with no further packet, what is overdue is told as the clock goes on."""
    session = Session([source()], "relaxed")
    heard = list(session.take(0, arrivals(captures / "server_blackhole_req_timeout.pcap")))
    assert not [record for record in heard if isinstance(record, (Finding, Connection))]
    clock(3)
    assert list(session.pass_time()) == []
    clock(7)
    told = [record for record in session.pass_time() if not isinstance(record, Event)]
    assert [record.code for record in told if isinstance(record, Finding)] == ["H18"]
    clock(3600)
    ended = [record for record in session.pass_time() if isinstance(record, Connection)]
    assert [record.outcome for record in ended] == ["timed_out"]


def test_time_stands_still_before_the_first_packet(clock: Callable[[float], None]) -> None:
    session = Session([source()], "relaxed")
    clock(100)
    assert session.now() is None
    assert list(session.pass_time()) == []


def test_a_replay_lets_time_pass_faster(captures: Path, clock: Callable[[float], None]) -> None:
    session = Session([source(speed=10.0)], "relaxed")
    first = arrivals(captures / "rping.pcap")[0]
    list(session.take(0, [first]))
    clock(2)
    now = session.now()
    assert now is not None
    assert now - first.frame.time == 20_000_000_000


def test_made_up_packets_prove_nothing(captures: Path) -> None:
    """The PSN and the ICRC around a bare MAD are ours."""
    session = Session([source(made_up=True)], "relaxed")
    records = list(session.take(0, arrivals(captures / "rping.pcap")))
    messages = [one.item for one in records if isinstance(one, Heard) and isinstance(one.item, CmMessage)]
    assert len(messages) == 5
    assert {(message.psn, message.icrc_ok, message.headers) for message in messages} == {(None, None, b"")}


def test_the_memory_has_an_end(captures: Path) -> None:
    """500 connections where 20 are allowed: the oldest are told as ended, none is lost, and it is counted."""
    tracker = Tracker(most=20)
    session = Session([source()], "relaxed", tracker)
    records = [*session.take(0, arrivals(captures / "cmtime_500conn.pcap")), *session.finish()]
    ended = [record for record in records if isinstance(record, Connection)]
    assert len(ended) >= 500
    assert tracker.evicted > 400
    assert len({one.id for one in ended}) == len(ended)


def test_the_end_tells_of_the_inputs() -> None:
    session = Session([source(name="a", dropped=3), source(name="b")], "relaxed")
    list(session.take(1, [Arrival(Frame(0, 1, 5, 1, b"no CM message", 13))]))
    infos = [record for record in session.finish() if isinstance(record, InputInfo)]
    told = [(info.path, info.frames, info.cm_messages, info.dropped) for info in infos]
    assert told == [("a", 0, 0, 3), ("b", 1, 0, 0)]
