"""H06, H07, H10, H19, H22, H23: what comes again, too late or too early."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Result, run


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


def test_rtu_again_without_a_rep() -> None:
    """H06"""
    talk = Conversation()
    _, _, rtu = talk.establish()
    again = talk.repeat(rtu, every=2, count=3)
    result = run(talk, until=30)
    finding = result.only("H06")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, rtu.frame), (0, again[0].frame))
    assert finding.message.startswith("RTU sent again after 2 s, and no repeated REP")
    assert "The same happened twice more." in finding.message
    assert finding.evidence == {"gap_ns": 2_000_000_000, "times": 3, "rtus": 4}
    assert handshake(result) == ["H06"]


def test_rtu_again_for_a_rep_that_came_again() -> None:
    """H06: also where the capture has the REP a little behind its RTU."""
    talk = Conversation()
    _, rep, rtu = talk.establish()
    talk.again(4.3, rep)
    talk.again(4.31, rtu)
    talk.again(8.62, rtu)
    talk.again(8.63, rep)
    assert handshake(run(talk)) == ["H07"]


def test_rtus_and_their_reps_in_disorder() -> None:
    """H06: two REPs, then the two RTUs for them."""
    talk = Conversation()
    _, rep, rtu = talk.establish()
    talk.again(4.3, rep)
    talk.again(4.305, rep)
    talk.again(4.31, rtu)
    talk.again(4.32, rtu)
    assert "H06" not in run(talk).codes


def test_first_rep_that_was_captured_behind_the_rtu() -> None:
    """H06: the first RTU answered a REP that is missing, the second the one that is there."""
    talk = Conversation()
    _, rep, rtu = talk.establish()
    talk.capture.remove(rep)
    talk.again(4.3, rep)
    talk.again(4.31, rtu)
    assert "H06" not in run(talk).codes


def test_rtus_that_may_be_copies() -> None:
    """H06: a source without PSNs cannot tell a copy from a repetition; packets with the same PSN are one."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    rtu = talk.active(0.02, "RTU", psn=None)
    talk.capture.append(rtu._replace(time=rtu.time + 1000, frame=4))
    assert "H06" not in run(talk).codes


def test_only_the_active_side_was_captured() -> None:
    """H06"""
    talk = Conversation()
    talk.active(0, "REQ")
    rtu = talk.active(0.02, "RTU")
    talk.again(4.3, rtu)
    assert "H06" not in run(talk).codes


def test_rtu_was_lost_once() -> None:
    """H07"""
    talk = Conversation()
    _, rep, rtu = talk.establish()
    late = talk.again(4.3, rep)
    talk.again(4.31, rtu)
    talk.close(9)
    result = run(talk, until=100)
    finding = result.only("H07")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, rtu.frame), (0, late.frame))
    assert finding.message == (
        "REP sent again once after the RTU, 4.28 s later: the RTU did not get through (2 RTUs captured)."
    )
    assert handshake(result) == ["H07"]


def test_rtu_never_got_through() -> None:
    """H07: the passive side gives up, which makes it a warning; told when that is known."""
    talk = Conversation()
    _, rep, rtu = talk.establish(max_cm_retries=3)
    for late in talk.repeat(rep, every=4.3, count=2):
        talk.again((late.time - rep.time) / 1e9 + 0.02, rtu)
    talk.again(12.91, rep)
    result = run(talk, until=100)
    finding = result.only("H07")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.evidence["reps_after_rtu"] == 3
    assert "4.29 s to 12.9 s later" in finding.message
    assert "All 4 sends allowed were used: the passive side gave up" in finding.message
    assert result.connections[0].outcome == "half_open"


def test_last_rep_was_confirmed() -> None:
    """H07: every REP allowed was sent, but the connection came up."""
    talk = Conversation()
    _, rep, rtu = talk.establish(max_cm_retries=1)
    talk.again(4.3, rep)
    talk.again(4.31, rtu)
    assert run(talk, until=100).only("H07").severity == "info"


def test_rtu_that_arrived_and_was_not_taken() -> None:
    """H07: the capture at the passive end has it, too."""
    talk = Conversation()
    _, rep, rtu = talk.establish()
    talk.copy(0.021, rtu, file=1)
    talk.again(4.3, rep)
    talk.again(4.31, rtu)
    finding = run(talk).only("H07")
    assert finding.severity == "warning"
    assert "captured on its way twice, but not taken" in finding.message


def test_rep_that_crossed_the_rtu() -> None:
    """H07"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(4.3, "RTU")
    talk.again(4.31, rep)
    assert "H07" not in run(talk).codes


def test_rep_for_a_req_that_came_after_the_rtu() -> None:
    """H07: it answers that."""
    talk = Conversation()
    req, rep, _ = talk.establish()
    talk.again(6, req)
    talk.again(6.01, rep)
    assert "H07" not in run(talk).codes


def test_mra_after_the_rep() -> None:
    """H10"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    mra = talk.passive(0.1, "MRA")
    talk.active(0.2, "RTU")
    finding = run(talk).only("H10")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, rep.frame), (0, mra.frame))
    assert finding.message == ("MRA of the passive side asks for time for the REQ 90 ms after its REP had answered it.")


def test_mra_after_the_rtu() -> None:
    """H10: told once, however often it comes."""
    talk = Conversation()
    talk.establish()
    mra = talk.active(1, "MRA")
    talk.again(2, mra)
    assert run(talk).only("H10").evidence == {"gap_ns": 980_000_000, "message_mraed": 1, "answer": "RTU"}


def test_mra_soon_after_the_rej() -> None:
    """H10: a repeated REQ may be missing from the capture."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ")
    talk.passive(1, "MRA")
    assert run(talk).only("H10").confidence == "possible"


def test_mra_long_after_the_rej() -> None:
    """H10: of the active side that is H08."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.1, "REJ")
    talk.active(30, "MRA")
    codes = run(talk).codes
    assert "H10" not in codes
    assert "H08" in codes


def test_mra_in_its_time() -> None:
    """H10: before the answer, right behind it, and for a REP that came again because the RTU was lost."""
    talk = Conversation()
    talk.active(0, "REQ")
    mra = talk.passive(0.5, "MRA")
    rep = talk.passive(5, "REP")
    talk.again(5.02, mra)
    talk.active(5.03, "RTU")
    talk.again(9.4, rep)
    talk.active(9.41, "MRA")
    talk.active(9.6, "RTU")
    assert "H10" not in run(talk).codes
    other = Conversation()
    req = other.active(0, "REQ")
    other.passive(0.1, "REJ")
    other.again(6.4, req)
    other.passive(6.41, "MRA")
    assert "H10" not in run(other).codes


def test_req_again_after_its_rej() -> None:
    """H19"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=8)
    first = talk.again(6.4, req)
    talk.again(6.5, rej)
    second = talk.again(12.8, req)
    talk.again(12.9, rej)
    finding = run(talk, until=60).only("H19")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, rej.frame), (0, first.frame), (0, second.frame))
    assert finding.message == (
        "REQ sent again twice after the REJ (reason 8), 6.3 s to 12.7 s later: the REJ was lost on its way, or not"
        " obeyed. 3 REJs captured in all."
    )


def test_rej_after_a_rep_that_was_lost() -> None:
    """H19: what the passive side says is right, but the requester never heard of its id."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(1, "REJ", reason=28)
    talk.again(6.4, req)
    result = run(talk, until=60)
    assert "the REP before it was lost, and without that Linux drops this REJ" in result.only("H19").message
    assert "H12" not in result.codes


def test_req_that_crossed_its_rej() -> None:
    """H19"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(6.39, "REJ", reason=8)
    talk.again(6.4, req)
    assert "H19" not in run(talk).codes


def test_req_again_after_refusing_a_stale_rep() -> None:
    """H19: the requester's own REJ 10 does not end its attempt."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=10)
    talk.again(6.4, req)
    talk.again(6.41, rep)
    talk.active(6.42, "RTU")
    assert "H19" not in run(talk).codes


def test_next_attempt_with_a_new_req() -> None:
    """H19"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=8)
    second = talk.another()
    second.active(1, "REQ")
    second.passive(1.1, "REJ", reason=8)
    assert not handshake(run(talk))


def test_drep_without_a_dreq() -> None:
    """H22"""
    talk = Conversation()
    talk.establish()
    drep = talk.passive(5, "DREP")
    finding = run(talk, until=60).only("H22")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, drep.frame),)
    assert finding.message == "DREP of the passive side, but no DREQ of the active side was captured."


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
        "DREQ of the active side 1 s after the REQ, before any REP: it names Remote Communication ID 0, so its sender"
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
