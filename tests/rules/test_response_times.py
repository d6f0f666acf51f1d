"""R04-R07: who let the other wait.

With response timeouts 20 and Local ACK Timeout 19 the active side waits 6.44 s, the passive side 4.29 s.
"""

from __future__ import annotations

from conversation import Conversation, Host, run


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
    assert finding.evidence["allowed_ns"] == 4_294_967_296 + 2 * 1_073_741_824


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
    assert result.codes == ["R04"]


def test_first_req_may_have_been_lost() -> None:
    """R04"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.5, req)
    talk.passive(6.501, "REP")
    finding = run(talk).only("R04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "were lost" in finding.message


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
    assert run(talk).codes == []


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


def test_answer_after_the_time_that_an_mra_promised() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    mra = talk.passive(0.1, "MRA", service_timeout=20)
    rep = talk.passive(5.1, "REP")
    finding = run(talk).only("R06")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, mra.frame), (0, rep.frame))
    assert "5 s after the MRA that promised it within 4.29 s" in finding.message


def test_answer_within_the_time_promised() -> None:
    """R06: for a REQ and for a REP."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    talk.passive(4.0, "REP")
    talk.active(4.1, "MRA", service_timeout=20)
    talk.active(8.0, "RTU")
    assert run(talk).codes == []


def test_second_mra_extends_the_promise() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    talk.passive(4.0, "MRA", service_timeout=21)
    talk.passive(12.0, "REP")
    assert run(talk).codes == []


def test_mra_that_nothing_followed() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    mra = talk.passive(0.1, "MRA", service_timeout=20)
    finding = run(talk, until=10).only("R06")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, mra.frame),)
    assert finding.evidence["waited_ns"] == 9_900_000_000


def test_capture_ends_before_the_promise_is_due() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=24)
    assert run(talk, until=30).codes == []


def test_requester_gave_up_first() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=24)
    talk.active(5, "REJ", reason=4)
    assert "R06" not in run(talk, until=300).codes


def test_dreq_repeated_in_vain() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(max_cm_retries=3)
    dreq = talk.active(1, "DREQ")
    last = talk.repeat(dreq, every=6.4, count=3)[-1]
    finding = run(talk, until=100).only("R07")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, dreq.frame), (0, last.frame))
    assert "4 of 4 sends of the active side's DREQ over 19.2 s" in finding.message


def test_dreq_of_a_sender_that_stopped_early() -> None:
    """R07: it was repeated once, then no more."""
    talk = Conversation()
    talk.establish()
    dreq = talk.passive(1, "DREQ")
    talk.again(5.3, dreq)
    finding = run(talk, until=200).only("R07")
    assert finding.severity == "info"
    assert "2 of 16 sends of the passive side's DREQ" in finding.message


def test_single_dreq_is_left_to_s12() -> None:
    """R07"""
    talk = Conversation()
    talk.establish()
    talk.active(1, "DREQ")
    assert "R07" not in run(talk, until=200).codes


def test_drep_after_the_last_dreq() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(max_cm_retries=1)
    dreq = talk.active(1, "DREQ")
    talk.again(7.4, dreq)
    talk.passive(7.5, "DREP")
    assert "R07" not in run(talk, until=200).codes


def test_dreq_in_a_capture_of_one_direction() -> None:
    """R07: nothing of the other side was ever captured."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.active(0, "RTU")
    dreq = talk.active(1, "DREQ")
    talk.again(7.4, dreq)
    finding = run(talk, until=200).only("R07")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "only one direction" in finding.message


def test_active_side_that_never_kept_its_promise() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    talk.active(0.2, "MRA", service_timeout=20)
    assert "active side's MRA" in run(talk, until=60).only("R06").message


def test_data_shows_that_the_promise_was_kept() -> None:
    """R06: only the RTU is missing from the capture."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    talk.active(0.2, "MRA", service_timeout=20)
    talk.data(0.3, "active")
    assert "R06" not in run(talk, until=60).codes


def test_req_repeated_after_the_mra() -> None:
    """R06: it ends no promise, but an answer may have been lost in between: information."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    talk.again(4.5, req)
    finding = run(talk, until=60).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "may have been lost" in finding.message
    talk.passive(5.1, "REJ")
    finding = run(talk, until=60).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "REJ came 5 s after the MRA" in finding.message
    assert "may have been lost" in finding.message


def test_req_repeated_in_vain_after_the_mra() -> None:
    """R06: so many answers are not lost."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    talk.repeat(req, every=6.2, count=4)
    finding = run(talk, until=60).only("R06")
    assert (finding.severity, finding.confidence) == ("warning", "probable")


def test_neither_an_answer_nor_a_repetition_after_the_mra() -> None:
    """R06: the capture lacks messages, unless the last REQ allowed was sent."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    finding = run(talk, until=60).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "Nor was the REQ sent again" in finding.message
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=0)
    talk.passive(0.1, "MRA", service_timeout=20)
    assert run(talk, until=60).only("R06").severity == "warning"


def test_dreq_that_may_not_be_repeated() -> None:
    """R07: with Max CM Retries 0 a single DREQ is all there is."""
    talk = Conversation()
    talk.establish(max_cm_retries=0)
    talk.active(1, "DREQ")
    assert "1 of 1 sends" in run(talk, until=100).only("R07").message
