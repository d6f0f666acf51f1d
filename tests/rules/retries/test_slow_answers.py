"""R11-R13: ports that answer so slowly that it nearly fails."""

from __future__ import annotations

from conversation import Conversation, Host, run

from ibcmtool.values import Duration

TARGET = Host("10.0.0.2")


def slow(times: int, delay: float, *, repeat: int = 0, mra: bool = False) -> Conversation:
    """An unrelated connection, then `times` connections whose REP comes `delay` seconds after the last REQ.

    It is due 6.44 s after it: response timeout 20 (4.29 s), and twice the packet life 18 (1.07 s).
    """
    talk = Conversation(Host("10.0.0.9"), Host("10.0.0.8"))
    talk.establish(0)
    client = Host("10.0.0.1")
    for number in range(times):
        start = 100.0 * (number + 1)
        one = talk.another(client, TARGET)
        req = one.active(start, "REQ")
        if mra:
            one.passive(start + 0.01, "MRA")
        one.repeat(req, every=6.4, count=repeat)
        start += 6.4 * repeat + delay
        one.passive(start, "REP")
        one.active(start + 0.01, "RTU")
    return talk


def test_three_answers_near_the_timeout() -> None:
    """R11"""
    talk = slow(5, 3.5)
    finding = run(talk).only("R11")  # told once, at the third
    assert (finding.severity, finding.confidence, finding.connection) == ("info", "probable", 4)
    reps = [message for message in talk.capture if message.type == "REP"]
    assert finding.frames == ((0, reps[3].frame - 1), (0, reps[3].frame))
    assert "10.0.0.2 has answered 3 REQs with its REP only after more than half of the time allowed" in finding.message
    assert "at worst after 3.5 s of 6.44 s" in finding.message
    assert finding.evidence == {"answers": 3, "slowest": Duration(3_500_000_000), "allowed": Duration(6_442_450_944)}


def test_two_slow_answers_and_many_quick_ones() -> None:
    """R11"""
    assert "R11" not in run(slow(2, 3.5)).codes
    assert "R11" not in run(slow(5, 3.0)).codes


def test_answers_that_were_too_late_are_judged_one_by_one() -> None:
    """R11: R04 tells them."""
    result = run(slow(4, 7.0))
    assert "R11" not in result.codes
    assert len(result.of("R04")) == 4


def test_an_mra_asked_for_the_time() -> None:
    """R11, R12"""
    assert not {"R11", "R12"} & set(run(slow(5, 3.5, mra=True)).codes)
    assert not {"R11", "R12"} & set(run(slow(5, 3.5, mra=True, repeat=1)).codes)


def test_reqs_repeated_and_no_mra() -> None:
    """R12"""
    finding = run(slow(4, 2.0, repeat=1)).only("R12")
    assert (finding.severity, finding.confidence, finding.connection) == ("info", "possible", 4)
    assert "10.0.0.2 has let 3 REQs be repeated before its REP came, without an MRA" in finding.message
    assert "at worst it took 8.4 s, the REQ allows 6.44 s" in finding.message


def test_reqs_that_were_lost() -> None:
    """R12: the REP follows the repeated REQ at once."""
    assert "R12" not in run(slow(4, 0.01, repeat=1)).codes


def in_vain(again: float, *, count: int = 3, **req: int) -> Conversation:
    """A REP that is lost: the REQ is repeated `count` times, and the REP comes again after `again` seconds."""
    talk = Conversation(passive=TARGET)
    req_message = talk.active(0, "REQ", **req)
    rep = talk.passive(0.01, "REP")
    talk.repeat(req_message, every=6.4, count=count)
    talk.again(again, rep)
    talk.active(again + 0.01, "RTU")
    return talk


def test_a_rep_timer_that_does_not_run() -> None:
    """R13"""
    talk = in_vain(20.0)
    finding = run(talk).only("R13")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, 2), (0, 3), (0, 6))
    assert "The REQ was sent again 3 times after the REP; 10.0.0.2 answered none of these" in finding.message
    assert "did not repeat its REP for 20 s, though it may after 4.29 s" in finding.message


def test_a_rep_that_never_came_again() -> None:
    """R13: the active side gave up."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.repeat(req, every=6.4, count=3)
    talk.active(25, "REJ", reason=4)
    assert run(talk, until=60).only("R13").frames == ((0, 2), (0, 3), (0, 5))


def test_linux_drops_repeated_reqs_and_repeats_its_rep() -> None:
    """R13"""
    assert "R13" not in run(in_vain(4.3, count=0)).codes
    assert "R13" not in run(in_vain(8.5, count=1)).codes
    talk = Conversation()
    req = talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.repeat(rep, every=4.2, count=5)
    talk.repeat(req, every=6.4, count=3)
    assert "R13" not in run(talk).codes


def test_no_rep_is_due_after_data_or_when_all_were_sent() -> None:
    """R13"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.data(0.1, "active")
    talk.repeat(req, every=6.4, count=3)
    assert "R13" not in run(talk, until=60).codes
    all_sent = Conversation()
    req = all_sent.active(0, "REQ", max_cm_retries=0)
    all_sent.passive(0.01, "REP")
    all_sent.repeat(req, every=6.4, count=3)
    assert "R13" not in run(all_sent, until=60).codes
