"""R04, R05: who let the other wait.

With response timeouts 20 and Local ACK Timeout 19 the active side waits 6.44 s, the passive side 4.29 s.
"""

from __future__ import annotations

from conversation import Conversation, run

from ibcmtool.values import Duration


def test_rej_later_than_the_last_req_allows() -> None:
    """R04"""
    talk = Conversation()
    earlier = talk.another()
    earlier.establish(-1)
    req = talk.active(0, "REQ", max_cm_retries=0)
    rej = talk.passive(8, "REJ")
    finding = run(talk).only("R04")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, req.frame), (0, rej.frame))
    assert "8 s after the REQ" in finding.message
    assert "6.44 s" in finding.message
    assert finding.evidence["allowed"] == Duration(4_294_967_296 + 2 * 1_073_741_824)


def test_rep_after_a_req_that_was_not_the_last_allowed() -> None:
    """R04: by then the REQ was sent again, so the capture lacks messages and nobody can be called slow for sure."""
    talk = Conversation()
    earlier = talk.another()
    earlier.establish(-1)
    talk.active(0, "REQ")
    talk.passive(8, "REP")
    finding = run(talk).only("R04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.message.endswith("A repeated REQ in between is missing from the capture.")


def test_rep_where_the_req_was_cut_before_max_cm_retries() -> None:
    """R04: nobody knows that it was the last; the repeated one may stand just behind the REP that answers it."""
    talk = Conversation()
    talk.another().establish(-1)
    req = talk.active(0, "REQ", cut=72)
    rep = talk.passive(6.5, "REP")
    talk.again(6.501, req)
    finding = run(talk).only("R04")
    assert finding.frames == ((0, req.frame), (0, rep.frame))
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_mra_that_the_capture_has_before_its_req() -> None:
    """R04: the MRA was the first answer, whatever the order in the capture."""
    talk = Conversation()
    talk.passive(0, "MRA")
    talk.active(0.01, "REQ", max_cm_retries=0)
    talk.passive(15, "REP")
    assert "R04" not in run(talk).codes


def test_capture_that_begins_with_the_req() -> None:
    """R04: it may be a repetition, and an MRA may have asked for time before."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(8, "REP")
    finding = run(talk).only("R04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "capture begins there" in finding.message


def test_mra_for_a_repeated_req() -> None:
    """R04: information; an MRA proves that the first REQ had arrived."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.5, req)
    talk.passive(6.501, "MRA")
    talk.passive(20, "REP")
    talk.active(20.1, "RTU")
    result = run(talk)
    finding = result.only("R04")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert result.codes == ["R04", "R15"]


def test_first_req_may_have_been_lost() -> None:
    """R04"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.5, req)
    talk.passive(6.501, "REP")
    finding = run(talk).only("R04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.message == (
        "First answer (REP) 6.5 s after the first of 2 REQs, but 1 ms after the last: the earlier REQs or their answers"
        " were lost, the passive side was not slow."
    )
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.5, req)
    talk.passive(9, "REP")
    assert "the passive side was slow, or earlier REQs or their answers were lost." in run(talk).only("R04").message


def test_first_req_was_lost_between_two_inputs() -> None:
    """R04: the input at the passive side has only the second, and its answer. R05 likewise. The loss is C05's."""
    talk = Conversation()
    first = talk.another()
    for message in first.establish(-1):
        first.copy(-0.5, message, file=1)
    req = talk.active(0, "REQ")
    talk.copy(6.501, talk.again(6.5, req), file=1)
    rep = talk.passive(9, "REP", file=1)
    talk.copy(13.302, talk.again(13.3, rep, file=1), file=0)
    rtu = talk.active(13.31, "RTU")
    talk.copy(13.312, rtu, file=1)
    last = first.close(15)[0]
    first.copy(15.1, last, file=1)
    assert {"R04", "R05"}.isdisjoint(run(first).codes)


def test_rep_just_in_time() -> None:
    """R04"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(6.4, "REP")
    assert run(talk).codes == []


def test_slow_rep_after_an_mra() -> None:
    """R04: the MRA was the answer."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(1, "MRA")
    talk.passive(30, "REP")
    assert "R04" not in run(talk).codes


def test_longer_timeouts_allow_more() -> None:
    """R04"""
    talk = Conversation()
    talk.active(0, "REQ", remote_cm_response_timeout=22)
    talk.passive(15, "REP")
    assert run(talk).codes == []


def test_rtu_later_than_the_rep_allows() -> None:
    """R05: a warning after the last REP allowed; else the REP was sent again, and the capture lacks that."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=0)
    rep = talk.passive(0.01, "REP")
    rtu = talk.active(5, "RTU")
    finding = run(talk).only("R05")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, rep.frame), (0, rtu.frame))
    assert "4.99 s" in finding.message
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(5, "RTU")
    finding = run(talk).only("R05")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "A repeated REP" in finding.message


def test_rtu_just_in_time() -> None:
    """R05"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(4.2, "RTU")
    assert run(talk).codes == []


def test_first_reps_were_lost() -> None:
    """R05: the repeated REQ shows that no REP had arrived by then, so the active side is quick."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.again(4.3, rep)
    talk.again(6.4, req)
    talk.again(8.6, rep)
    talk.active(8.61, "RTU")
    assert run(talk).codes == []


def test_first_rep_may_have_been_lost() -> None:
    """R05"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.active(4.32, "RTU")
    finding = run(talk).only("R05")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_giving_up_is_not_a_slow_answer() -> None:
    """R05: REJ 4 says that no REP arrived."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(6, "REJ", reason=4)
    assert "R05" not in run(talk).codes


def test_damaged_rep_was_dropped() -> None:
    """R05: the time counts from the first REP that arrived whole."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP", icrc_ok=False)
    talk.again(4.36, rep, icrc_ok=True)
    talk.active(4.37, "RTU")
    assert "R05" not in run(talk).codes


def test_answer_after_all_reps() -> None:
    """R05: none of several REPs was answered in time, so they were perhaps lost."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    talk.again(4.5, talk.passive(0.01, "REP"))
    talk.active(20, "REJ", reason=28)
    finding = run(talk).only("R05")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "The REPs may have been lost" in finding.message
