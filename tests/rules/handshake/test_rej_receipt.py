"""H12, H19: REJs that are not found, or not obeyed."""

from __future__ import annotations

import pytest
from conversation import Conversation, Result, run

from ibcmtool.values import Duration


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


def test_requester_keeps_retrying_after_a_rej_about_something_else() -> None:
    """H12: "other" instead of the REQ, with an id that the requester does not know."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=28, message_rejected=2, local_comm_id=0x0102A0B0)
    again = talk.repeat(req, every=6.4, count=15)
    result = run(talk, until=300)
    finding = result.only("H12")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, rej.frame), *((0, one.frame) for one in again))
    assert finding.message == (
        "REJ (reason 28) of the passive side has Message Rejected 2, no message, but no REP was captured. Linux drops"
        " it for its Local Communication ID 0x0102a0b0 while it waits for the REP. It was not obeyed: the REQ came"
        " again 15 times, 6.3 s to 95.9 s later."
    )
    assert finding.evidence["repeated"] == 15
    assert finding.evidence["repeated_after"][0] == Duration(6_300_000_000)
    assert result.connections[0].outcome == "timed_out"
    assert "H19" not in result.codes


def test_rej_about_something_else_without_an_id() -> None:
    """H12: there was nothing but the REQ. Linux finds the attempt by the 0 that it has for its peer's id."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=28, message_rejected=2, local_comm_id=0)
    finding = run(talk, until=300).only("H12")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert "there was nothing except the REQ to reject" in finding.message
    assert "Linux" not in finding.message
    assert finding.evidence["repeated"] == 0


def test_undefined_message_rejected() -> None:
    """H12: and the requester goes on."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=8, message_rejected=3, local_comm_id=0x0102A0B0)
    talk.again(6.4, req)
    finding = run(talk).only("H12")
    assert finding.confidence == "certain"
    assert "Message Rejected 3, which is undefined." in finding.message
    assert "the REQ came again once, 6.3 s later" in finding.message


def test_rej_about_a_message_of_its_own_side() -> None:
    """H12: a passive side that rejects a REP, an active one that rejects a REQ, and is not obeyed."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=28, message_rejected=1, local_comm_id=0x0102A0B0)
    assert "Message Rejected 1, a REP, a message that this side sends itself" in run(talk).only("H12").message
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.1, "REJ", reason=28, message_rejected=0)
    talk.again(4.3, rep)
    finding = run(talk).only("H12")
    assert "Message Rejected 0, a REQ, a message that this side sends itself. Linux drops it" in finding.message
    assert "the REP came again once, 4.2 s later" in finding.message


@pytest.mark.parametrize("named", [0, 1, 2])
def test_timeouts_are_found_by_their_guid(named: int) -> None:
    """H12: Linux says 2, illumos what was not answered."""
    for replied in (False, True):
        talk = Conversation()
        talk.active(0, "REQ")
        if replied:
            talk.passive(0.01, "REP")
        talk.active(50, "REJ", reason=4, message_rejected=named)
        assert "H12" not in run(talk).codes


def test_rejects_as_linux_sends_them() -> None:
    """H12: of a REQ at once, after an MRA, by a passive side that had sent a REP, and of a REP."""
    for mra, rep, sender in ((False, False, "passive"), (True, False, "passive"), (False, True, "passive")):
        talk = Conversation()
        talk.active(0, "REQ")
        if mra:
            talk.passive(1, "MRA")
        if rep:
            talk.passive(1, "REP")
        fields = {"local_comm_id": talk.comm_ids["passive"], "message_rejected": 0} if mra else {}
        getattr(talk, sender)(2, "REJ", reason=28, **fields)
        assert not handshake(run(talk))
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.1, "REJ", reason=28)
    assert not handshake(run(talk))


def test_rej_whose_rep_may_be_missing() -> None:
    """H12: it was obeyed, so there was a REP that the capture lacks."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(1, "REJ", reason=28, message_rejected=2, local_comm_id=0x0102A0B0)
    assert not handshake(run(talk, until=300))


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
