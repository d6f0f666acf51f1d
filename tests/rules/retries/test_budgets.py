"""R09, R10, R14: what a REQ allows in time, told once for each setting."""

from __future__ import annotations

import pytest
from conversation import Conversation, run

from ibcmtool.values import Duration

OFED = {"remote_cm_response_timeout": 22, "local_cm_response_timeout": 22}


def test_a_req_that_will_be_repeated_for_minutes() -> None:
    """R09: MLNX OFED's values, and the REQ is repeated."""
    talk = Conversation()
    req = talk.active(0, "REQ", **OFED)
    first, _ = talk.repeat(req, every=18.5, count=2)
    finding = run(talk).only("R09")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, first.frame),)
    assert "this REQ is sent 16 times over 4 min 22 s" in finding.message
    assert finding.evidence == {"budget": Duration(262_144_000_000), "sends": 16, "wait": Duration(16_384_000_000)}


def test_one_finding_for_many_connections_with_one_setting() -> None:
    """R09"""
    talk = Conversation()
    for start in (0, 1, 2):
        other = talk if not start else talk.another()
        other.repeat(other.active(start, "REQ", **OFED), every=18.5, count=1)
    assert len(run(talk).of("R09")) == 1


def test_minutes_that_nobody_waits_for() -> None:
    """R09: the same values, answered at once."""
    talk = Conversation()
    talk.establish(0, **OFED)
    talk.close(1)
    assert "R09" not in run(talk).codes


def test_upstream_values() -> None:
    """R09: 16 times 4.1 s are 65.5 s, whatever the path adds."""
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ", primary_local_ack_timeout=21), every=13, count=3)
    assert "R09" not in run(talk).codes


def test_a_dreq_of_the_passive_side() -> None:
    """R09: it goes by the Local CM Response Timeout."""
    talk = Conversation()
    talk.establish(0, remote_cm_response_timeout=20, local_cm_response_timeout=22, max_cm_retries=8)
    dreq = talk.passive(1, "DREQ")
    again = talk.again(18, dreq)
    finding = run(talk).only("R09")
    assert finding.frames == ((0, again.frame),)
    assert "this DREQ is sent 9 times over 2 min 27 s" in finding.message


def test_one_lost_packet_and_it_is_over() -> None:
    """R09: told at the REQ itself."""
    talk = Conversation()
    req, _, _ = talk.establish(
        0, remote_cm_response_timeout=8, local_cm_response_timeout=8, max_cm_retries=1, primary_local_ack_timeout=8
    )
    finding = run(talk).only("R09")
    assert finding.frames == ((0, req.frame),)
    assert "the active side 4.19 ms after its first REQ or DREQ" in finding.message
    assert "the passive side 2.1 ms after its first REP or DREQ" in finding.message


@pytest.mark.parametrize(("remote", "local"), [(0, 20), (20, 0), (20, 15)])
def test_timeouts_that_nobody_chose(remote: int, local: int) -> None:
    """R10"""
    talk = Conversation()
    req, _, _ = talk.establish(0, remote_cm_response_timeout=remote, local_cm_response_timeout=local)
    talk.another().establish(1, remote_cm_response_timeout=remote, local_cm_response_timeout=local)
    finding = run(talk).only("R10")  # once for both
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, req.frame),)
    assert f"(Remote CM Response Timeout {remote})" in finding.message
    assert finding.evidence["local_cm_response_timeout"] == local


def test_what_zero_means() -> None:
    """R10"""
    talk = Conversation()
    talk.establish(0, remote_cm_response_timeout=0)
    assert "gives the passive side 4.1 us to answer" in run(talk).only("R10").message


@pytest.mark.parametrize(("remote", "local"), [(20, 20), (22, 18), (18, 22)])
def test_a_factor_of_sixteen_at_most(remote: int, local: int) -> None:
    """R10"""
    talk = Conversation()
    talk.establish(0, remote_cm_response_timeout=remote, local_cm_response_timeout=local)
    assert "R10" not in run(talk).codes


def test_a_cut_or_damaged_req_says_nothing() -> None:
    """R10: the Local CM Response Timeout is cut off; the ICRC is wrong."""
    talk = Conversation()
    talk.active(0, "REQ", remote_cm_response_timeout=0, cut=24 + 46)
    talk.another().active(1, "REQ", remote_cm_response_timeout=0, icrc_ok=False)
    assert "R10" not in run(talk).codes


def test_a_timewait_of_unknown_length() -> None:
    """R14: the Local ACK Timeout of the first REQ was cut off, and its QPN comes back."""
    talk = Conversation(active_qpn=0x11)
    talk.active(0, "REQ", cut=24 + 95)
    talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    talk.close(1.0)
    for start in (1.1, 2.2):
        other = talk.another(active_qpn=0x11)
        req = other.active(start, "REQ")
        if start == 1.1:
            first = req
    finding = run(talk).only("R14")  # told once
    assert (finding.severity, finding.confidence, finding.related) == ("info", "certain", (1,))
    assert finding.frames == ((0, first.frame),)
    assert "Local ACK Timeout of connection 1 was not captured; 20 (4.29 s) stands in" in finding.message


def test_retries_counted_by_default_values() -> None:
    """R14: the capture begins behind the REQ, and a DREQ is repeated in vain."""
    talk = Conversation()
    talk.establish(0)
    dreq = talk.active(1, "DREQ")
    second, *_ = talk.repeat(dreq, every=6.4, count=3)
    finding = run(talk.capture[3:], until=120).only("R14")
    assert finding.frames == ((0, second.frame),)
    assert "the response timeout is taken for 20 (4.29 s) and Max CM Retries for 15 retries" in finding.message


def test_known_timers() -> None:
    """R14: the whole capture is there; and one that begins later, but needs no timer."""
    talk = Conversation(active_qpn=0x11)
    talk.establish(0)
    talk.repeat(talk.active(1, "DREQ"), every=6.4, count=3)
    talk.another(active_qpn=0x11).active(25, "REQ")
    assert "R14" not in run(talk, until=120).codes
    closed = Conversation()
    closed.establish(0)
    closed.close(1)
    assert "R14" not in run(closed.capture[3:], until=120).codes
