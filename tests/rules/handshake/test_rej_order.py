"""H11, H21: REJs of a side that had accepted."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Result, run

from ibcmtool.values import Duration


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
    assert finding.evidence == {"reason": 28, "gap": Duration(2_000_000_000), "sender": "active"}
    assert handshake(result) == ["H11"]


def test_rej_that_was_sent_before_the_rtu_and_held_up() -> None:
    """H11: it refused a REP that was accepted when it came again; behind it numbers that a restart may have, too."""
    for psn, severities in ((0, ["info"]), (5000, [])):
        talk = Conversation(Host("10.0.0.1", psn=psn))
        talk.active(0, "REQ")
        talk.passive(0.01, "REP")
        talk.hosts["active"].next_psn()
        talk.active(1, "RTU")
        talk.active(1.7, "REJ", reason=10, message_rejected=1, psn=psn + 1)
        assert [found.severity for found in run(talk).of("H11")] == severities


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


def test_rej_cut_before_its_reason() -> None:
    """H11, H12, H16: what was not captured is not wrong."""
    talk = Conversation()
    talk.establish()
    talk.active(2, "REJ", message_rejected=0, cut=24 + 9)
    assert {"H11", "H12", "H16"}.isdisjoint(run(talk).codes)


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


def test_passive_side_that_let_go_and_was_asked_anew() -> None:
    """H21: its program was killed after the REP; nobody listens any more when the REQ comes again."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(0.05, "REJ", reason=28, message_rejected=2)
    talk.again(6.4, req)
    talk.passive(6.41, "REJ", reason=8, message_rejected=0, local_comm_id=0)
    assert "H21" not in run(talk).codes


def test_rej_that_was_held_up() -> None:
    """H11: its number is older than that of the RTU, so it was sent before it."""
    talk = Conversation(Host("10.0.0.1", psn=2000))
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    held_up = talk.hosts["active"].next_psn()
    talk.active(0.02, "RTU")
    talk.active(3, "REJ", reason=28, message_rejected=1, psn=held_up)
    assert "H11" not in run(talk).codes


def test_rej_that_was_sent_before_the_rep_is_no_second_answer_to_its_req() -> None:
    """H21"""
    talk = Conversation()
    talk.active(0, "REQ", psn=1)
    talk.passive(0.1, "REP", psn=5)
    talk.passive(0.103, "REJ", reason=10, psn=4)
    assert "H21" not in run(talk, until=100).codes
