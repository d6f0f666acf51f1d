"""X04, X06: what captures lack, and in which order they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conversation import FIRST_DAY, SECOND, Conversation, Host, Records

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.files import analyze
from ibcmtool.packets import CmMessage

HOST, TARGET, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def everything(message: CmMessage) -> bool:
    return True


def closing(talk: Conversation, seen: Callable[[CmMessage], bool] = everything) -> list[Finding]:
    """What there is to say at the end of an analysis of the messages that were captured, in the order of the file."""
    records = Records()
    engine = Engine([InputInfo("one.pcap"), InputInfo("two.pcap")], records)
    for message in talk.capture:
        if isinstance(message, CmMessage) and seen(message):
            engine.take(message)
    engine.finish()
    return records.of_inputs


def lives(count: int, talk: Conversation | None = None, start: float = 0) -> Conversation:
    """Whole connections, one after another."""
    talk = talk or Conversation(Host(HOST), Host(TARGET))
    for number in range(count):
        life = talk.another()
        life.establish(start + 10 * number)
        life.close(start + 10 * number + 5)
    return talk


def without(talk: Conversation, *addresses: str) -> Callable[[CmMessage], bool]:
    """A mirror port that lacks what these hosts send."""
    names = {Host(address).address for address in addresses}
    return lambda message: message.source not in names


def test_both_directions() -> None:
    """X04"""
    assert closing(lives(5)) == []


def test_what_the_target_sends_is_missing() -> None:
    """X04: RTUs answer REPs that nobody captured."""
    talk = lives(4)
    (finding,) = closing(talk, without(talk, TARGET))
    assert (finding.code, finding.severity, finding.confidence) == ("X04", "info", "certain")
    assert finding.connection is None
    assert finding.message == (
        "Nothing that 10.0.0.2 sent was captured, although others answer it: in 4 of 4 connections only one direction"
        " is there."
    )
    rtus = [message.frame for message in talk.capture if isinstance(message, CmMessage) and message.type == "RTU"]
    assert [frame for _, frame in finding.frames] == rtus
    assert finding.evidence == {"one_sided": 4, "connections": 4, "missing": {TARGET: 4}}
    assert "both directions" in finding.advice


def test_what_the_host_sends_is_missing() -> None:
    """X04: a single connection, whose REP and DREP answer what is not there."""
    talk = lives(1)
    (finding,) = closing(talk, without(talk, HOST))
    assert "Nothing that 10.0.0.1 sent" in finding.message
    assert "in 1 of 1 connection " in finding.message


def test_many_are_missing() -> None:
    """X04: three are named."""
    talk = Conversation(Host(HOST), Host(TARGET))
    targets = [f"10.0.1.{number}" for number in range(1, 6)]
    for number, target in enumerate(targets):
        lives(2 if target == "10.0.1.3" else 1, talk.another(passive=Host(target)), 50 * number)
    finding = closing(talk, without(talk, *targets))[0]
    # Each RTU alone: one answer for most of them might have come just after the capture began.
    assert "Nothing that 10.0.1.3 sent" in finding.message
    assert finding.evidence["one_sided"] == 6


def test_a_target_that_is_down() -> None:
    """X04: nobody answers it."""
    talk = Conversation(Host(HOST), Host(TARGET))
    for number in range(5):
        life = talk.another()
        life.repeat(life.active(100 * number, "REQ"), every=4.7, count=15)
        life.active(100 * number + 80, "REJ", reason=4)
    assert closing(talk) == []


def test_a_capture_that_begins_inside() -> None:
    """X04: the last DREPs of connections that were closed as it began, and others in full."""
    talk = Conversation(Host(HOST), Host(TARGET))
    for number in range(4):
        life = talk.another(active=Host(f"10.0.2.{number + 1}"))
        life.close(number / 1000)
    lives(3, talk, 20)
    assert closing(talk, lambda message: message.time >= FIRST_DAY + SECOND // 100) == []


def test_one_direction_of_some_connections() -> None:
    """X04: every address is heard, but a path in ten is not mirrored."""
    talk = lives(30)
    behind = {message.frame for message in talk.capture if message.time >= FIRST_DAY + 250 * SECOND}
    seen = closing(talk, lambda message: message.frame not in behind or message.source == Host(HOST).address)
    (finding,) = seen
    assert finding.confidence == "probable"
    assert finding.message == (
        "One direction is missing in 5 of 30 connections, mostly what 10.0.0.2 sent; elsewhere it is there."
    )


def test_few_are_nothing_to_tell() -> None:
    """X04: lost packets."""
    talk = lives(30)
    behind = {message.frame for message in talk.capture if message.time >= FIRST_DAY + 280 * SECOND}
    assert closing(talk, lambda message: message.frame not in behind or message.source == Host(HOST).address) == []


def at_the_hosts_port(native: bool = False) -> Conversation:
    """A host that connects to two targets."""
    host, *targets = [
        Host(address, lid=number if native else None) for number, address in enumerate((HOST, TARGET, OTHER), 1)
    ]
    talk = Conversation(host, targets[0])
    for number in range(40):
        life = talk.another(passive=targets[number % 2])
        life.establish(10 * number)
        life.close(10 * number + 5)
    return talk


def lost(number: int) -> Callable[[CmMessage], bool]:
    """A capture tool that loses a packet in so many, of whatever type."""
    return lambda message: message.frame % number != 0


def test_packets_that_the_capture_lost() -> None:
    """X04: the numbers of the host at whose port it was made have gaps."""
    (finding,) = closing(at_the_hosts_port(), lost(4))
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "one.pcap: all connections are those of 10.0.0.1" in finding.message
    assert finding.evidence["address"] == HOST
    # REQ, RTU and DREQ are three of five messages, and each fourth is lost.
    assert finding.evidence["seen"] + finding.evidence["missing"] in range(115, 121)
    assert finding.evidence["missing"] in range(25, 35)


def test_numbers_of_a_whole_capture() -> None:
    """X04: also where packets are out of order, and captured twice."""
    talk = at_the_hosts_port()
    messages = [message for message in talk.capture if isinstance(message, CmMessage)]
    for at in range(0, len(messages), 10):
        messages[at], messages[at + 2] = messages[at + 2], messages[at]
    talk.capture[:] = [copy for message in messages for copy in (message, message)]
    assert closing(talk) == []


def test_gaps_that_mean_nothing() -> None:
    """X04: at a target's port the host's numbers have gaps by themselves; on InfiniBand other queries take numbers."""
    assert closing(at_the_hosts_port(), without(at_the_hosts_port(), OTHER)) != []
    towards_target = {Host(HOST).address, Host(TARGET).address}
    assert closing(at_the_hosts_port(), lambda m: {m.source, m.destination} == towards_target) == []
    assert closing(at_the_hosts_port(native=True), lost(4)) == []


def test_a_capture_whose_times_go_back() -> None:
    """X06: two captures put one behind the other, the later one first."""
    talk = lives(2)
    one, two = talk.capture[:5], talk.capture[5:]
    talk.capture[:] = [*two, *one]
    (finding,) = closing(talk)
    assert (finding.code, finding.severity, finding.confidence) == ("X06", "info", "certain")
    assert finding.frames == ((0, one[0].frame),)
    assert finding.message == (
        f"one.pcap: frame {one[0].frame} is 15 s earlier than one before it; in all 5 CM messages out of order by more"
        " than 50 ms."
    )
    assert finding.time == FIRST_DAY


def test_the_disorder_of_a_mirror_port() -> None:
    """X06"""
    talk = lives(2)
    talk.capture[1], talk.capture[2] = talk.capture[2], talk.capture[1]  # 10 ms apart
    assert closing(talk) == []


def test_inputs_have_their_own_order() -> None:
    """X06: a second input whose clock is behind."""
    talk = lives(1)
    life = talk.another()
    for time, say, kind in ((-5, life.active, "REQ"), (-4.99, life.passive, "REP"), (-4.98, life.active, "RTU")):
        say(time, kind, file=1)
    assert closing(talk) == []


def test_from_files(captures: Path, tmp_path: Path) -> None:
    """X04, X06: the analysis counts every message, in the order of its file."""
    whole = (captures / "rping.pcap").read_bytes()
    records, at = [], 24
    while at < len(whole):
        end = at + 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
        records.append(whole[at:end])
        at = end
    (connection,) = analyze([str(captures / "rping.pcap")]).connections
    answers = {step.message.frame for step in connection.steps if step.sender == "passive"}
    part, turned = tmp_path / "part.pcap", tmp_path / "turned.pcap"
    part.write_bytes(whole[:24] + b"".join(records[frame - 1] for frame in sorted(answers)))
    assert [finding.code for finding in analyze([str(part)]).findings if finding.connection is None] == ["X04"]
    turned.write_bytes(whole[:24] + b"".join(reversed(records)))
    assert "X06" in [finding.code for finding in analyze([str(turned)]).findings]
