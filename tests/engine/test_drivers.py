"""Property: a capture says the same through both drivers of the engine, whether it is read as a file or comes live.

What differs, and why:

* Frame numbers. A live source has no file in which to look a number up, so messages and data packets are numbered as
  they come; what announces a neighbour is no packet that is kept.
* Inputs. A live source counts the packets that it delivered, and knows neither link types nor damage: what could not
  be read it says in its notes, on stderr, where C01 says it of a file.
* The packets that a live source passes over are not counted among its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conversation import Records

from ibcmtool.analysis import Finding
from ibcmtool.engine.files import analyze
from ibcmtool.engine.live import Session
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, End
from ibcmtool.packets import Frame
from ibcmtool.sources.files import ScanRequest, open_capture
from ibcmtool.sources.live import LiveSource, source_of
from ibcmtool.sources.live.reading import Reading

CAPTURES = sorted((Path(__file__).resolve().parents[2] / "captures").glob("*/*.pcap*"))
BATCHES = (1, 7, 10_000)
PATIENCE = 20


class Numbers(Records):
    """Also remembers which frame of the capture each number stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: dict[int, int] = {}

    def received(self, received: Received) -> None:
        self.frames[received.number] = received.frame.number


def frames_of(path: Path) -> list[Frame]:
    with open_capture(str(path), 0) as capture:
        return list(capture.scan(ScanRequest(everything=True)))


def live(path: Path, batch: int, *, redact: bool = False) -> Numbers:
    """The capture as a live source delivers it that keeps up: data packets, too, in batches of this size."""
    source: Any = SimpleNamespace(
        name=str(path), speed=0.0, made_up=False, sees_host=False, end_time=None, dropped=0, notes=[]
    )
    session, records = Session([source], "relaxed", redact=redact), Numbers()
    session.engine.sink = records
    frames = frames_of(path)
    for begin in range(0, len(frames), batch):
        session.take(0, frames[begin : begin + batch])
    session.engine.advance(max((frame.time for frame in frames), default=0))
    session.finish()
    return records


def read(source: LiveSource) -> Numbers:
    """What comes of a source that runs in its thread, as fast as it can."""
    session, records = Session([source], "relaxed"), Numbers()
    session.engine.sink = records
    with Reading([source], session.watched) as reading:
        ended = False
        while not ended:
            batch = reading.next(PATIENCE)
            assert batch is not None
            assert batch.error is None
            session.take(batch.source, batch.frames)
            ended = batch.ended
    session.end(0)
    session.finish()
    return records


def end(end: End) -> tuple[object, ...]:
    return end.address, end.state, end.ca_guid, end.qpn, end.comm_id, end.name, end.timewait, end.implementation


def content(connection: Connection, frames: dict[int, int]) -> tuple[object, ...]:
    """All of a connection but the numbers of its frames, which are looked up in `frames`."""
    steps = [
        (
            frames.get(step.message.frame, step.message.frame),
            replace(step.message, frame=0),
            step.sender,
            step.disposition,
            step.active_state,
            step.passive_state,
            len(step.sightings),
        )
        for step in connection.steps
    ]
    data = {role: replace(packet, frame=0) for role, packet in connection.first_data.items()}
    times = connection.opened, connection.established, connection.closed
    ends = end(connection.active), end(connection.passive)
    return connection.id, ends, connection.outcome, connection.history, times, steps, data


def said(finding: Finding, frames: dict[int, int]) -> tuple[object, ...]:
    """All of a finding but what names the frames in its text and numbers."""
    places = [(file, frames.get(frame, frame)) for file, frame in finding.frames]
    who = finding.connection, finding.related
    about = finding.severity, finding.confidence, finding.policy, finding.time, sorted(finding.evidence)
    return finding.code, who, places, about, finding.advice


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_files_and_live_say_the_same(path: Path, redact: bool) -> None:
    analysis = analyze([str(path)], redact=redact)
    findings = sorted(str(said(finding, {})) for finding in analysis.findings)
    connections = [content(connection, {}) for connection in analysis.connections]
    counts = [(info.cm_messages, info.cut_messages) for info in analysis.inputs]
    for batch in BATCHES:
        records = live(path, batch, redact=redact)
        found = [*records.findings, *records.of_inputs]
        assert sorted(str(said(finding, records.frames)) for finding in found) == findings
        assert [content(connection, records.frames) for connection in records.result().connections] == connections
        assert [(info.cm_messages, info.cut_messages) for info in records.inputs] == counts


@pytest.mark.parametrize("name", ["-", "replay"])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_source_that_reads_ahead_says_the_same(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows which data packets are worth delivering only when the messages before them have been looked at."""
    analysis = analyze([str(path)])
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file, closed=False, isatty=lambda: False))
        records = read(source_of("-" if name == "-" else f"replay:{path}@0"))
    found = sorted(str(said(finding, records.frames)) for finding in [*records.findings, *records.of_inputs])
    assert found == sorted(str(said(finding, {})) for finding in analysis.findings)
    assert [content(connection, records.frames) for connection in records.result().connections] == [
        content(connection, {}) for connection in analysis.connections
    ]
