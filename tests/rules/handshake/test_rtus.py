"""H04-H07: RTUs that fit no REP, are missing, or come again."""

from __future__ import annotations

from dataclasses import replace

from conversation import SECOND, Conversation, Host, Result, run

from ibcmtool.analysis import Finding
from ibcmtool.model import Event, Step
from ibcmtool.packets import Address, CmMessage
from ibcmtool.rules import CATALOGUE, Judge
from ibcmtool.values import Duration

A, B = "10.0.0.1", "10.0.0.2"


def judge_rtu(talk: Conversation, rtu: CmMessage, *heard: Address) -> list[Finding]:
    """What H04 finds in an RTU that the tracker gave to the conversation's connection."""
    (connection,) = run(said for said in talk.capture if said is not rtu).connections
    step = Step(rtu, "active", "unexpected", None, "ESTABLISHED", "REP_SENT")
    connection.steps.append(step)
    connection.history += "U"
    judge = Judge(rules=[CATALOGUE["H04"]])
    judge.context.ports.heard.update({address: {} for address in (*(said.source for said in talk.capture), *heard)})
    events = [Event("RTU", rtu.time, connection, step), Event("ENDED", rtu.time + SECOND, connection)]
    return [finding for event in events for finding in judge.judge(event)]


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


def test_rtu_with_an_id_that_no_rep_gave() -> None:
    """H04"""
    talk = Conversation(Host(A), Host(B, psn=100))
    earlier = talk.another()
    earlier.establish(-10)
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP", local_comm_id=0x11)
    rtu = talk.active(0.02, "RTU", remote_comm_id=0x12)
    assert run(talk).only("H04").severity == "info"  # another REP may have been missed
    talk.again(4.3, rep)
    finding = run(talk).only("H04")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, rep.frame), (0, rtu.frame))
    assert "0x00000012; the REP gave 0x00000011" in finding.message


def test_rtu_for_a_rep_before_the_capture() -> None:
    """H04: RTU and REQ were held up on their way, so that the REQ was accepted twice."""
    talk = Conversation(Host(A), Host(B, psn=100))
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP", local_comm_id=0x11)
    talk.active(0.7, "RTU", remote_comm_id=0x12)
    talk.again(1.1, rep)
    assert run(talk).only("H04").severity == "info"


def test_rtu_for_a_rep_that_another_connection_has() -> None:
    """H04: nothing shows that its receiver did not take it."""
    talk = Conversation(Host(A), Host(B, psn=100))
    earlier = talk.another()
    earlier.establish(-10)
    talk.active(0, "REQ")
    talk.passive(0.01, "REP", local_comm_id=0x11)
    talk.active(5, "RTU", remote_comm_id=0x12)
    earlier.close(20)
    assert run(talk).only("H04").severity == "info"


def test_rtu_without_a_rep() -> None:
    """H04: information and possible only, since an RTU shows that there was a REP."""
    talk = Conversation(Host(A), Host(B))
    req = talk.active(0, "REQ")
    rtu = talk.active(0.02, "RTU")
    (finding,) = judge_rtu(talk, rtu, Host(B).address)
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, req.frame), (0, rtu.frame))


def test_rtu_without_a_rep_in_a_capture_of_one_direction() -> None:
    """H04"""
    talk = Conversation(Host(A), Host(B))
    talk.active(0, "REQ")
    assert judge_rtu(talk, talk.active(0.02, "RTU")) == []


def test_rtu_for_an_earlier_rep() -> None:
    """H04: it names the first of two REPs."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP", local_comm_id=0x11)
    talk.passive(4.31, "REP", local_comm_id=0x13)
    assert judge_rtu(talk, talk.active(4.32, "RTU", remote_comm_id=0x11)) == []


def test_rtu_captured_before_its_rep() -> None:
    """H04: an MRA has told the passive side's id before."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "MRA")
    talk.active(0.0199, "RTU")
    talk.passive(0.02, "REP")
    assert run(talk).codes == []


def test_rep_repeated_to_exhaustion() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=3)
    rep = talk.passive(0.01, "REP")
    last = talk.repeat(rep, every=4.3, count=3)[-1]
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("warning", "probable")  # an RTU may have been lost
    assert finding.frames == ((0, rep.frame), (0, last.frame))
    assert "4 of 4 sends of the REP of 10.0.0.2 over 12.9 s" in finding.message
    assert "captured" in finding.message
    assert finding.evidence["requests_repeated"] == 0


def test_repeated_req_shows_that_the_rep_does_not_arrive() -> None:
    """H05"""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.again(6.3, req)
    finding = run(talk, until=60).only("H05")
    assert finding.evidence["requests_repeated"] == 1
    assert "did not get through" in finding.message


def test_data_show_that_a_rep_got_through() -> None:
    """H05: the RTU was lost, or went by in front of the capture point."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.data(0.5, "active")
    talk.again(4.31, rep)
    finding = run(talk, until=60).only("H05")
    assert finding.severity == "info"
    assert "data (frame 3) shows that the connection works" in finding.message


def test_capture_ends_within_the_last_wait() -> None:
    """H05: the last REP may yet be confirmed."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    finding = run(talk, until=6).only("H05")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_last_rep_is_confirmed() -> None:
    """H05: the RTU comes after the last REP allowed."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.active(4.32, "RTU")
    assert "H05" not in run(talk, until=60).codes


def test_dreq_without_an_rtu() -> None:
    """H05: worth knowing, nothing more."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    dreq, _ = talk.close(2)
    finding = run(talk, until=60).only("H05")
    assert finding.severity == "info"
    assert finding.frames == ((0, rep.frame), (0, dreq.frame))


def test_rtu_captured_after_the_dreq() -> None:
    """H05: the capture has them out of order."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "DREQ")
    talk.active(0.021, "RTU")
    talk.passive(0.03, "DREP")
    assert "H05" not in run(talk, until=60).codes


def test_capture_ends_after_the_rep() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    assert run(talk).codes == []


def test_data_without_an_rtu() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    data = talk.data(0.5, "active")
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, rep.frame),)
    assert f"frame {data.frame}" in finding.message


def test_rep_that_was_not_repeated() -> None:
    """H05: the capture missed its RTU; that the passive side does not repeat tells that it arrived."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "not repeated in the 60 s that followed" in finding.message


def test_rejected_rep_needs_no_rtu() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)
    assert run(talk, until=60).codes == []


def test_connection_that_began_earlier() -> None:
    """H05: one direction may be missing."""
    talk = Conversation()
    rep = talk.passive(0, "REP")
    talk.repeat(rep, every=4.3, count=15)
    assert "H05" not in run(talk, until=200).codes


def test_mra_after_the_rep() -> None:
    """H05: what the active side promised is R06."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "MRA", service_timeout=18)
    talk.again(4.31, rep)
    result = run(talk, until=60)
    assert "H05" not in result.codes
    assert "R06" in result.codes


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
    assert finding.evidence == {"gap": Duration(2_000_000_000), "times": 3, "rtus": 4}
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
    talk.capture.append(replace(rtu, time=rtu.time + 1000, frame=4))
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
        "REP of 10.0.0.2 was sent again once after the RTU, 4.28 s later: the RTU did not get through"
        " (2 RTUs captured)."
    )
    assert handshake(result) == ["H07"]


def test_rep_that_comes_after_the_close() -> None:
    """H07: it was delayed on its way. Nobody sent it again because an RTU was lost."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    overtaken = talk.again(8, rep)  # sent before all that follows
    talk.active(0.02, "RTU")
    talk.close(1)
    assert overtaken.psn == 1
    assert "H07" not in run(talk, until=100).codes


def test_rtu_never_got_through() -> None:
    """H07: the passive side gives up, which makes it a warning; told when that is known."""
    talk = Conversation()
    _, rep, rtu = talk.establish(max_cm_retries=3)
    for late in talk.repeat(rep, every=4.3, count=2):
        talk.again((late.time - rep.time) / 1e9 + 0.02, rtu)
    talk.again(12.91, rep)
    result = run(talk, until=100)
    finding = result.only("H07")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
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
    late = talk.again(4.3, rep)
    talk.again(4.31, rtu)
    assert run(talk).only("H07").severity == "info"  # by the other clock that may have been after this REP
    talk.copy(4.301, late, file=1)
    finding = run(talk).only("H07")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert "captured on its way twice, but not taken" in finding.message


def test_answer_captured_a_moment_before_the_last_rep() -> None:
    """H07: little disorder; and who answers a DREQ has seen that the connection came up."""
    for answer in ("RTU", "DREP"):
        talk = Conversation()
        _, rep, rtu = talk.establish(max_cm_retries=1)
        if answer == "RTU":
            talk.again(4.299, rtu)
        talk.again(4.3, rep)
        if answer == "DREP":
            talk.passive(5, "DREP")
        assert "warning" not in {finding.severity for finding in run(talk, until=100).of("H07")}


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


def test_rtu_captured_before_the_rep_of_a_second_offer() -> None:
    """H04: the REP that it answers stands behind it, by a little disorder."""
    talk = Conversation(Host(A), Host(B, psn=100))
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=10, message_rejected=1)
    talk.again(5, req)
    talk.comm_ids["passive"] = 0x99
    talk.active(5.01, "RTU")
    talk.passive(5.02, "REP")
    assert "H04" not in run(talk).codes


def test_reps_to_a_phantom_are_no_error() -> None:
    """H05: a late copy of the REQ, after its refusal, was accepted; nobody waits for these REPs."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.passive(0.01, "REJ", reason=8)
    talk.copy(3, req)
    rep = talk.passive(3.01, "REP")
    talk.repeat(rep, 4.3, 2)
    assert run(talk, until=60).only("H05").severity == "info"


def test_reps_that_go_on_although_the_active_side_has_left() -> None:
    """H07: neither the RTU nor the one DREQ got through."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=3)
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    talk.active(1.5, "DREQ")
    talk.repeat(rep, 4.3, 3)
    finding = run(talk, until=300).only("H07")
    assert finding.evidence["reps_after_rtu"] == 3
