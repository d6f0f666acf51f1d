"""C01, C02: what the capture itself lacks."""

from __future__ import annotations

from conversation import FIRST_DAY, Conversation, Host, run

from ibcmtool.analysis import InputInfo
from ibcmtool.rules import Judge


def test_damaged_input() -> None:
    """C01"""
    damage = "cut at offset 1000: a record of 400 bytes was expected, 12 are left"
    infos = [
        InputInfo("whole.pcap", frames=9, cm_messages=5),
        InputInfo("cut.pcap", frames=7, cm_messages=3, truncated=True, damage=damage, last_time=FIRST_DAY),
    ]
    (finding,) = Judge().capture_end(infos)
    assert (finding.code, finding.severity, finding.confidence) == ("C01", "warning", "certain")
    assert finding.connection is None
    assert finding.frames == ((1, 7),)
    assert finding.time == FIRST_DAY
    assert "cut.pcap" in finding.message
    assert damage in finding.message
    assert "7 frames, 3 with CM messages" in finding.message


def test_input_cut_before_its_first_frame() -> None:
    """C01"""
    (finding,) = Judge().capture_end([InputInfo("cut.pcap", truncated=True)])
    assert finding.frames == ()


def test_messages_cut_by_the_snap_length() -> None:
    """C01: information; the messages are there, their ends are not."""
    (finding,) = Judge().capture_end([InputInfo("short.pcap", frames=7, cm_messages=3, cut_frames=6, cut_messages=2)])
    assert finding.severity == "info"
    assert "2 of 3 CM messages" in finding.message
    assert "snap length" in finding.advice


def test_cut_data_does_not_matter() -> None:
    """C01"""
    assert list(Judge().capture_end([InputInfo("data.pcap", frames=7, cm_messages=2, cut_frames=5)])) == []


def test_clocks_apart() -> None:
    """C03"""
    infos = [InputInfo("a.pcap"), InputInfo("b.pcap", clock_offset=-40_000_000_000, shared_packets=5)]
    (finding,) = Judge().capture_end(infos)
    assert (finding.code, finding.severity) == ("C03", "info")
    assert "b.pcap is 40 s behind that of a.pcap, by 5 packets" in finding.message


def test_clocks_as_close_as_synchronised_hosts_have_them() -> None:
    """C03"""
    assert list(Judge().capture_end([InputInfo("a.pcap"), InputInfo("b.pcap", clock_offset=300_000)])) == []


def test_capture_that_starts_inside_a_connection() -> None:
    """C02"""
    talk = Conversation()
    dreq, drep = talk.close(0)
    finding = run(talk).only("C02")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, dreq.frame), (0, drep.frame))
    assert "DREQ, the first CM message of the capture" in finding.message


def test_message_of_an_unknown_connection_later_on() -> None:
    """C02"""
    first = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    first.establish(0)
    first.another().active(2, "RTU")
    assert "RTU, 2 s after the first CM message" in run(first).only("C02").message


def test_requester_that_gives_up_what_never_came_by() -> None:
    """C02: its REJ 4 names no id of the peer, so it never had an answer; with one it had."""
    first = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    first.establish(0)
    first.another().active(10, "REJ", reason=4)
    finding = run(first).only("C02")
    assert "an attempt that nobody answered (REJ 4, no id of the peer)" in finding.message
    assert finding.advice.startswith("Capture at the requester")
    second = Conversation()
    second.active(10, "REJ", reason=4, remote_comm_id=5)
    assert "nobody answered" not in run(second).only("C02").message


def test_whole_connection() -> None:
    """C02"""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    assert run(talk).codes == []


def test_connections_forgotten_early() -> None:
    """C04"""
    (finding,) = Judge().capture_end([InputInfo("storm.pcap")], forgotten=41_808)
    assert (finding.code, finding.severity) == ("C04", "info")
    assert "41,808 connections" in finding.message


def test_no_connection_forgotten_early() -> None:
    """C04"""
    assert list(Judge().capture_end([InputInfo("calm.pcap")])) == []


def test_packets_that_a_source_lost() -> None:
    """C07"""
    infos = [InputInfo("a.pcapng", frames=7, cm_messages=3), InputInfo("b.pcapng", frames=9, dropped=120_000)]
    (finding,) = Judge().capture_end(infos)
    assert (finding.code, finding.severity, finding.confidence) == ("C07", "warning", "certain")
    assert "b.pcapng: 120,000 packets lost" in finding.message


def test_few_lost_packets_among_many() -> None:
    """C07"""
    (finding,) = Judge().capture_end([InputInfo("a.pcapng", frames=100_000, dropped=99)])
    assert finding.severity == "info"
    assert list(Judge().capture_end([InputInfo("a.pcapng", frames=100_000)])) == []
