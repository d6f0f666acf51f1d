"""The engine: what it hands out of what it is fed, in which order, and what it keeps to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, Records

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Received, Sink
from ibcmtool.model import Connection, Event
from ibcmtool.packets import CmMessage, DataPacket, Frame
from ibcmtool.sources.files import ScanRequest, open_capture


class Log(Sink):
    """A word for each record, in order."""

    def __init__(self, *, follows: bool = True) -> None:
        self.follows = follows
        self.lines: list[str] = []

    def received(self, received: Received) -> None:
        self.lines.append(f"received {received.number}")

    def event(self, event: Event) -> None:
        self.lines.append(f"event {event.kind}")

    def finding(self, finding: Finding, event: Event | None) -> None:
        self.lines.append(f"finding {finding.code} {'of inputs' if event is None else event.kind}")

    def connection(self, connection: Connection) -> None:
        self.lines.append(f"connection {connection.id} {connection.outcome}")

    def input(self, info: InputInfo) -> None:
        self.lines.append(f"input {info.path} {info.cm_messages}")


def frames(path: Path) -> list[Frame]:
    with open_capture(str(path), 0) as capture:
        return list(capture.scan(ScanRequest(everything=True)))


def test_what_was_received_its_event_and_its_findings_the_inputs_last() -> None:
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2"), active_qpn=0x11)
    old.establish(0)
    new = old.another(active_qpn=0x11)
    new.active(60, "REQ")
    new.passive(60.01, "REJ", reason=10)
    log = Log()
    engine = Engine([InputInfo("a.pcap")], log)
    frame = Frame(0, 1, 0, 1, b"", 0)
    for message in old.capture:
        engine.take(message, frame)
    engine.advance(FIRST_DAY + 3600 * SECOND)
    assert log.lines == [
        *("received 1", "event REQ"),
        *("received 2", "event REP"),
        *("received 3", "event RTU"),
        *("received 4", "event REQ"),
        *("received 5", "event REJ"),
        *("event STALE_DUTY", "finding S02 STALE_DUTY"),
        *("event ENDED", "finding S03 ENDED", "connection 2 rejected"),
    ]
    log.lines.clear()
    engine.finish()
    assert log.lines[:2] == ["event ENDED", "connection 1 stale"]
    assert log.lines[-1] == "input a.pcap 5"


def test_who_does_not_follow_gets_what_came_of_it() -> None:
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    log = Log(follows=False)
    engine = Engine([InputInfo("a.pcap")], log)
    for message in talk.capture:
        engine.take(message, Frame(0, 1, 0, 1, b"", 0))
    engine.finish()
    assert log.lines == ["connection 1 closed", "input a.pcap 5"]


def test_time_brings_what_is_overdue() -> None:
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=4.3, count=1)
    log = Log()
    engine = Engine([InputInfo("a.pcap")], log)
    for message in talk.capture:
        engine.take(message)
    assert "event REQ_EXHAUSTED" not in log.lines
    engine.advance(FIRST_DAY + 60 * SECOND)
    assert log.lines[-2:] == ["event REQ_EXHAUSTED", "finding H18 REQ_EXHAUSTED"]


def test_frames_are_decoded_and_counted(captures: Path) -> None:
    """Under the number that they are given; what is no CM message tells of nothing."""
    records, info = Records(), InputInfo("a.pcap")
    engine = Engine([InputInfo("other.pcap"), info], records)
    message, *_ = frames(captures / "rping.pcap")
    item = engine.feed(message, (1, 77))
    assert isinstance(item, CmMessage)
    assert (item.file, item.frame, info.cm_messages) == (1, 77, 1)
    assert engine.feed(message._replace(data=message.data[:50]), (1, 78)) is None
    assert [event.step and event.step.message.frame for event in records.events] == [77]


def test_data_packets_count_while_their_qpn_is_watched(captures: Path) -> None:
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.establish(0)
    records = Records()
    engine = Engine([InputInfo("a.pcap")], records)
    for message in talk.capture[:2]:
        engine.take(message)
    data = talk.data(0.1, "active")
    assert isinstance(data, DataPacket) and data.dest_qpn in engine.watched
    engine.take(data)
    (connection,) = records.connections.values()
    assert connection.outcome == "established"


def test_what_a_source_makes_up_proves_nothing(captures: Path) -> None:
    records = Records()
    engine = Engine([InputInfo("umad", made_up=True)], records)
    for frame in frames(captures / "rping.pcap"):
        engine.feed(frame)
    messages = [event.step.message for event in records.events if event.step is not None]
    assert len(messages) == 5
    assert {(message.psn, message.icrc_ok, message.headers) for message in messages} == {(None, None, b"")}


def test_nothing_that_names_a_host_comes_out_of_a_redacting_engine(captures: Path) -> None:
    class Frames(Records):
        def received(self, received: Received) -> None:
            seen.append(received.frame.data)

    seen: list[bytes] = []
    engine = Engine([InputInfo("a.pcap")], Frames(), redact=True)
    whole = frames(captures / "nvme_host_crash_stale.pcap")
    items = [engine.feed(frame) for frame in whole]
    named = {frame.data[26:30] for frame in whole} | {frame.data[6:12] for frame in whole}  # IPv4 and MAC sources
    assert seen
    for address in named:
        assert not any(address in data for data in seen)
        assert not any(address in item.mad for item in items if isinstance(item, CmMessage))


def test_only_so_many_connections_are_remembered() -> None:
    talk = Conversation()
    for number in range(10):
        talk.another().establish(number)
    log = Log(follows=False)
    engine = Engine([InputInfo("a.pcap")], log, most=4)
    for message in talk.capture:
        engine.take(message)
    assert log.lines == [f"connection {number} established" for number in range(1, 7)]
    assert engine.evicted == 6
    engine.finish()
    assert [line for line in log.lines if line.startswith("connection")][6:] == [
        f"connection {number} established" for number in range(7, 11)
    ]


@pytest.mark.parametrize(("begins", "ends", "outcome"), [(0, None, "timed_out"), (0, 5, "connecting")])
def test_what_happens_beyond_an_input_is_not_known(begins: int, ends: int | None, outcome: str) -> None:
    """An input that ended cannot show the answer; of several inputs, each covers what it shows."""
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=4.3, count=1)
    records = Records()
    engine = Engine([InputInfo("a.pcap"), InputInfo("b.pcap")], records)
    engine.begins(0, FIRST_DAY + begins * SECOND)
    for message in talk.capture:
        engine.take(message)
    if ends is not None:
        engine.ends(0, FIRST_DAY + ends * SECOND)
    engine.advance(FIRST_DAY + 600 * SECOND)
    (connection,) = records.connections.values()
    assert connection.outcome == outcome


def test_losses_are_those_of_the_input() -> None:
    records = Records()
    engine = Engine([InputInfo("a"), InputInfo("b")], records)
    engine.lost(1, 3)
    engine.lost(1, 5)
    engine.finish()
    assert [info.dropped for info in records.inputs] == [0, 5]
