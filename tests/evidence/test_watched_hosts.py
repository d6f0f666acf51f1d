"""A kernel source sees all CM messages of its own host, unless it loses events."""

from __future__ import annotations

from collections.abc import Container
from threading import Event

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, Records

from ibcmtool.analysis import Finding
from ibcmtool.connections.watched_hosts import MOST_LOSSES, WatchedHosts
from ibcmtool.engine.live import Session
from ibcmtool.packets import Address, CmMessage, Frame
from ibcmtool.sources.live.source import Deliver, LiveSource
from ibcmtool.wire.synthetic import Packets

A, B = Host("10.0.0.1"), Host("10.0.0.2")


class Probe(LiveSource):
    """A kernel source whose events are written down."""

    made_up = True
    sees_host = True

    def open(self) -> None: ...

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None: ...


def frame_of(message: CmMessage, host: Address) -> Frame:
    """The message as a probe on this host hands it on."""
    made = Packets().frame(message.time, message.source, message.destination, message.mad)
    return made._replace(direction="out" if message.source == host else "in")


def watched(talk: Conversation, host: Host, *, lost_before: int | None = None, sees_host: bool = True) -> Session:
    """What a probe on a host makes of it; before which message it counts that it has lost events."""
    probe = Probe("kernel")
    probe.sees_host = sees_host
    session = Session([probe], "relaxed")
    session.engine.sink = Records()
    for at, message in enumerate(talk.capture):
        assert isinstance(message, CmMessage)
        if at == lost_before:
            probe.dropped = 12
        if host.address in (message.source, message.destination):
            session.take(0, [frame_of(message, host.address)])
    session.finish()
    return session


def unanswered_dreq() -> Conversation:
    """B never answers A's one DREQ; they connect again later."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.establish()
    talk.active(1, "DREQ")
    talk.another().establish(100)
    return talk


def s12(session: Session) -> Finding:
    records = session.engine.sink
    assert isinstance(records, Records)
    return records.result().only("S12")


def at(seconds: float) -> int:
    return FIRST_DAY + round(seconds * SECOND)


def test_its_own_host_is_proved_to_have_said_nothing() -> None:
    found = s12(watched(unanswered_dreq(), B))
    assert (found.severity, found.confidence) == ("warning", "certain")


def test_other_hosts_are_not() -> None:
    found = s12(watched(unanswered_dreq(), A))
    assert (found.severity, found.confidence) == ("info", "possible")


def test_nor_is_it_where_the_source_promises_nothing() -> None:
    assert s12(watched(unanswered_dreq(), B, sees_host=False)).confidence == "possible"


@pytest.mark.parametrize(("before", "confidence"), [(0, "certain"), (1, "possible"), (4, "possible")])
def test_lost_events_weaken_what_they_may_belong_to(before: int, confidence: str) -> None:
    found = s12(watched(unanswered_dreq(), B, lost_before=before))
    assert found.confidence == confidence
    assert ("12 events of the host of 10.0.0.2 lost" in found.message) == (confidence == "possible")


@pytest.mark.parametrize(
    ("start", "end", "strength"),
    [
        (0, 1, "proved"),
        (1, 100, "proved"),
        (-1, 1, "unopposed"),  # nobody was watching yet
        (1, 101, "unopposed"),  # what it sends next may be on its way
    ],
)
def test_only_as_long_as_it_was_watched(start: float, end: float, strength: str) -> None:
    witness = watched(unanswered_dreq(), B).engine.judge.context.witness
    assert witness.complete(B.address, at(start), at(end)).strength == strength


def test_many_losses_are_forgotten_but_not_made_good() -> None:
    hosts = WatchedHosts()
    for second in range(MOST_LOSSES + 2):
        hosts.note(0, B.address, second)
        hosts.lost(0, second + 1, 1)
    hosts.note(0, B.address, 1000)
    assert not hosts.missed_nothing(B.address, 0, 1)
    assert hosts.loss(B.address, 0, 1) is None
    assert hosts.missed_nothing(B.address, 500, 1000)


@pytest.mark.parametrize(
    ("sees_host", "lost_before", "severity"), [(True, None, "warning"), (True, 1, "info"), (False, None, "info")]
)
def test_a_host_that_is_watched_shows_both_directions(sees_host: bool, lost_before: int | None, severity: str) -> None:
    """H18: an MRA to the second REQ would have been seen."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.again(6.4, talk.active(0, "REQ"))
    talk.active(10, "REJ", reason=4)
    records = watched(talk, A, sees_host=sees_host, lost_before=lost_before).engine.sink
    assert isinstance(records, Records)
    assert records.result().only("H18").severity == severity
