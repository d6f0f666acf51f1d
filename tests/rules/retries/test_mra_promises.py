"""R06, R15, R17: what an MRA promised, and the time that it took."""

from __future__ import annotations

from conversation import Conversation, run

from ibcmtool.values import Duration


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
    assert "R06" not in run(talk).codes


def test_mra_that_nothing_followed() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    mra = talk.passive(0.1, "MRA", service_timeout=20)
    finding = run(talk, until=10).only("R06")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, mra.frame),)
    assert finding.evidence["waited"] == Duration(9_900_000_000)


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


def test_active_side_that_never_kept_its_promise() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    talk.active(0.2, "MRA", service_timeout=20)
    assert "MRA of 10.0.0.1" in run(talk, until=60).only("R06").message


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
    talk.repeat(req, every=6.2, count=8)
    finding = run(talk, until=80).only("R06")
    assert (finding.severity, finding.confidence) == ("warning", "probable")


def test_rep_repeated_in_vain_after_the_mra() -> None:
    """R06: the requester has refused, and that REJ was lost: Linux leaves a REP for nothing unanswered."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.1, "REP")
    talk.active(1, "MRA", message_mraed=1, service_timeout=20)
    for number in range(10):
        talk.again(12 + 4.1 * number, rep)
    finding = run(talk, until=300).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")


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


def asked_for_time(answer: str, at: float, **fields: int) -> Conversation:
    """A REQ at 0 s, repeated at 6.4 s, when an MRA (68.7 s) answers it, and again 67.6 s later if need be."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    talk.passive(6.401, "MRA", service_timeout=24)
    if at > 74:
        talk.again(74, req)
    talk.passive(at, answer, **fields)
    return talk


def test_gaps_that_an_mra_made_grow() -> None:
    """R15"""
    talk = asked_for_time("REP", 75)
    finding = run(talk).only("R15")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, 1), (0, 3), (0, 5))
    assert "REP 75 s after the first of 3 REQs" in finding.message
    assert "68.7 s by an MRA (frame 3)" in finding.message
    assert "after 6.4 s and 67.6 s" in finding.message
    assert finding.evidence["gaps"] == [Duration(6_400_000_000), Duration(67_600_000_000)]


def test_refused_after_an_mra() -> None:
    """R15: the consumer took it from its backlog late."""
    finding = run(asked_for_time("REJ", 40, reason=28, local_comm_id=7)).only("R15")
    assert "REJ (reason 28) 40 s after the first of 2 REQs" in finding.message


def test_mra_that_changed_nothing() -> None:
    """R15: silent for a quick answer, and for one later than promised (R06)."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=24)
    talk.passive(1, "REP")
    assert "R15" not in run(talk).codes
    codes = run(asked_for_time("REP", 100)).codes
    assert "R15" not in codes
    assert "R06" in codes


def test_a_late_answer_while_the_other_side_should_have_asked_again() -> None:
    """R06: its clock ran on, or the capture's was set forward."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=20)
    talk.passive(20.1, "REP")
    finding = run(talk).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "Nor was the REQ sent again" in finding.message


def test_program_that_never_answers() -> None:
    """R17: its CM asks for time, the requester has less patience. Not if it keeps its promise, or says no."""

    def judged(answer: str) -> list[str]:
        talk = Conversation()
        req = talk.active(0, "REQ")
        talk.again(6.4, req)
        talk.passive(6.401, "MRA")
        if answer:
            talk.passive(17, answer, **({"reason": 28} if answer == "REJ" else {}))
        if answer != "REJ":
            talk.active(18, "REJ", reason=4)
        result = run(talk, until=300)
        assert {"H18", "R06"}.isdisjoint(result.codes)
        return [finding.message for finding in result.of("R17")]

    (message,) = judged("")
    assert message.startswith("The CM of 10.0.0.2 has the REQ and asked for time (MRA, frame 3); its program never")
    assert "gave up (REJ 4) 18 s after its REQ, 11.6 s into the 75.2 s that the MRA makes it wait." in message
    assert judged("REP") == judged("REJ") == []


def test_promise_that_a_hanging_program_breaks() -> None:
    """R06: the requester waited long enough. Its CM is alive."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    talk.passive(6.401, "MRA", service_timeout=20)
    talk.active(18, "REJ", reason=4)
    result = run(talk, until=300)
    assert "Its CM is alive and has the REQ; its program never answered." in result.only("R06").message
    assert "R17" not in result.codes


def test_mra_for_a_rep_that_was_not_captured() -> None:
    """R06: the capture lacks messages, and so perhaps the answer: information."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(0.2, "MRA", remote_comm_id=0x77, message_mraed=1, service_timeout=20)
    finding = run(talk, until=60).only("R06")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "The capture lacks the REP" in finding.message


def test_answer_with_a_later_number_settles_the_promise_wherever_it_was_captured() -> None:
    """R06"""
    talk = Conversation()
    talk.active(0, "REQ", psn=7)
    talk.passive(0.1, "REP", psn=4)
    talk.active(0.2, "RTU", psn=9)
    talk.active(0.201, "MRA", service_timeout=20, psn=8)
    assert "R06" not in run(talk, until=100).codes
