"""What stands between a run and its sinks: filters, severities, and who follows."""

from __future__ import annotations

import pytest
from conversation import Conversation, Records, inputs_of

from ibcmtool.analysis import Finding
from ibcmtool.engine.engine import Engine
from ibcmtool.model import Event
from ibcmtool.reports.choice import Choice, Tee
from ibcmtool.reports.sink import Sink
from ibcmtool.views.filters import Filter


class Kept(Sink):
    """Remembers what it is given."""

    def __init__(self, *, follows: bool = True) -> None:
        self.follows = follows
        self.events: list[Event] = []
        self.findings: list[str] = []
        self.closed = 0

    def event(self, event: Event) -> None:
        self.events.append(event)

    def finding(self, finding: Finding, event: Event | None) -> None:
        self.findings.append(finding.code)

    def close(self) -> None:
        self.closed += 1


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
    shown = Kept()
    choice = Choice(shown, Filter(connection=(1,)), "info")
    for event in events:
        choice.event(event)
        choice.finding(finding("S02", event.connection.id), event)
    choice.finding(finding("X04", None), None)
    assert [event.connection.id for event in shown.events] == [1]
    assert shown.findings == ["S02"]
    assert dict(choice.severities) == {"warning": 1}


def test_without_a_filter_everything_is_shown(events: list[Event]) -> None:
    shown = Kept()
    choice = Choice(shown, Filter(), "info")
    for event in events:
        choice.event(event)
    choice.finding(finding("X04", None), None)
    assert shown.events == events
    assert shown.findings == ["X04"]


def test_findings_below_the_least_severity_are_counted_but_not_shown(events: list[Event]) -> None:
    shown = Kept()
    choice = Choice(shown, Filter(), "error")
    choice.finding(finding("S02", 1), events[0])
    assert shown.findings == []
    assert dict(choice.severities) == {"warning": 1}


def test_an_alarm_hears_of_chosen_findings_of_any_severity(events: list[Event]) -> None:
    shown, alarm = Kept(), Kept()
    choice = Choice(shown, Filter(code=("S02",)), "error", alarm)
    choice.finding(finding("S02", 1), events[0])
    choice.finding(finding("X04", 1), events[0])
    assert (shown.findings, alarm.findings) == ([], ["S02"])


def test_a_tee_hands_events_to_those_that_follow_and_everything_else_to_all(events: list[Event]) -> None:
    following, other = Kept(), Kept(follows=False)
    tee = Tee([following, other])
    tee.event(events[0])
    tee.finding(finding("S02", 1), events[0])
    tee.close()
    assert (following.events, other.events) == ([events[0]], [])
    assert following.findings == other.findings == ["S02"]
    assert following.closed == other.closed == 1


@pytest.mark.parametrize("follows", [False, True])
def test_it_follows_for_any_of_its_sinks(*, follows: bool) -> None:
    one = Kept(follows=follows)
    assert Choice(one, Filter(), "info").follows is follows
    assert Tee([one]).follows is follows
    assert Tee([one, Kept()]).follows
