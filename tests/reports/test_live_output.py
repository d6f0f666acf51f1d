"""Who is told what: filters, severities, and who follows."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, Records, inputs_of

from ibcmtool.engine.engine import Engine
from ibcmtool.model import Event, Finding
from ibcmtool.reports.live_output import Output
from ibcmtool.views.filters import Filter


class Renderer:
    """Remembers what it is shown."""

    shows_hints = False

    def __init__(self, *, follows: bool = True) -> None:
        self.follows = follows
        self.events: list[Event] = []
        self.findings: list[str] = []

    def received(self, received: Any) -> None: ...

    def event(self, event: Event) -> None:
        self.events.append(event)

    def finding(self, finding: Finding, time: int) -> None:
        self.findings.append(finding.code)

    def connection(self, connection: Any) -> None: ...

    def refresh(self, now: int | None) -> None: ...

    def close(self, inputs: Any, digest: Any) -> None: ...


def finding(code: str, connection: int | None) -> Finding:
    return Finding(code, "name", "warning", "certain", "both", connection, (), (), "message", "advice", {})


@pytest.fixture
def events() -> list[Event]:
    """The REQs of two connections."""
    talk, records = Conversation(), Records()
    engine = Engine(inputs_of([]), records)
    engine.take(talk.active(0, "REQ"))
    engine.take(talk.another().active(1, "REQ"))
    return records.events


def test_a_filter_leaves_out_other_connections_and_the_whole(events: list[Event]) -> None:
    """What concerns the whole capture is no matter of the connection that moved last."""
    front = Renderer()
    output = Output(front, "relaxed", Filter(connection=(1,)), "info")
    for event in events:
        output.event(event)
        output.finding(finding("S02", event.connection.id), event)
    output.finding(finding("X04", None), None)
    assert [event.connection.id for event in front.events] == [1]
    assert front.findings == ["S02"]
    assert dict(output.severities) == {"warning": 1}


def test_without_a_filter_everything_is_told(events: list[Event]) -> None:
    front = Renderer()
    output = Output(front, "relaxed", Filter(), "info")
    for event in events:
        output.event(event)
    output.finding(finding("X04", None), None)
    assert front.events == events
    assert front.findings == ["X04"]


def test_findings_below_the_least_severity_are_counted_but_not_told(events: list[Event]) -> None:
    front = Renderer()
    output = Output(front, "relaxed", Filter(), "error")
    output.finding(finding("S02", 1), events[0])
    assert front.findings == []
    assert dict(output.severities) == {"warning": 1}


@pytest.mark.parametrize("follows", [False, True])
def test_it_follows_for_its_front_or_its_recording(*, follows: bool) -> None:
    recording: Any = object()
    assert Output(Renderer(follows=follows), "relaxed", Filter(), "info").follows is follows
    assert Output(Renderer(follows=follows), "relaxed", Filter(), "info", recording=recording).follows
