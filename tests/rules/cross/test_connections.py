"""X01, X02, X03, X05, X08: what shows only across connections or captures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import Conversation, Host, run

from ibcmtool.rules.facts import comm_ids
from ibcmtool.values import CommId, Duration, FrameNumber, InputNumber, Psn, Qpn

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def test_one_qp_towards_two_peers() -> None:
    """X01: information, never an accusation."""
    first = Conversation(Host(A), Host(B))
    req, _, _ = first.establish(0, qpn=0x11)
    second = first.another(passive=Host(C))
    second.active(5, "REQ", qpn=0x11)
    rep = second.passive(5.01, "REP")
    finding = run(first).only("X01")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, req.frame), (0, rep.frame))
    assert (finding.connection, finding.related) == (2, (1,))
    assert "0x000011" in finding.message
    assert C in finding.message
    assert B in finding.message


def test_one_qp_towards_many_peers_is_told_once() -> None:
    """X01: a dynamically connected QP has many; one line is enough."""
    first = Conversation(Host(A), Host(B))
    first.establish(0, qpn=0x11)
    for number in range(3, 9):
        first.another(passive=Host(f"10.0.0.{number}")).establish(number, qpn=0x11)
    result = run(first)
    assert result.codes == ["X01"]
    assert result.only("X01").related == (1,)


def test_one_passive_qp_towards_two_peers() -> None:
    """X01: found at the REP."""
    first = Conversation(Host(A), Host(B))
    first.active(0, "REQ")
    first.passive(0.01, "REP", qpn=0x22)
    first.active(0.02, "RTU")
    second = first.another(active=Host(C))
    second.active(5, "REQ")
    second.passive(5.01, "REP", qpn=0x22)
    assert run(first).only("X01").evidence["qpn"] == Qpn(0x22)


def test_qp_that_was_given_back() -> None:
    """X01"""
    first = Conversation(Host(A), Host(B))
    first.establish(0, qpn=0x11)
    first.close(1)
    second = first.another(passive=Host(C))
    second.establish(60, qpn=0x11)
    assert run(first).codes == []


def test_equal_qpns_of_two_cas() -> None:
    """X01: QPNs count per CA."""
    first = Conversation(Host(A), Host(B))
    first.establish(0, qpn=0x11)
    second = first.another(active=Host(C))
    second.establish(5, qpn=0x11)
    assert run(first).codes == []


def test_xrc_target_of_two_initiators() -> None:
    """X01: an XRC target QP serves several."""
    xrc = {"transport_service_type": 3, "extended_transport_type": 1}
    first = Conversation(Host(A), Host(B))
    first.active(0, "REQ", **xrc)
    first.passive(0.01, "REP", local_qpn=0, local_eecn=0x22)
    first.active(0.02, "RTU")
    second = first.another(active=Host(C))
    second.active(5, "REQ", **xrc)
    second.passive(5.01, "REP", local_qpn=0, local_eecn=0x22)
    second.active(5.02, "RTU")
    assert "X01" not in run(first).codes


def test_one_comm_id_for_two_connections() -> None:
    """X02"""
    first = Conversation(Host(A), Host(B))
    req, _, _ = first.establish(0)
    second = first.another(active=Host(C))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.active(5, "REQ")
    rep = second.passive(5.01, "REP")
    second.active(5.02, "RTU")
    finding = run(first).only("X02")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, req.frame), (0, rep.frame))
    assert (finding.connection, finding.related) == (2, (1,))


def test_comm_id_of_a_closed_connection() -> None:
    """X02"""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.close(1)
    second = first.another(active=Host(C))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.establish(60)
    assert run(first).codes == []


def test_equal_comm_ids_of_two_cas() -> None:
    """X02: ids count per CA."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    second = first.another(passive=Host(C))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.establish(5)
    assert run(first).codes == []


def test_comm_id_at_two_addresses_with_one_guid() -> None:
    """X02: a second port, an SR-IOV proxy, or a cloned machine."""
    first = Conversation(Host(A), Host(B, guid=0x77))
    first.establish(0)
    second = first.another(active=Host(C), passive=Host("10.0.0.4", guid=0x77))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.establish(5)
    finding = run(first).only("X02")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_comm_id_by_the_times_of_two_captures() -> None:
    """X02: the clock of either may have been set, so that the first connection was over before."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    second = first.another(active=Host(C))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.establish(5)
    assert run(first).only("X02").severity == "error"
    first.capture[3:] = [replace(message, file=1) for message in first.capture[3:]]
    assert run(first).only("X02").confidence == "possible"


def test_comm_id_that_was_given_back() -> None:
    """X02: a second REP replaced it after a REJ, so that it is free for another connection."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    old = first.comm_ids["passive"]
    first.active(1, "REJ", reason=28)
    first.passive(2, "REP", local_comm_id=0x4711)
    second = first.another(active=Host(C))
    second.comm_ids["passive"] = old
    second.establish(5)
    assert "X02" not in run(first).codes


def test_only_the_newest_comm_ids_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """X02: the closed ones are forgotten first."""
    monkeypatch.setattr(comm_ids, "MOST_IDS", 8)
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    for number in range(20):
        closed = first.another()
        closed.establish(number + 1)
        closed.close(number + 1.1)
    second = first.another(active=Host(C))
    second.comm_ids["passive"] = first.comm_ids["passive"]
    second.establish(50)
    assert run(first).only("X02").related == (1,)
    for number in range(20):
        first.another().establish(number + 100)
    third = first.another(active=Host(C))
    third.comm_ids["passive"] = first.comm_ids["passive"]
    third.establish(200)
    assert run(first).only("X02").related == (1,)


def test_host_that_rebooted() -> None:
    """X03"""
    first = Conversation(Host(A, psn=40), Host(B))
    req, _, _ = first.establish(0)
    rebooted = Host(A, psn=0, first_comm_id=0x71B8496A)
    second = first.another(active=rebooted)
    new = second.active(60, "REQ")
    finding = run(first).only("X03")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, req.frame), (0, new.frame))
    assert "from PSN 40 back to 0" in finding.message
    assert finding.evidence["comm_id"] == CommId(0x71B8496A)


def test_passive_host_that_rebooted() -> None:
    """X03: its REPs tell; their TransactionID is the peer's."""
    first = Conversation(Host(A), Host(B, psn=40))
    first.establish(0)
    second = first.another(passive=Host(B, psn=3, first_comm_id=0x71B8496A))
    second.establish(60)
    finding = run(first).only("X03")
    assert finding.confidence == "probable"
    assert finding.evidence["last_tid_high"] is None


def test_driver_that_was_reloaded() -> None:
    """X03: a new agent number shows in the TransactionIDs."""
    host = Host(A, psn=40)
    first = Conversation(host, Host(B))
    first.establish(0)
    host.psn, host.tid_high = 0, 9
    first.another().active(60, "REQ")
    assert "agent 0x00000002 to 0x00000009" in run(first).only("X03").message


def test_psn_that_wrapped() -> None:
    """X03"""
    host = Host(A, psn=0xFFFFF0)
    first = Conversation(host, Host(B))
    first.establish(0)
    host.psn, host.tid_high = 5, 9
    first.another().active(60, "REQ")
    assert "X03" not in run(first).codes


def test_reordered_packets_of_one_boot() -> None:
    """X03: the PSN falls by one, the ids are neighbours."""
    host = Host(A)
    first = Conversation(host, Host(B))
    first.active(0, "REQ", psn=8)
    first.another().active(0.0001, "REQ", psn=7)
    assert run(first).codes == []


@pytest.mark.parametrize("pause", [0.02, 60])
def test_numbers_that_no_restart_explains(pause: float) -> None:
    """X03: they fall sooner than any host is back, or another port has the address (X13), whose CA was cut off."""
    first = Conversation(Host(A, psn=40), Host(B))
    first.establish(0)
    second = first.another(active=Host(A, psn=0, first_comm_id=0x71B8496A))
    second.active(0.02 + pause, "REQ", cut=60)
    if pause > 1:
        first.capture[-1] = replace(first.capture[-1], headers=bytes(6) + b"another MAC")
    assert "X03" not in run(first).codes


def test_other_host_behind_the_same_address() -> None:
    """X03: a CA with another GUID has a counter of its own."""
    first = Conversation(Host(A, psn=40), Host(B))
    first.establish(0)
    first.another(active=Host(A, guid=0x99, first_comm_id=0x71B8496A)).active(60, "REQ")
    assert "X03" not in run(first).codes


def test_packets_captured_twice_in_one_file() -> None:
    """X05: told once, whatever follows."""
    talk = Conversation()
    req, rep, _ = talk.establish(0)
    copy = talk.copy(0.00005, req)
    talk.copy(0.01005, rep)
    result = run(talk)
    finding = result.only("X05")
    assert result.codes == ["X05"]
    assert finding.frames == ((0, req.frame),)
    assert f"frame {copy.frame}" in finding.message
    assert finding.evidence == {
        "files": [InputNumber(0), InputNumber(0)],
        "psn": Psn(0),
        "copy_frame": FrameNumber(0, copy.frame),
        "gap": Duration(50_000),
    }


def test_packets_captured_at_both_ends() -> None:
    """X05: once for the pair of files."""
    talk = Conversation()
    for message in talk.establish(0):
        talk.copy((message.time - talk.capture[0].time) / 1e9 + 0.0001, message, file=1)
    result = run(talk)
    assert result.codes == ["X05"]
    assert result.only("X05").evidence["files"] == [InputNumber(0), InputNumber(1)]


def test_retransmission_is_no_copy() -> None:
    """X05"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(0.0001, req)
    assert "X05" not in run(talk).codes


def test_both_sides_close_at_once() -> None:
    """X08"""
    talk = Conversation()
    talk.establish()
    first = talk.active(1, "DREQ")
    second = talk.passive(1.0003, "DREQ")
    talk.passive(1.01, "DREP")
    talk.active(1.011, "DREP")
    result = run(talk)
    finding = result.only("X08")
    assert result.codes == ["X08"]
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, first.frame), (0, second.frame))
    assert finding.evidence == {"gap": Duration(300_000)}
    assert "300 us" in finding.message


def test_dreq_after_the_drep() -> None:
    """X08: the passive side closes what is closed."""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    talk.close(1.02, by="passive")
    assert "X08" not in run(talk).codes


def test_repeated_dreq_does_not_cross_again() -> None:
    """X08: told once."""
    talk = Conversation()
    talk.establish()
    dreq = talk.active(1, "DREQ")
    talk.passive(1.0003, "DREQ")
    talk.again(7.4, dreq)
    assert len(run(talk).of("X08")) == 1
