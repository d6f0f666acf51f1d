"""S01, S04-S07: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import Duration, Qpn

QPN = 0x11
# LAT 19, TAD 15: passive timewait 2.048 s; active at least 128 ms, 2.048 s in Linux.
TIMES = {"primary_local_ack_timeout": 19}


def crashed(age=60.0, psn=100, **options):
    """A connection left without a goodbye, and the next attempt of the same QPN (not yet answered)."""
    old = Conversation(Host("10.0.0.1", psn=100), Host("10.0.0.2", psn=psn), active_qpn=QPN)
    old.establish(0)
    new = old.another(active_qpn=QPN, **options)
    new.active(age, "REQ")
    return old, new


def closed(gap, qpn=QPN):
    """A connection closed at 1.01 s, and a REQ `gap` seconds later with `qpn`."""
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ", **TIMES)
    old.passive(0.01, "REP", target_ack_delay=15)
    old.active(0.02, "RTU")
    old.close(1.0)
    new = old.another(active_qpn=qpn)
    new.active(1.01 + gap, "REQ", **TIMES)
    return old, new


# -- S01 -----------------------------------------------------------------------------------------------------------


def test_s01_a_connected_qpn_accepted():
    old, new = crashed()
    new.passive(60.01, "REP")
    result = run(old)
    finding = result.only("S01")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert (finding.connection, finding.related) == (2, (1,))
    assert [frame for _, frame in finding.frames] == [4, 5]
    assert finding.evidence["age"] == Duration(60_000_000_000)
    assert finding.evidence["qpn"] == Qpn(0x11)


def test_s01_is_only_probable_where_a_restart_may_not_show():
    """PSN 0, then 1 after a minute: a new life of the passive side whose first message was missed looks the same."""
    old, new = crashed(psn=0)
    new.passive(60.01, "REP")
    assert run(old).only("S01").confidence == "probable"


def test_s01_accuses_nobody_whose_numbers_begin_anew():
    """PSN 0 behind the largest one: a wrap, or far likelier a restart."""
    old, new = crashed(psn=(1 << 24) - 1)
    new.passive(60.01, "REP")
    finding = run(old).only("S01")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "perhaps 10.0.0.2 restarted" in finding.message


@pytest.mark.parametrize("sign", ["qpn", "comm_id"])
def test_s01_accuses_nobody_who_may_have_restarted_unseen(sign):
    """The first message of its new life was missed; it counts its QPNs, or its Communication IDs, anew."""
    old, new = crashed(psn=0)
    if sign == "qpn":
        new.qpns["passive"] = old.qpns["passive"]
    else:
        new.comm_ids["passive"] = 0x5D11_A000
    new.passive(60.01, "REP")
    finding = run(old).only("S01")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s01_accuses_nobody_by_the_times_of_two_captures():
    """The clock of either may have been set; one that holds both connections tells."""
    old, new = crashed(psn=0)
    new.passive(60.01, "REP")
    old.capture[3:] = [replace(message, file=1) for message in old.capture[3:]]
    assert run(old).only("S01").confidence == "possible"


def test_s01_silent_where_the_numbers_tell_another_order():
    """The clock of one capture is ahead: the connection that seems to be older was opened later."""
    client, server = Host("10.0.0.1", psn=5000), Host("10.0.0.2", psn=7000)
    first = Conversation(client, server, active_qpn=QPN)
    first.establish(60)
    later = first.another(active_qpn=QPN)
    later.establish(59)
    later.capture[3:] = [replace(message, file=1) for message in later.capture[3:]]
    assert "S01" not in run(first).codes


def test_s01_accuses_nobody_for_a_req_that_came_again_when_the_rep_was_given_up():
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ")
    old.passive(0.01, "REP")
    new = old.another(active_qpn=QPN)
    request = new.active(3, "REQ")
    new.again(9, request)
    new.passive(9.01, "REP")
    assert run(old).only("S01").confidence == "possible"


@pytest.mark.parametrize(("retries", "confidence"), [(1, "possible"), (2, "probable")])
def test_s01_accuses_nobody_whose_rep_is_no_more_repeated(retries, confidence):
    """It was sent for the last time, or its RTU was not captured: whether the QPN is held is not known."""
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ")
    rep = old.passive(0.01, "REP")
    old.repeat(rep, 4.1, retries)
    new = old.another(active_qpn=QPN)
    new.active(9, "REQ")
    new.passive(9.01, "REP")
    assert run(old).only("S01").confidence == confidence


def test_s01_silent_when_the_req_was_refused_first():
    """Its holder gave its REP up, whose RTU had not arrived, and then took the REQ."""
    old, new = crashed()
    new.passive(60.01, "REJ", reason=10)
    new.again(64.3, old.capture[3])
    new.passive(64.31, "REP")
    assert "S01" not in run(old).codes


def test_s01_accuses_nobody_whose_rtu_did_not_arrive():
    """Its REP came again behind the RTU, but no more for long: it may have been given up."""
    old = Conversation(active_qpn=QPN)
    _, rep, _ = old.establish(0)
    old.repeat(rep, 4.1, 2)
    new = old.another(active_qpn=QPN)
    new.active(30, "REQ")
    new.passive(30.01, "REP")
    assert run(old).only("S01").severity == "info"


@pytest.mark.parametrize(("rep", "confidence"), [(12.3, "possible"), (8.2, "certain")])
def test_s01_accuses_nobody_whose_rep_was_the_last_allowed(rep, confidence):
    """Those before it were not captured, and its RTU may have been lost: it would not come again."""
    old = Conversation(Host("10.0.0.1", psn=100), Host("10.0.0.2", psn=100), active_qpn=QPN)
    old.active(0, "REQ", max_cm_retries=3)
    old.passive(rep, "REP")
    old.active(rep + 0.01, "RTU")
    new = old.another(active_qpn=QPN)
    new.active(30, "REQ")
    new.passive(30.01, "REP")
    assert run(old).only("S01").confidence == confidence


def test_s01_accuses_nobody_whose_req_may_have_been_held_up():
    """Until the wait for the RTU of the old connection was over."""
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ")
    old.passive(0.01, "REP")
    new = old.another(active_qpn=QPN)
    new.active(3.7, "REQ")
    new.passive(7.1, "REP")
    assert run(old).only("S01").confidence == "possible"


def test_s01_is_only_probable_without_proof_that_the_old_one_lived():
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ")
    old.passive(0.01, "REP")
    new = old.another(active_qpn=QPN)
    new.active(2, "REQ")
    new.passive(2.01, "REP")
    assert run(old).only("S01").confidence == "probable"


def test_s01_silent_for_another_qpn_another_ca_and_a_closed_connection():
    old, _ = crashed()
    old.capture.pop()
    new = old.another(active_qpn=0x12)
    new.establish(60)
    stranger = old.another(Host("10.0.0.3"), active_qpn=QPN)
    stranger.establish(61)
    assert "S01" not in run(old).codes
    old, new = closed(10)
    new.passive(11.5, "REP")
    assert run(old).codes == []


def test_s01_silent_when_the_old_connection_had_begun_to_close():
    old = Conversation(active_qpn=QPN)
    old.establish()
    old.passive(1, "DREQ")  # killed: its CM has forgotten the connection
    new = old.another(active_qpn=QPN)
    new.establish(2)
    assert "S01" not in run(old).codes


def test_s01_silent_when_the_rep_of_the_old_one_was_given_up():
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ", max_cm_retries=1)
    rep = old.passive(0.01, "REP")
    old.again(4.3, rep)
    new = old.another(active_qpn=QPN)
    new.establish(60)
    assert "S01" not in run(old).codes


# -- S04 -----------------------------------------------------------------------------------------------------------


def stale_rep():
    old = Conversation(passive_qpn=0x77)
    old.establish(0)
    new = old.another(passive_qpn=0x77)
    new.active(60, "REQ")
    new.passive(60.01, "REP")
    return old, new


def test_s04_a_rep_with_a_connected_qpn_accepted():
    old, new = stale_rep()
    new.active(60.02, "RTU")
    finding = run(old).only("S04")
    assert (finding.severity, finding.connection, finding.related) == ("error", 2, (1,))
    assert [frame for _, frame in finding.frames] == [5, 6]


def test_s04_silent_when_the_rtu_answers_a_rep_that_is_captured_behind_it():
    old, new = stale_rep()
    new.active(60.02, "REJ", reason=10)
    new.again(64, new.capture[3])
    new.comm_ids["passive"] += 1 << 24
    rtu = new.active(64.02, "RTU")
    new.passive(64.03, "REP", qpn=0x78)
    assert rtu.fields.remote_comm_id == new.comm_ids["passive"]
    assert "S04" not in run(old).codes


def test_s04_accuses_nobody_whose_mad_agent_is_another():
    """Its driver was loaded anew, and the numbers of its QP1 happen to run on."""
    client = Host("10.0.0.1")
    old = Conversation(client, passive_qpn=0x77)
    old.establish(0)
    client.tid_high = 5
    new = old.another(passive_qpn=0x77)
    new.establish(60)
    finding = run(old).only("S04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "10.0.0.1 sends by another MAD agent since" in finding.message


def test_s04_silent_when_the_old_connection_was_closed_in_between():
    old, new = stale_rep()
    old.passive(60.012, "DREQ")
    old.active(60.015, "DREP")
    new.active(60.02, "RTU")
    assert "S04" not in run(old).codes


# -- S05, S06, S07 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "severity"), [("relaxed", "info"), ("strict", "error")])
def test_s05_accepted_in_the_receivers_timewait(policy, severity):
    old, new = closed(0.3)
    new.passive(1.32, "REP")
    finding = run(old, policy).only("S05")
    assert (finding.severity, finding.policy, finding.confidence) == (severity, policy, "probable")
    assert finding.evidence == {
        "qpn": Qpn(0x11),
        "after_close": Duration(300_000_000),
        "timewait": Duration(2_048_000_000),
    }
    assert [frame for _, frame in finding.frames] == [6, 7]


def test_s05_accuses_nobody_whose_drep_was_held_up():
    old = Conversation(active_qpn=QPN)
    old.establish(0, **TIMES)
    old.active(1, "DREQ")
    old.passive(4, "DREP")
    old.another(active_qpn=QPN).establish(4.01)
    finding = run(old, "strict").only("S05")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s05_silent_after_timewait_and_with_another_qpn():
    for gap, qpn in ((2.05, QPN), (0.3, 0x12)):
        old, new = closed(gap, qpn)
        new.passive(1.02 + gap, "REP")
        assert "S05" not in run(old, "strict").codes


def test_s06_refused_in_the_receivers_timewait_depends_on_the_policy():
    old, new = closed(0.3)
    new.passive(1.32, "REJ", reason=10)
    finding = run(old, "relaxed").only("S06")
    assert (finding.severity, finding.policy) == ("warning", "relaxed")
    assert "S06" not in run(old, "strict").codes
    assert "S08" not in run(old, "strict").codes


def test_s06_accuses_nobody_who_may_not_have_got_the_drep():
    old = Conversation(active_qpn=QPN)
    old.establish(0, **TIMES)
    old.close(1.0, by="passive")
    new = old.another(active_qpn=QPN)
    new.active(1.5, "REQ", **TIMES)
    new.passive(1.51, "REJ", reason=10)
    finding = run(old).only("S06")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s06_silent_when_a_late_copy_was_refused():
    old, new = closed(0.3)
    new.passive(1.32, "REP")
    new.active(1.33, "RTU")
    new.passive(1.9, "REJ", reason=10, local_comm_id=0, message_rejected=0)
    assert "S06" not in run(old).codes


def test_s06_accuses_nobody_whose_refusal_came_before_the_close():
    """By the numbers of the other side's QP1: its REQ was captured behind its DREP."""
    client = Host("10.0.0.1", psn=5000)
    old = Conversation(client, active_qpn=QPN)
    old.establish(0, **TIMES)
    new = old.another(active_qpn=QPN)
    request = new.active(1.0, "REQ", **TIMES)
    refused = new.passive(1.01, "REJ", reason=10)
    old.close(1.02, by="passive")
    old.capture[:] = [
        replace(one, time=one.time + 100_000_000) if one in (request, refused) else one for one in old.capture
    ]
    assert "S06" not in run(old).codes


def test_s06_silent_when_another_connection_explains_the_refusal():
    old, new = closed(0.3)
    holder = old.another(active_qpn=QPN)
    holder.active(0.5, "REQ", **TIMES)
    holder.passive(0.51, "REP")
    holder.active(0.52, "RTU")
    new.passive(1.32, "REJ", reason=10)
    codes = run(old, "relaxed").codes
    assert "S06" not in codes and "S02" in codes


def test_s07_unanswered_in_the_receivers_timewait():
    old, new = closed(0.3)
    new.repeat(new.capture[-1], 6.4, 15)
    finding = run(old, until=200).only("S07")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s07_silent_outside_timewait():
    old, new = closed(3)
    new.repeat(new.capture[-1], 6.4, 15)
    assert "S07" not in run(old, until=200).codes


def test_s05_silent_when_the_repeated_req_was_accepted_after_timewait():
    """The first one may have been lost behind the capture point, or was refused."""
    for refused in (False, True):
        old, new = closed(0.3)
        if refused:
            new.passive(1.32, "REJ", reason=10)
        new.again(6, new.capture[5])
        new.passive(6.01, "REP")
        assert "S05" not in run(old).codes


def test_s06_is_only_possible_where_the_close_may_have_come_after_the_refusal():
    old = Conversation(active_qpn=QPN)
    old.establish(0, **TIMES)
    old.close(1.0, "passive")
    new = old.another(active_qpn=QPN)
    new.active(1.02, "REQ", **TIMES)
    new.passive(1.021, "REJ", reason=10)
    assert run(old).only("S06").severity == "info"
