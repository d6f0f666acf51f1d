"""A live session: what it hands on, how time passes in it, what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine import live as live_engine
from ibcmtool.engine.files import analyze
from ibcmtool.engine.live import Session
from ibcmtool.engine.sink import Received, Sink
from ibcmtool.model import Connection, Event
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.sources.files import ScanRequest, open_capture

Kind = TypeVar("Kind")


def source(**given: Any) -> Any:
    return SimpleNamespace(
        **{
            "name": "test",
            "speed": 1.0,
            "made_up": False,
            "sees_host": False,
            "end_time": None,
            "dropped": 0,
            "notes": [],
            **given,
        }
    )


def frames(path: Path) -> list[Frame]:
    with open_capture(str(path), 0) as capture:
        return list(capture.scan(ScanRequest()))


class Records(Sink):
    """Everything that a session told, in order."""

    def __init__(self) -> None:
        self.told: list[Received | Event | Finding | Connection | InputInfo] = []
        self.received = self.event = self.connection = self.input = self.told.append

    def finding(self, finding: Finding, event: Event | None) -> None:
        self.told.append(finding)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [record for record in self.told if type(record) is kind]


def begin(*sources: Any, most: int | None = None) -> tuple[Session, Records]:
    session = Session(sources or [source()], "relaxed", most=most)
    session.engine.sink = records = Records()
    return session, records


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time of the machine."""
    now = [1000.0]
    monkeypatch.setattr(live_engine.time, "monotonic", lambda: now[0])

    def pass_(seconds: float) -> None:
        now[0] += seconds

    return pass_


def test_the_same_findings_as_an_analysis(captures: Path) -> None:
    """Frame numbers are those of the messages kept: in this capture all are CM messages."""
    for name in ("nvme_host_crash_stale", "stale_req_dup_dreq_edge", "timewait_qpn_reuse"):
        path = captures / f"{name}.pcap"
        session, records = begin()
        session.take(0, frames(path))
        session.finish()
        analysis = analyze([str(path)])
        assert sorted(one.message for one in records.of(Finding)) == sorted(one.message for one in analysis.findings)
        ended = records.of(Connection)
        assert sorted(one.id for one in ended) == [one.id for one in analysis.connections]
        assert [one.outcome for one in sorted(ended, key=lambda one: one.id)] == [
            one.outcome for one in analysis.connections
        ]


def test_what_is_heard_comes_before_its_event(captures: Path) -> None:
    session, records = begin()
    session.take(0, frames(captures / "rping.pcap"))
    assert [one.number for one in records.of(Received)] == [1, 2, 3, 4, 5]
    for before, record in pairwise(records.told):
        if isinstance(record, Event) and record.step is not None:
            assert isinstance(before, Received)
            assert before.number == record.step.message.frame
    info = session.sources[0].info
    assert info.cm_messages == 5


def test_a_finding_comes_when_the_time_has_come(captures: Path, clock: Callable[[float], None]) -> None:
    """A REQ that nobody answers: with no further packet, what is overdue is told as the clock goes on."""
    session, records = begin()
    session.take(0, frames(captures / "server_blackhole_req_timeout.pcap"))
    assert not records.of(Finding) and not records.of(Connection)
    records.told.clear()
    clock(3)
    session.pass_time()
    assert records.told == []
    clock(7)
    session.pass_time()
    assert [finding.code for finding in records.of(Finding)] == ["H18"]
    clock(3600)
    session.pass_time()
    assert [connection.outcome for connection in records.of(Connection)] == ["timed_out"]


def test_time_stands_still_before_the_first_packet(clock: Callable[[float], None]) -> None:
    session, records = begin()
    clock(100)
    assert session.now() is None
    session.pass_time()
    assert records.told == []


def test_a_replay_lets_time_pass_faster(captures: Path, clock: Callable[[float], None]) -> None:
    session, _ = begin(source(speed=10.0))
    first = frames(captures / "rping.pcap")[0]
    session.take(0, [first])
    clock(2)
    now = session.now()
    assert now is not None
    assert now - first.time == 20_000_000_000


def test_made_up_packets_prove_nothing(captures: Path) -> None:
    """The PSN and the ICRC around a bare MAD are ours."""
    session, records = begin(source(made_up=True))
    session.take(0, frames(captures / "rping.pcap"))
    messages = [one.item for one in records.of(Received) if isinstance(one.item, CmMessage)]
    assert len(messages) == 5
    assert {(message.psn, message.icrc_ok, message.headers) for message in messages} == {(None, None, b"")}


def test_the_memory_has_an_end(captures: Path) -> None:
    """500 connections where 20 are allowed: the oldest are told as ended, none is lost, and it is counted."""
    session, records = begin(most=20)
    session.take(0, frames(captures / "cmtime_500conn.pcap"))
    session.finish()
    ended = records.of(Connection)
    assert len(ended) >= 500
    assert session.engine.evicted > 400
    assert len({one.id for one in ended}) == len(ended)


def test_the_end_tells_of_the_inputs() -> None:
    session, records = begin(source(name="a", dropped=3), source(name="b"))
    session.take(1, [Frame(0, 1, 5, 1, b"no CM message", 13)])
    session.finish()
    told = [(info.path, info.frames, info.cm_messages, info.dropped) for info in records.of(InputInfo)]
    assert told == [("a", 0, 0, 3), ("b", 1, 0, 0)]
