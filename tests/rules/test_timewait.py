"""T01-T08 and T10: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

QPN = 0x11
TIMES = {"primary_local_ack_timeout": 19}  # with TAD 15: active at least 128 ms, 1.024 s in Linux, at most 4.29 s


def reuse(gap, qpn=QPN, by="active", established=True, **req):
    """A connection closed at 1.01 s; `gap` seconds later the active side connects again."""
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ", **{**TIMES, **req})
    old.passive(0.01, "REP", target_ack_delay=15)
    if established:
        old.active(0.02, "RTU")
        old.close(1.0, by)
    else:
        old.passive(1.01, "REJ", reason=28)
    new = old.another(active_qpn=qpn)
    new.active(1.01 + gap, "REQ", **TIMES)
    new.passive(1.02 + gap, "REP")
    new.active(1.03 + gap, "RTU")
    return old


@pytest.mark.parametrize("policy", ["relaxed", "strict"])
def test_t01_before_the_shortest_timewait_under_both_policies(policy):
    finding = run(reuse(0.117), policy).only("T01")
    assert (finding.severity, finding.confidence, finding.policy) == ("error", "certain", "both")
    assert (finding.connection, finding.related) == (2, (1,))
    assert [frame for _, frame in finding.frames] == [6]
    assert finding.evidence["reused_after_ns"] == 117_000_000
    assert finding.evidence["timewait_minimum_ns"] == 128_000_000
    assert finding.evidence["same_starting_psn"] is True


@pytest.mark.parametrize(
    ("gap", "severity", "confidence"),
    [(0.2, "warning", "probable"), (1.0, "warning", "probable"), (2.0, "info", "possible")],
)
def test_t02_by_how_much_of_timewait_is_over(gap, severity, confidence):
    result = run(reuse(gap))
    finding = result.only("T02")
    assert (finding.severity, finding.confidence) == (severity, confidence)
    assert "T01" not in result.codes


def test_t01_and_t02_silent_after_timewait_with_another_qpn_and_for_a_qp_that_never_worked():
    for talk in (reuse(4.4), reuse(0.1, qpn=0x12), reuse(0.1, established=False)):
        assert not {"T01", "T02"} & set(run(talk).codes)


def test_t01_of_the_passive_side():
    old = Conversation(passive_qpn=0x77)
    old.establish(0, **TIMES)
    old.close(1.0)
    new = old.another(passive_qpn=0x77)
    new.active(1.5, "REQ", **TIMES)
    new.passive(1.51, "REP")
    finding = run(old).only("T01")
    assert [frame for _, frame in finding.frames] == [7]
    assert finding.evidence["timewait_minimum_ns"] == 2_048_000_000


def test_t01_not_certain_without_the_local_ack_timeout():
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ", cut=24 + 95)
    old.passive(0.01, "REP")
    old.active(0.02, "RTU")
    old.close(1.0)
    new = old.another(active_qpn=QPN)
    new.establish(1.1)
    result = run(old)
    assert "T01" not in result.codes
    assert (result.only("T02").severity, result.only("T02").confidence) == ("info", "possible")


def test_t03_an_id_given_away_twice():
    old = Conversation()
    old.establish(0)
    new = old.another(active_qpn=0x99)
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(5, "REQ", tid=12345)
    finding = run(old).only("T03")
    assert (finding.severity, finding.confidence, finding.related) == ("error", "probable", (1,))


def test_t03_silent_for_a_repetition_another_ca_and_long_after_the_close():
    old = Conversation()
    req, _, _ = old.establish(0)
    old.again(5, req)
    stranger = old.another(Host("10.0.0.9", first_comm_id=old.comm_ids["active"]))
    stranger.active(6, "REQ")
    assert "T03" not in run(old).codes
    old = Conversation()
    old.establish(0)
    old.close(1)
    new = old.another()
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(30, "REQ")
    assert "T03" not in run(old).codes


def test_t04_rej_30():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=30)
    assert run(talk).only("T04").severity == "info"
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=29)
    assert "T04" not in run(talk).codes


def test_t05_a_dreq_with_a_wrong_qpn():
    talk = Conversation(passive_qpn=0x30)
    talk.establish(0)
    talk.active(1, "DREQ", qpn=0x35)
    talk.close(2)
    finding = run(talk, until=2.5).only("T05")
    assert [frame for _, frame in finding.frames] == [4]
    assert finding.evidence == {"named_qpn": "0x000035", "qpn": "0x000030"}


def test_t05_silent_for_the_right_qpn_and_when_it_is_unknown():
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    assert "T05" not in run(talk).codes
    assert "T05" not in run(talk.capture[3:]).codes


def test_t06_repeated_dreqs_left_unanswered():
    talk = Conversation()
    talk.establish(0, max_cm_retries=3)
    dreq, _ = talk.close(1)
    talk.repeat(dreq, 6.4, 3)
    finding = run(talk, until=60).only("T06")
    assert finding.severity == "warning"
    assert finding.evidence["repetitions"] == 3


def test_t06_silent_for_one_repetition():
    """Its sender was content with it: the second DREP is missing from the capture."""
    talk = Conversation()
    talk.establish(0)
    dreq, _ = talk.close(1)
    talk.again(7.4, dreq)
    assert "T06" not in run(talk, until=500).codes


def test_t06_silent_when_it_is_answered_again():
    talk = Conversation()
    talk.establish(0)
    dreq, drep = talk.close(1)
    talk.again(7.4, dreq)
    talk.again(7.41, drep)
    assert "T06" not in run(talk, until=60).codes


def test_t06_a_wrong_dreq_answered_is_info():
    talk = Conversation()
    talk.establish(0)
    talk.active(1, "DREQ", qpn=0x999)
    talk.passive(1.01, "DREP")
    assert run(talk).only("T06").severity == "info"


def test_t07_a_ghost_req_accepted():
    talk = Conversation()
    req, _, _ = talk.establish(0)
    talk.close(1)
    talk.again(1.5, req)
    talk.comm_ids["passive"] += 1
    talk.passive(1.51, "REP")
    result = run(talk)
    finding = result.only("T07")
    assert finding.evidence["after_close_ns"] == 490_000_000
    assert not {"T01", "S05"} & set(result.codes)  # the sender did not open anything


def test_t07_silent_for_a_repetition_before_the_end():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    talk.passive(6.41, "REP")
    assert "T07" not in run(talk).codes


def reuses(count):
    talk = Conversation(active_qpn=QPN)
    talk.establish(0, **TIMES)
    talk.close(1)
    for number in range(count):
        talk = talk.another(active_qpn=QPN)
        talk.establish(1.1 + number, **TIMES)
        talk.close(2.0 + number)
    return talk


def test_t08_a_ca_that_keeps_no_timewait():
    finding = run(reuses(4)).only("T08")
    assert finding.evidence == {"reuses": 3, "shortest_ns": 90_000_000}


def test_t08_silent_for_single_cases():
    assert "T08" not in run(reuses(2)).codes


def reconnect(gap, qpn):
    talk = Conversation(active_qpn=QPN)
    talk.establish(0, **TIMES)
    talk.close(1)
    talk.another(active_qpn=qpn).establish(1.01 + gap, **TIMES)
    return talk


def test_t10_with_another_qpn():
    assert run(reconnect(0.3, 0x12)).only("T10").severity == "info"


def test_t10_silent_after_timewait():
    assert run(reconnect(1.1, 0x12)).codes == []
