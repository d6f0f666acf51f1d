"""T01, T02, T08, T10: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

import pytest
from conversation import Conversation, run

from ibcmtool.values import Duration

QPN = 0x11
TIMES = {"primary_local_ack_timeout": 19}  # with TAD 15: active at least 128 ms, 2.048 s in Linux, at most 4.29 s


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
    assert finding.evidence["reused_after"] == Duration(117_000_000)
    assert finding.evidence["timewait_minimum"] == Duration(128_000_000)
    assert finding.evidence["same_starting_psn"] is True


@pytest.mark.parametrize(
    ("gap", "severity", "confidence"),
    [(0.2, "warning", "probable"), (2.0, "warning", "probable"), (2.1, "info", "possible")],
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
    assert finding.message.startswith("10.0.0.2 accepts a new connection with QPN 0x000077")
    assert [frame for _, frame in finding.frames] == [7]
    assert finding.evidence["timewait_minimum"] == Duration(2_048_000_000)


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
    assert finding.evidence == {"reuses": 3, "shortest": Duration(90_000_000)}


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
    assert run(reconnect(2.1, 0x12)).codes == []


@pytest.mark.parametrize("cut", [24 + 140, 24 + 140 + 35])
@pytest.mark.parametrize("which", ["old", "new", "both"])
def test_t10_silent_where_the_consumer_was_cut_off(cut, which):
    talk = Conversation(active_qpn=QPN)
    talk.establish(0, **TIMES, **({"cut": cut} if which != "new" else {}))
    talk.close(1)
    talk.another(active_qpn=0x12).establish(1.31, **TIMES, **({"cut": cut} if which != "old" else {}))
    assert "T10" not in run(talk).codes
