"""H01-H03: REPs and the REQs that they answer."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import CommId, Tid

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
OLD = 400.0  # seconds: the capture is older than any REQ retry span


def test_rep_whose_req_is_missing_from_an_old_capture() -> None:
    """H01"""
    first = Conversation(Host(A, psn=100), Host(B))
    first.establish(0)
    stray = first.another()
    rep = stray.passive(OLD, "REP")
    assert run(first).only("H01").severity == "info"  # that its REQ was not missed only what A sends later can tell
    first.another(Host(A, psn=first.hosts["active"].psn)).active(OLD + 1, "REQ")
    finding = run(first).only("H01")
    assert finding.severity == "warning"
    assert finding.confidence == "probable"
    assert finding.frames == ((0, rep.frame),)
    assert "6 min 40 s" in finding.message
    assert finding.evidence["remote_comm_id"] == CommId(stray.comm_ids["active"])


def test_rep_without_req_in_a_young_capture_is_not_judged() -> None:
    """H01: its REQ may have been sent before the capture began."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.another().passive(60, "REP")
    assert "H01" not in run(first).codes


def test_rep_to_an_address_that_was_never_heard() -> None:
    """H01: with only one direction captured, a missing REQ means nothing."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.another(Host(C)).passive(OLD, "REP")
    assert "H01" not in run(first).codes


def test_rep_after_the_same_side_rejected_the_req() -> None:
    """H02"""
    talk = Conversation()
    talk.active(0, "REQ")
    reject = talk.passive(0.01, "REJ", reason=28)
    rep = talk.passive(0.5, "REP")
    finding = run(talk).only("H02")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, reject.frame), (0, rep.frame))
    assert "reason 28" in finding.message
    assert "490 ms" in finding.message


def test_rep_after_a_rej_where_the_req_may_have_come_again() -> None:
    """H02: a repetition that was missed, or a copy: who listens only now, or has let go, accepts that one."""
    for time, reason in ((0.5, 8), (5.0, 28)):
        talk = Conversation()
        talk.active(0, "REQ")
        talk.passive(0.01, "REJ", reason=reason)
        talk.passive(time, "REP")
        assert run(talk).only("H02").severity == "info"


def test_rep_for_a_repeated_req_after_a_rej() -> None:
    """H02: the second REQ gets an answer of its own, from a listener that has appeared."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(4.3, req)
    talk.passive(4.301, "REJ", reason=8)
    talk.passive(4.302, "REP")
    assert "H02" not in run(talk).codes


def test_rej_after_rep_is_not_a_rep_after_rej() -> None:
    """H02: a passive consumer that gives up in REP_SENT says "other message", even if captured out of order."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=28, message_rejected=2, local_comm_id=talk.comm_ids["passive"])
    talk.passive(0.0101, "REP")
    assert "H02" not in run(talk).codes


def test_rep_after_the_requester_gave_up() -> None:
    """H02: too late is a warning; R04 leaves it to this rule."""
    talk = _heard_before().another()
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.repeat(req, every=6.3, count=2)
    talk.passive(30, "REP")
    result = run(talk)
    finding = result.only("H02")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert "17.4 s after the last REQ" in finding.message
    assert "R04" not in result.codes


def test_rep_within_the_last_wait() -> None:
    """H02: the third REQ is the last one, but its wait is not over."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.repeat(req, every=6.3, count=2)
    talk.passive(18.0, "REP")
    assert "H02" not in run(talk).codes


def test_rep_long_after_the_requesters_timeout_reject() -> None:
    """H02"""
    talk = _heard_before().another()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4)
    talk.passive(20, "REP")
    finding = run(talk).only("H02")
    assert finding.severity == "warning"
    assert "REJ 4" in finding.message


def test_rep_that_may_repeat_an_earlier_one() -> None:
    """H02: those before it were lost on their way to the capture point; the active side gave up for want of them."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4)
    talk.passive(20, "REP", psn=2)
    finding = run(talk).only("H02")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def _heard_before() -> Conversation:
    """A connection by which the numbers of both sides are known."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=100))
    talk.establish(-60)
    talk.close(-50)
    return talk


def test_rep_that_crosses_the_timeout_reject() -> None:
    """H02"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4)
    talk.passive(1.001, "REP")
    assert "H02" not in run(talk).codes


def test_rep_after_the_limit_of_an_nvme_host() -> None:
    """H02: it waits 3 s; a REP 1 s later is too late for it, though in time by the REQ. Others may have crossed."""
    for service_id, codes in ((0x0000000001061144, ["H02"]), (0x0000000001061C06, [])):
        talk = Conversation(service_id=service_id)
        talk.active(0, "REQ")
        talk.active(3.01, "REJ", reason=4)
        talk.passive(4.01, "REP")
        result = run(talk)
        assert [finding.code for finding in result.findings if finding.code == "H02"] == codes
        if codes:
            assert "1 s after the active side gave up with REJ 4, as nvme-rdma before Linux 6.0 does after 3 s" in (
                result.only("H02").message
            )


def test_rep_with_another_tid() -> None:
    """H03"""
    talk = Conversation()
    talk.active(0, "REQ", tid=0x2_0000_0001)
    talk.passive(0.01, "REP", tid=0x3_0000_0001)
    finding = run(talk).only("H03")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert "0x0000000300000001" in finding.message
    assert finding.evidence == {"tid": Tid(0x3_0000_0001), "request_tid": Tid(0x2_0000_0001)}


def test_rep_with_the_tid_of_its_req() -> None:
    """H03: any number will do, as long as the REP copies it."""
    talk = Conversation()
    talk.active(0, "REQ", tid=0x77)
    talk.passive(0.01, "REP", tid=0x77)
    talk.active(0.02, "RTU", tid=0x99)
    assert run(talk).codes == []


def test_rep_with_another_tid_in_another_file() -> None:
    """H03: a proxy may rewrite TransactionIDs between two capture points."""
    talk = Conversation()
    talk.active(0, "REQ", tid=0x77)
    talk.passive(0.01, "REP", tid=0x78, file=1)
    assert run(talk).only("H03").confidence == "possible"


@pytest.mark.parametrize(("time", "tid"), [(9, 0x3_0000_0001), (0.01, 0x2_0000_0002)])
def test_rep_for_another_req_with_the_same_id(time: float, tid: int) -> None:
    """H03: a CM in user space always uses the same ids: a REP too late for this REQ, or with a number of its agent."""
    talk = Conversation()
    talk.active(0, "REQ", tid=0x2_0000_0001)
    talk.passive(time, "REP", tid=tid)
    assert run(talk).only("H03").severity == "info"


def test_rep_of_the_next_life_with_the_same_ids() -> None:
    """H03: a CM in user space always uses the same ids, and the REP was captured before its REQ."""
    old = Conversation()
    old.comm_ids["passive"] = 0x1234
    old.establish(0)
    old.close(1)
    new = old.another()
    new.comm_ids |= old.comm_ids
    new.passive(5, "REP", tid=0x77)
    new.active(5.01, "REQ", tid=0x77)
    new.active(5.02, "RTU", tid=0x77)
    result = run(old)
    assert not {"H03", "H07", "H08", "R08", "T03"} & set(result.codes)
    assert [connection.history for connection in result.connections] == ["QpUDe", "pQU"]
