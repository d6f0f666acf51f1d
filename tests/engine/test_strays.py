"""A single frame from the future, and a clock that is set back: they close nothing, accuse nobody, and are told.

In files and live, by the same captures.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conversation import Records

from ibcmtool.analysis import Finding
from ibcmtool.engine import live as live_engine
from ibcmtool.engine.files import analyze
from ibcmtool.engine.live import Session
from ibcmtool.formatting import SECOND
from ibcmtool.packets import Frame
from ibcmtool.sources.files import ScanRequest, open_capture
from ibcmtool.sources.files.strays import LEAP, Strays

HOUR = 3600 * SECOND
CAPTURES = Path(__file__).resolve().parents[2] / "captures" / "linux-rxe"
NAMES = ("rep_lost_retransmit", "server_blackhole_req_timeout", "stale_req_dup_dreq_edge", "timewait_qpn_reuse")
Told = list[tuple[str, str]]  # outcome and history


def frames_of(name: str) -> list[Frame]:
    with open_capture(str(CAPTURES / f"{name}.pcap"), 0) as capture:
        return list(capture.scan(ScanRequest()))


def dated(frames: Sequence[Frame], ahead: int, numbers: Iterable[int]) -> list[Frame]:
    """The frames at these places are dated so far (ns) ahead."""
    chosen = set(numbers)
    return [frame._replace(time=frame.time + ahead * (at in chosen)) for at, frame in enumerate(frames)]


def in_file(frames: Sequence[Frame], path: Path) -> tuple[Told, list[Finding]]:
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    for _, _, time, _, data, *_ in frames:
        parts += [struct.pack("<4I", *divmod(time, SECOND), len(data), len(data)), data]
    path.write_bytes(b"".join(parts))
    analysis = analyze([str(path)])
    return [(one.outcome, one.history) for one in analysis.connections], analysis.findings


def grave(findings: Iterable[Finding]) -> set[tuple[str, int | None]]:
    return {(one.code, one.connection) for one in findings if one.severity != "info"}


class Live:
    """A session whose machine's clock goes on by the times of the frames, as that of a real one does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(live_engine.time, "monotonic", lambda: self.now)
        source: Any = SimpleNamespace(
            name="-", speed=1.0, made_up=False, sees_host=False, end_time=None, dropped=0, notes=[]
        )
        self.notes: list[str] = source.notes
        self.session, self.records = Session([source], "relaxed"), Records()
        self.session.engine.sink = self.records

    def pass_(self, seconds: float) -> None:
        for _ in range(4):
            self.now += seconds / 4
            self.session.pass_time()

    def take(self, frames: Sequence[Frame], true: Sequence[Frame]) -> None:
        """One by one, at the pace of the true ones."""
        for at, (frame, real) in enumerate(zip(frames, true, strict=True)):
            if at:
                self.pass_((real.time - true[at - 1].time) / SECOND)
            self.session.take(0, [frame])

    def told(self) -> Told:
        self.session.finish()
        return [(one.outcome, one.history) for one in self.records.result().connections]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    return Live(monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_from_the_future_in_a_file(name: str, tmp_path: Path) -> None:
    true = frames_of(name)
    whole, found = in_file(true, tmp_path / "whole.pcap")
    for at in range(1, len(true) - 1):
        told, findings = in_file(dated(true, HOUR, [at]), tmp_path / "stray.pcap")
        assert told == whole
        assert grave(findings) <= grave(found)
        (x06,) = [one for one in findings if one.code == "X06"]
        assert (x06.frames, "is dated 1 h ahead" in x06.message) == (((0, at + 1),), True)


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_from_the_future_live(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = frames_of(name)
    usual = Live(monkeypatch)
    usual.take(true, true)
    whole, found = usual.told(), usual.records.findings
    for at in range(1, len(true) - 1):
        live = Live(monkeypatch)
        live.take(dated(true, HOUR, [at]), true)
        assert live.told() == whole
        assert grave(live.records.findings) <= grave(found)
        assert live.notes[-1].startswith(f"-: message {at + 1} is dated 1 h ahead")
        assert [one.code for one in live.records.of_inputs if "ahead" in one.message] == ["X06"]


def test_it_is_told_at_once_and_does_not_wait_for_ever(live: Live) -> None:
    true = frames_of("rping")
    live.take(dated(true[:3], HOUR, [2]), true[:3])
    live.pass_(0.2)
    (note,) = live.notes
    assert note == "-: a packet is dated 1 h ahead of the one before; its time counts if the next one goes on there"
    live.pass_(6)
    assert live.notes[1:] == ["-: message 3 is dated 1 h ahead of the one before, and taken as of that"]
    assert [one.history for one in live.records.result().connections] == ["QpU"]
    live.session.take(0, true[3:])
    assert live.told() == [("closed", "QpUDe")]


def test_it_closes_nothing_at_the_end(live: Live) -> None:
    true = frames_of("server_blackhole_req_timeout")[:4]
    live.take(dated(true, HOUR, [3]), true)
    assert live.told() == [("connecting", "Q^Q^Q^Q")]


def test_a_source_that_goes_on_there_was_right(live: Live) -> None:
    """A program hands on an old capture in fits: its pause was none of the machine's."""
    first, later = (
        frames_of("rping"),
        [frame._replace(time=frame.time + HOUR) for frame in frames_of("no_listener_rej")],
    )
    live.session.take(0, [*first, later[0]])
    live.pass_(1)
    live.session.take(0, later[1:])
    assert live.session.now() == later[1].time
    assert live.told() == [("closed", "QpUDe"), ("rejected", "Qj")]


def test_a_real_pause_is_none(live: Live) -> None:
    true = frames_of("rping")
    later = [frame._replace(time=frame.time + HOUR) for frame in frames_of("no_listener_rej")]
    live.take([*true, *later], [*true, *later])
    assert live.notes == []
    assert live.told() == [("closed", "QpUDe"), ("rejected", "Qj")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("back", [HOUR, 20 * SECOND])
def test_a_clock_that_is_set_back(name: str, back: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = frames_of(name)
    usual = Live(monkeypatch)
    usual.take(true, true)
    whole, found = usual.told(), usual.records.findings
    for at in range(1, len(true)):
        shown = dated(true, -back, range(at, len(true)))
        live = Live(monkeypatch)
        live.take(shown, true)
        assert "time went back by" in live.notes[0]
        for told, findings in [(live.told(), live.records.findings), in_file(shown, tmp_path / "back.pcap")]:
            assert [history for _, history in told] == [history for _, history in whole]
            assert grave(findings) <= grave(found)
        assert all((one.lasted() or 0) >= 0 for one in live.records.result().connections)


def test_nothing_is_closed_while_the_old_time_comes_again(live: Live) -> None:
    """An attempt that has begun before the clock was set back, and one behind it: both have all their time."""
    true = frames_of("server_blackhole_req_timeout")
    live.take(dated(true, -HOUR, range(8, 16)), true)
    live.pass_(3)
    assert [one.outcome for one in live.records.result().connections] == ["connecting"]
    live.session.take(0, [frame._replace(time=true[-1].time - HOUR + SECOND) for frame in frames_of("no_listener_rej")])
    live.pass_(3)
    assert [one.outcome for one in live.records.result().connections] == ["connecting", "rejected"]


def test_frames_wait_only_where_they_leap() -> None:
    (frame, *_), strays = frames_of("rping"), Strays()
    for ahead, taken in ((0, 1), (LEAP, 1), (0, 1), (LEAP + 1, 0)):
        assert len(strays.take(frame._replace(time=frame.time + ahead))) == taken


@pytest.mark.parametrize(
    ("times", "taken"),
    [
        ([0, 100, 200], [0, 100, 200]),
        ([0, 100, 101], [0, 100, 101]),
        ([0, 100, 1], [0, 0, 1]),
        ([0, 100, 1, 100, 2], [0, 0, 1, 1, 2]),
        ([0, 100, 100, 1], [0, 100, 100, 1]),
        ([0, 300, 100, 101], [0, 0, 100, 101]),
        ([0, 100], [0, 100]),
    ],
)
def test_by_which_times_frames_are_taken(times: list[int], taken: list[int]) -> None:
    (frame, *_), strays = frames_of("rping"), Strays()
    given = [frame._replace(time=time * SECOND) for time in times]
    found = [time for one in given for _, time in strays.take(one)]
    found += [time for _, time in strays.release(stray=False)]
    assert found == [time * SECOND for time in taken]
