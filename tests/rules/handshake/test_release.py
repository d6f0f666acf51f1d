"""H08, H22, H23: what comes after the end, or ends what had not begun."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Result, run


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


def test_rtu_long_after_the_close() -> None:
    """H08"""
    talk = Conversation()
    _, _, rtu = talk.establish(0)
    _, drep = talk.close(1)
    late = talk.again(10, rtu)
    finding = run(talk).only("H08")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, drep.frame), (0, late.frame))
    assert "8.99 s after the DREP" in finding.message


def test_copy_of_an_rtu_behind_a_clock_that_was_set_forward() -> None:
    """H08: a repetition would have a PSN of its own."""
    talk = Conversation()
    _, _, rtu = talk.establish(0)
    talk.close(1)
    talk.copy(3602, rtu)
    assert "H08" not in run(talk).codes


def test_message_that_was_sent_before_the_end() -> None:
    """H08: its number tells that it was held up on its way, or a clock was set; also where a restart looks the same."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    talk.passive(1, "DREQ", psn=2)
    talk.active(1.01, "DREP")
    talk.copy(3600, rep, psn=1)
    assert "H08" not in run(talk).codes


@pytest.mark.parametrize("kind", ["REP", "MRA", "RTU"])
def test_message_of_a_life_whose_req_was_not_captured(kind: str) -> None:
    """H08: a CM that gives each connection the same ids has accepted the next REQ."""
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    if kind == "RTU":
        talk.active(20, kind, tid=12345)
    else:
        talk.passive(20, kind)
    assert run(talk).only("H08").severity == "info"


def test_rtu_just_after_the_close() -> None:
    """H08: crossing."""
    talk = Conversation()
    _, _, rtu = talk.establish(0)
    talk.close(1)
    talk.again(1.5, rtu)
    assert "H08" not in run(talk).codes


def test_rep_repeated_after_the_active_side_rejected_it() -> None:
    """H08: the REJ was lost; told once."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)
    talk.repeat(rep, every=4.3, count=3)
    result = run(talk)
    finding = result.only("H08")
    assert finding.severity == "info"
    assert "The REJ probably did not arrive" in finding.message
    assert "H02" not in result.codes


def test_rep_after_a_reject_in_a_capture_that_began_late() -> None:
    """It may repeat an earlier one: nobody is accused."""
    talk = Conversation()
    talk.active(0.02, "REJ", reason=28)
    talk.repeat(talk.passive(30, "REP"), every=4.3, count=3)
    assert {finding.severity for finding in run(talk).findings} == {"info"}


def test_mra_long_after_the_rej_of_its_side() -> None:
    """H08: the REJ was lost and the REQ came again; the capture has that REQ a moment later."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    mra = talk.passive(0.01, "MRA")
    talk.passive(20, "REJ")
    talk.again(70, mra)
    talk.again(70.01, req)
    assert "H08" not in run(talk).codes


def test_new_attempt_with_the_same_id_after_a_rej() -> None:
    """H08: a repeated REQ begins anew."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=8)
    talk.again(10, req)
    talk.passive(10.01, "REP")
    talk.active(10.02, "RTU")
    assert "H08" not in run(talk).codes


def test_rep_after_the_passive_sides_own_rej() -> None:
    """H08: H02 tells it, once."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=28)
    talk.passive(20, "REP")
    result = run(talk)
    assert "H08" not in result.codes
    assert len(result.of("H02")) == 1


def test_rep_whose_sender_counts_anew() -> None:
    """H08: if its host has restarted since the close it holds nothing; if not, its time is wrong."""
    talk = Conversation()
    talk.active(0, "REQ")
    held_up = talk.hosts["passive"].next_psn()
    talk.passive(0.5, "REP")
    talk.active(0.6, "RTU")
    talk.close(1)
    talk.passive(3600, "REP", psn=held_up)
    assert "H08" not in run(talk).codes


def test_drep_without_a_dreq() -> None:
    """H22"""
    talk = Conversation()
    talk.establish()
    drep = talk.passive(5, "DREP")
    finding = run(talk, until=60).only("H22")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, drep.frame),)
    assert finding.message == "DREP of 10.0.0.2, but no DREQ of 10.0.0.1 was captured."


def test_drep_of_a_side_that_closed_itself() -> None:
    """H22: crossing DREQs, one of which was not captured."""
    talk = Conversation()
    talk.establish()
    talk.active(5, "DREQ")
    talk.passive(5.01, "DREP")
    talk.active(5.02, "DREP")
    assert run(talk, until=60).only("H22").evidence == {"dreps": 1, "sender": "active"}


def test_drep_in_front_of_its_dreq() -> None:
    """H22: the capture has them in the wrong order, or ends with the first."""
    talk = Conversation()
    talk.establish()
    talk.passive(5, "DREP")
    assert "H22" not in run(talk).codes
    talk.active(5.001, "DREQ")
    assert "H22" not in run(talk, until=60).codes


def test_drep_of_a_connection_that_began_earlier() -> None:
    """H22: C02 says what is missing."""
    talk = Conversation()
    talk.passive(5, "DREP")
    assert not handshake(run(talk, until=60))


def test_dreq_of_a_requester_without_an_answer() -> None:
    """H23"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    dreq = talk.active(1, "DREQ", remote_comm_id=0, qpn=0)
    talk.again(7.4, dreq)
    finding = run(talk, until=200).only("H23")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, req.frame), (0, dreq.frame))
    assert finding.message == (
        "DREQ of 10.0.0.1 1 s after the REQ, before any REP: it names Remote Communication ID 0, so its sender"
        " had no answer yet. Sent twice, and no DREP was captured."
    )


@pytest.mark.parametrize("sender", ["active", "passive"])
def test_dreq_whose_rep_was_not_captured(sender: str) -> None:
    """H23: information, for both ids are known to its sender."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.5, "MRA")
    getattr(talk, sender)(60, "DREQ")
    getattr(talk, "passive" if sender == "active" else "active")(60.1, "DREP")
    finding = run(talk, until=200).only("H23")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "though the DREQ names both Communication IDs. It was answered with a DREP." in finding.message


def test_dreq_after_the_rep() -> None:
    """H23: the RTU is dispensable, and the REP may be captured behind the DREQ."""
    for rep_at in (0.01, 1.02):
        talk = Conversation()
        talk.active(0, "REQ")
        talk.passive(rep_at, "REP")
        talk.close(1)
        assert "H23" not in run(talk, until=200).codes


def test_dreq_while_one_side_is_captured() -> None:
    """H23"""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.active(0, "REQ")
    talk.active(1, "DREQ")
    assert "H23" not in run(talk, until=200).codes
