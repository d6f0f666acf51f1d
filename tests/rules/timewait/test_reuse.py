"""T01, T02, T08, T10: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

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


def test_t01_only_possible_where_the_drep_may_have_been_held_up_for_all_of_the_timewait():
    old = Conversation(passive_qpn=0x77)
    old.establish(0, **TIMES)
    old.active(1.0, "DREQ")
    old.passive(3.0, "DREP")
    old.another(passive_qpn=0x77).establish(3.2, **TIMES)
    finding = run(old).only("T01")
    assert (finding.severity, finding.confidence) == ("info", "possible")


@pytest.mark.parametrize(("psn", "severities"), [(0x101, ["error"]), (0, ["info"])])
def test_t01_only_possible_where_the_numbers_of_its_port_begin_anew(psn, severities):
    """As by a wrap, or by a restart: a host that restarted knows of no timewait."""
    old = Conversation(Host("10.0.0.1", psn=0xFFFFFD if psn == 0 else psn - 3), active_qpn=QPN)
    old.establish(0, **TIMES)
    old.close(1.0)
    old.another(active_qpn=QPN).establish(1.12, **TIMES)
    assert [finding.severity for finding in run(old).of("T01")] == severities


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


def test_t01_only_possible_where_an_earlier_drep_was_missed():
    """The passive side's timewait begins with the first DREP, which its next numbers show to be missing."""
    old = Conversation(Host("10.0.0.1", psn=100), Host("10.0.0.2", psn=100), passive_qpn=0x77)
    old.establish(0, **TIMES)
    dreq = old.active(1, "DREQ")
    old.hosts["passive"].next_psn()
    old.again(5, dreq)
    old.passive(5.01, "DREP")
    new = old.another(passive_qpn=0x77)
    new.active(5.05, "REQ")
    new.passive(5.06, "REP")
    finding = run(old).only("T01")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "1 message of 10.0.0.2 missing" in finding.message


def test_t01_again_after_a_refusal():
    """Who was refused as stale has let go by its own DREQ all the same."""
    old = Conversation(active_qpn=QPN)
    old.establish(0, **TIMES)
    old.active(1, "DREQ")
    first = old.another(active_qpn=QPN)
    first.active(1.01, "REQ")
    first.passive(1.011, "REJ", reason=10)
    old.passive(1.012, "DREP")
    old.another(active_qpn=QPN).active(1.1, "REQ")
    assert len(run(old).of("T01")) == 2


def test_t01_of_a_connection_that_was_refused_first():
    """Its timewait is that of its close, not that of the REJ 10."""
    old = Conversation(active_qpn=QPN)
    req = old.active(0, "REQ", **TIMES)
    old.passive(0.01, "REJ", reason=10)
    old.again(5, req)
    old.passive(5.01, "REP", target_ack_delay=15)
    old.active(5.02, "RTU")
    old.close(20)
    old.another(active_qpn=QPN).active(20.05, "REQ")
    assert run(old).only("T01").evidence["reused_after"] == Duration(40_000_000)


def test_t01_after_a_drep_that_was_not_received():
    """The DREQ came again, so the first DREP had not ended the connection for its sender."""
    old = Conversation(Host("10.0.0.1", psn=100), Host("10.0.0.2", psn=100), active_qpn=QPN)
    old.establish(0, **TIMES)
    dreq, drep = old.close(1)
    old.again(9, dreq)
    old.again(9.01, drep)
    old.another(active_qpn=QPN).active(9.05, "REQ")
    assert run(old).only("T01").evidence["reused_after"] == Duration(50_000_000)


@pytest.mark.parametrize("answered", [True, False])
def test_t02_only_possible_where_timewait_may_have_begun_with_the_dreq(answered):
    """Who destroys its id with a DREQ waits for no DREP, and answers the peer's DREQ all the same."""
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ", **TIMES)
    old.passive(0.01, "REP", target_ack_delay=15)
    old.active(0.02, "RTU")
    old.active(1, "DREQ")
    old.passive(1.06, "DREP" if answered else "DREQ")
    if not answered:
        old.active(1.07, "DREP")
    old.another(active_qpn=QPN).active(3.06, "REQ", **TIMES)
    finding = run(old).only("T02")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_t02_only_possible_by_so_little_as_messages_take_on_their_way():
    finding = run(reuse(2.045)).only("T02")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_t01_silent_for_a_use_before_the_close_by_the_numbers_of_its_sender():
    old = Conversation(Host("10.0.0.1", psn=5000), Host("10.0.0.2", psn=100), active_qpn=QPN)
    old.establish(0, **TIMES)
    old.passive(1, "DREQ")
    earlier = old.hosts["active"].next_psn()
    old.active(1.01, "DREP")
    later, old.hosts["active"].psn = old.hosts["active"].psn, earlier
    new = old.another(active_qpn=QPN)
    new.active(1.02, "REQ", **TIMES)
    old.hosts["active"].psn = later
    assert not {"T01", "T02"} & set(run(old).codes)
