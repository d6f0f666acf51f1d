"""H11, H12, H16, H17, H21: REJs that do not fit."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Result, run

MELLANOX = 0x0002C9


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


def test_rej_of_the_active_side_after_its_rtu() -> None:
    """H11"""
    talk = Conversation()
    _, _, rtu = talk.establish()
    rej = talk.active(2.02, "REJ", reason=28)
    result = run(talk, until=60)
    finding = result.only("H11")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, rtu.frame), (0, rej.frame))
    assert finding.message == (
        "REJ (reason 28) of the active side 2 s after its own RTU: only a DREQ ends an established connection."
    )
    assert finding.evidence == {"reason": 28, "gap_ns": 2_000_000_000, "sender": "active"}
    assert handshake(result) == ["H11"]


def test_rej_of_a_passive_side_that_had_sent_data() -> None:
    """H11"""
    talk = Conversation()
    talk.establish()
    data = talk.data(0.5, "passive")
    talk.passive(1, "REJ", reason=28)
    finding = run(talk).only("H11")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert f"after the RTU and after data of the passive side (frame {data.frame})" in finding.message


def test_rej_of_a_passive_side_that_closes() -> None:
    """H11"""
    talk = Conversation()
    talk.establish()
    talk.close(1)
    talk.passive(2, "REJ", reason=28)
    assert "after a DREP of the passive side" in run(talk).only("H11").message


def test_rej_of_a_passive_side_that_did_not_repeat_its_rep() -> None:
    """H11: so the RTU had arrived."""
    talk = Conversation()
    talk.establish()
    talk.passive(20, "REJ", reason=3)
    result = run(talk)
    assert "without repeating its REP (due after 4.29 s)" in result.only("H11").message
    assert "H21" not in result.codes


@pytest.mark.parametrize(
    ("after", "rej"),
    [
        (4.0, {}),  # its RTU may have been lost, and the REP not be due yet
        (20.0, {"message_rejected": 0, "local_comm_id": 0, "reason": 8}),  # a REQ came again, not captured
        (20.0, {"reason": 6}),
    ],
)
def test_rej_of_a_passive_side_without_an_rtu(after: float, rej: dict[str, int]) -> None:
    """H11"""
    talk = Conversation()
    talk.establish()
    talk.passive(after, "REJ", **rej)
    assert "H11" not in run(talk).codes


def test_rej_after_reps_that_came_again() -> None:
    """H11: its RTUs were lost, so the consumer may still reject; illumos gives up with REJ 4 when no REP is left."""
    talk = Conversation()
    _, rep, _ = talk.establish()
    talk.again(4.3, rep)
    talk.passive(20, "REJ", reason=28)
    assert "H11" not in run(talk).codes
    talk = Conversation()
    _, rep, _ = talk.establish(max_cm_retries=1)
    talk.again(4.3, rep)
    talk.passive(20, "REJ", reason=4, message_rejected=1)
    assert "H11" not in run(talk).codes
    talk = Conversation()
    talk.establish(max_cm_retries=0)
    talk.passive(20, "REJ", reason=4, message_rejected=1)
    assert "H11" not in run(talk).codes


def test_rej_before_the_rtu_or_beside_it() -> None:
    """H11: a refused REP, then a repeated REQ that succeeds; a capture in disorder."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=10)
    talk.again(6.4, req)
    talk.passive(6.41, "REP", local_comm_id=0x77)
    talk.active(6.42, "RTU", remote_comm_id=0x77)
    talk.active(6.43, "REJ", reason=10, remote_comm_id=0x77)
    assert "H11" not in run(talk).codes


def test_requester_keeps_retrying_after_a_rej_about_something_else() -> None:
    """H12: "other" instead of the REQ, with an id that the requester does not know."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=28, message_rejected=2, local_comm_id=0x0102A0B0)
    again = talk.repeat(req, every=6.4, count=15)
    result = run(talk, until=300)
    finding = result.only("H12")
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.frames == ((0, rej.frame), *((0, one.frame) for one in again))
    assert finding.message == (
        "REJ (reason 28) of the passive side has Message Rejected 2, no message, but no REP was captured. Linux drops"
        " it for its Local Communication ID 0x0102a0b0 while it waits for the REP. It was not obeyed: the REQ came"
        " again 15 times, 6.3 s to 95.9 s later."
    )
    assert finding.evidence["repeated"] == 15
    assert finding.evidence["repeated_after_ns"][0] == 6_300_000_000
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


@pytest.mark.parametrize("reason", [0, 34, 36, 0xFFFF])
def test_reason_that_is_not_defined(reason: int) -> None:
    """H16"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=reason)
    talk.again(6.4, req)
    talk.again(6.5, rej)
    finding = run(talk).only("H16")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, rej.frame),)
    assert finding.message == f"REJ of 10.0.0.2 with reason {reason}, which is not defined."


@pytest.mark.parametrize("reason", [1, 33, 35])
def test_reason_that_is_defined(reason: int) -> None:
    """H16"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=reason)
    assert "H16" not in run(talk).codes


def test_rej_cut_before_its_reason() -> None:
    """H11, H12, H16: what was not captured is not wrong."""
    talk = Conversation()
    talk.establish()
    talk.active(2, "REJ", message_rejected=0, cut=24 + 9)
    assert {"H11", "H12", "H16"}.isdisjoint(run(talk).codes)


def test_vendor_id_in_a_rej() -> None:
    """H17: once for each address."""
    talk = Conversation()
    talk.active(0, "REQ", ece_vendor_id=MELLANOX)
    rej = talk.passive(0.1, "REJ", reason=8, local_comm_id=MELLANOX)
    second = talk.another()
    second.active(1, "REQ", ece_vendor_id=MELLANOX)
    second.passive(1.1, "REJ", reason=8, local_comm_id=MELLANOX)
    finding = run(talk).only("H17")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, rej.frame),)
    assert "REJ of 10.0.0.2 has Local Communication ID 0x000002c9: the Vendor ID" in finding.message
    third = talk.another(passive=Host("10.0.0.3"))
    third.active(2, "REQ", ece_vendor_id=MELLANOX)
    third.passive(2.1, "REJ", reason=8, local_comm_id=MELLANOX)
    assert [finding.connection for finding in run(talk).of("H17")] == [1, 3]


def test_rejs_with_ids_of_their_own() -> None:
    """H17: none, without ECE and with it, and a real one."""
    talk = Conversation()
    for start, vendor, local in ((0, 0, 0), (1, MELLANOX, 0), (2, MELLANOX, 0x0102A0B0)):
        other = talk.another()
        other.active(start, "REQ", ece_vendor_id=vendor)
        other.passive(start + 0.1, "REJ", reason=8, local_comm_id=local)
    assert not handshake(run(talk))


def test_req_was_accepted_and_rejected() -> None:
    """H21"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    rej = talk.passive(0.51, "REJ", reason=8)
    finding = run(talk).only("H21")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, rep.frame), (0, rej.frame))
    assert finding.message == (
        "The passive side answered the REQ with a REP and 500 ms later with a REJ of reason 8; 1 REQ captured, 1 REP"
        " and 1 REJ."
    )


@pytest.mark.parametrize("reason", [28, 4])
def test_passive_side_that_gave_up_after_its_rep(reason: int) -> None:
    """H21"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(50, "REJ", reason=reason)
    assert "H21" not in run(talk).codes


def test_every_req_had_an_answer_of_its_own() -> None:
    """H21: the repeated REQ was a new one to a passive side that had given up; the capture may have it late."""
    for again in (90, 90.11):
        talk = Conversation()
        req = talk.active(0, "REQ")
        talk.passive(0.01, "REP")
        talk.again(again, req)
        talk.passive(90.1, "REJ", reason=8, message_rejected=0, local_comm_id=0)
        assert "H21" not in run(talk).codes
