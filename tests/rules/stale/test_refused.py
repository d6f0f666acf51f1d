"""S02, S03, S09, S13: what follows a stale refusal; each fires, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import Duration, FrameNumber, Time

QPN = 0x11
NVME = 0x0000000001061144


def crashed(age=60.0, **options):
    """A connection left without a goodbye, and the next attempt of the same QPN (not yet answered)."""
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=100), active_qpn=QPN)
    old.establish(0)
    new = old.another(active_qpn=QPN, **options)
    new.active(age, "REQ")
    return old, new


def refused(reason=10):
    old, new = crashed()
    new.passive(60.01, "REJ", reason=reason)
    return old, new


def test_s02_refused_and_released_as_it_must_be():
    old, _ = refused()
    old.passive(60.0102, "DREQ")
    old.active(60.02, "DREP")
    result = run(old)
    assert result.codes == ["S02"]
    finding = result.only("S02")
    assert (finding.severity, finding.confidence, finding.connection, finding.related) == (
        "warning",
        "certain",
        2,
        (1,),
    )
    assert [frame for _, frame in finding.frames] == [4, 5]
    assert finding.evidence["dreq_frame"] == FrameNumber(0, 6)
    assert finding.evidence["dreq_after"] == Duration(200_000)
    assert finding.evidence["last_message"] == Duration(60_000_000_000 - 20_000_000)
    assert [c.outcome for c in result.connections] == ["stale", "rejected"]


def test_s02_where_the_times_have_the_refusal_before_its_req():
    """A capture with a little disorder, in the order of its frames."""
    old, new = crashed()
    new.passive(59.999, "REJ", reason=10)
    old.passive(60.0102, "DREQ")
    assert run(old, in_order=False).codes == ["S02"]


def test_s02_silent_for_another_reason():
    old, _ = refused(reason=28)
    result = run(old)
    assert "S02" not in result.codes
    assert result.connections[0].outcome == "established"


def test_s02_of_a_rep():
    """The passive host rebooted: its REP names a QPN that the active side still holds."""
    a, b = Host("10.0.0.1"), Host("10.0.0.2")
    old = Conversation(a, b, passive_qpn=0x77)
    old.establish(0)
    new = old.another(passive_qpn=0x77)
    req = new.active(60, "REQ")
    new.passive(60.01, "REP")
    new.active(60.02, "REJ", reason=10)
    old.active(60.03, "DREQ")
    old.passive(60.04, "DREP")
    new.again(66.4, req)
    new.comm_ids["passive"] += 1
    new.passive(66.41, "REP", qpn=0x78)
    new.active(66.42, "RTU")
    result = run(new)
    assert result.codes == ["S02"]
    assert [frame for _, frame in result.only("S02").frames] == [5, 6]
    assert [c.outcome for c in result.connections] == ["stale", "established"]


def test_s03_no_dreq_after_the_refusal():
    old, _ = refused()
    old.another().establish(79)
    result = run(old, until=80)
    assert result.codes == ["S02", "S03"]
    finding = result.only("S03")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.evidence["timeout"] == Duration(4_294_967_296)


def test_s03_only_possible_where_the_dreq_may_have_been_missed():
    """A message is missing behind the refusal, or nothing that came later could show it."""
    old, _ = refused()
    finding = run(old, until=80).only("S03")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    old, _ = refused()
    old.hosts["passive"].psn += 1
    old.another().establish(79)
    finding = run(old, until=80).only("S03")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "1 message of 10.0.0.2 missing" in finding.message


def test_s03_is_told_of_slow_cms():
    """Three of their timeouts are longer than an attempt is remembered."""
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=100), active_qpn=QPN)
    old.establish(0, local_cm_response_timeout=24, remote_cm_response_timeout=24)
    new = old.another(active_qpn=QPN)
    new.active(200, "REQ")
    new.passive(200.01, "REJ", reason=10)
    old.another().establish(260)
    old.another().establish(500)
    assert run(old, until=900).only("S03").severity == "error"


def test_s03_only_possible_while_the_rtu_may_not_have_arrived():
    """The active side asked for time: the passive one waits without repeating its REP, and owes no DREQ yet."""
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2"), active_qpn=QPN)
    old.active(0, "REQ")
    old.passive(0.01, "REP")
    old.active(0.02, "MRA", service_timeout=24)  # 69 s
    old.active(0.03, "RTU")
    new = old.another(active_qpn=QPN)
    new.active(60, "REQ")
    new.passive(60.01, "REJ", reason=10)
    old.another().establish(79)
    finding = run(old, until=80).only("S03")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "the RTU of the old connection may not have arrived yet" in finding.message


def test_s03_may_be_held_back_by_flow_control():
    """Two timeouts after the refusal the capture ends: it may still come."""
    old, _ = refused()
    finding = run(old, until=70).only("S03")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s03_silent_before_it_is_due_and_where_none_is_owed():
    old, _ = refused()
    assert run(old, until=63).codes == ["S02"]
    old = Conversation(active_qpn=QPN)
    old.active(0, "REQ")
    old.passive(0.01, "REP")  # never established at the receiver: Linux sends no DREQ
    new = old.another(active_qpn=QPN)
    new.active(2, "REQ")
    new.passive(2.01, "REJ", reason=10)
    assert "S03" not in run(old, until=30).codes


def loop(refusals, retries=15, **options):
    """A QPN that is refused five times a second."""
    talk = Conversation(active_qpn=QPN, **options)
    talk.establish(0, max_cm_retries=retries)
    for number in range(refusals):
        attempt = talk.another(active_qpn=QPN, **options)
        attempt.active(60 + number * 0.2, "REQ")
        attempt.passive(60.01 + number * 0.2, "REJ", reason=10)
    return talk


def test_s02_says_who_holds_what_until_when_and_what_the_kernel_logs():
    talk = loop(1, service_id=NVME)
    talk.passive(60.0102, "DREQ")
    finding = run(talk).only("S02")
    assert "which 10.0.0.2 still holds connected to 10.0.0.1 (connection 1, opened 60 s before" in finding.message
    assert finding.evidence["retry_budget"] == Duration(16 * 4_294_967_296)
    assert "when its DREQ is answered or its retries have run out" in finding.advice
    assert "Connect rejected: status 10 (stale conn)" in finding.advice


def test_s02_knows_what_else_is_held_of_that_host():
    """Not what was closed, is of somebody else, or came afterwards."""
    old, other = Conversation(Host("10.0.0.1"), Host("10.0.0.2"), active_qpn=QPN), Host("10.0.0.3")
    old.establish(0)
    old.another(active_qpn=0x12).establish(1)
    old.another(active_qpn=0x13).establish(2)
    closed = old.another(active_qpn=0x14)
    closed.establish(3)
    closed.close(4)
    old.another(other).establish(5)
    new = old.another(active_qpn=QPN)
    new.active(60, "REQ")
    new.passive(60.01, "REJ", reason=10)
    old.passive(60.0102, "DREQ")
    old.another().establish(61)
    finding = run(old).only("S02")
    assert finding.evidence["other_connections"] == [2, 3]
    assert "10.0.0.2 holds 2 older connections with 10.0.0.1 besides (2, 3), stale as well if" in finding.advice


def test_s02_tells_when_the_dreq_goes_elsewhere():
    old = Conversation(Host("10.0.0.1", guid=7), Host("10.0.0.2"), active_qpn=QPN)
    old.establish(0)
    new = old.another(Host("10.0.0.99", guid=7), active_qpn=QPN)
    new.active(60, "REQ")
    new.passive(60.01, "REJ", reason=10)
    old.passive(60.0102, "DREQ")
    says = "It goes to 10.0.0.1, where connection 1 was made from, while this REQ came from 10.0.0.99."
    assert run(old).only("S02").message.endswith(says)


def test_s02_silent_when_the_drep_that_was_sent_before_is_captured_behind():
    """By the numbers of its sender, a strict host that refuses in its timewait."""
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=5000), active_qpn=QPN)
    old.establish(0)
    old.capture.remove(old.active(1, "DREQ"))
    drep = old.passive(1.01, "DREP")
    new = old.another(active_qpn=QPN)
    new.active(1.012, "REQ")
    new.passive(1.013, "REJ", reason=10)
    old.capture.remove(drep)
    old.copy(1.02, drep)
    assert "S02" not in run(old).codes


def test_s02_accuses_nobody_who_had_sent_a_dreq_that_may_have_been_answered():
    """Nothing of the other side was captured before its refusal, and it sends no DREQ."""
    old = Conversation(active_qpn=QPN)
    _, reply, _ = old.establish(0)
    old.capture.remove(reply)
    old.active(1, "DREQ")
    old.capture.remove(old.passive(1.01, "DREP"))
    new = old.another(active_qpn=QPN)
    new.active(1.02, "REQ")
    new.passive(1.03, "REJ", reason=10)
    finding = run(old).only("S02")
    assert (finding.severity, finding.confidence) == ("info", "possible")


@pytest.mark.parametrize(("asked", "severity"), [(-1, "info"), (50, "warning")])
def test_s02_accuses_nobody_whose_other_address_was_known_before(asked, severity):
    """A REP from elsewhere with the same CA GUID: it is the same machine if that address is a new one."""
    client, old_place, new_place = Host("10.0.0.1"), Host("10.0.0.2", psn=5000), Host("10.0.0.3", guid=7)
    old_place.guid = 7
    old = Conversation(client, old_place, passive_qpn=QPN)
    old.establish(0)
    new = old.another(client, new_place, passive_qpn=QPN)
    new.comm_ids["passive"] = 0x5D11_A000
    new.active(asked, "REQ")
    new.passive(60, "REP")
    new.active(60.01, "REJ", reason=10)
    old.repeat(old.active(60.0102, "DREQ"), 6.4, 15)
    assert run(old, until=400).only("S02").severity == severity


def test_s02_is_information_for_further_attempts():
    talk = loop(3)
    dreq = talk.passive(60.0102, "DREQ", psn=2)
    talk.capture[talk.capture.index(dreq)] = replace(dreq, psn=None)  # its number is that of a message built before
    first, second, third = sorted(run(talk).of("S02"), key=lambda finding: finding.connection)
    assert (first.severity, second.severity, third.severity) == ("warning", "info", "info")
    assert "still holds connection 1, and its DREQ, sent once until then, is unanswered" in second.message


def test_s03_is_told_once_for_each_old_connection():
    finding = run(loop(3), until=80).only("S03")
    assert finding.connection == 2
    assert "still holds QPN 0x000011, and" in finding.message


def test_s09_refused_over_and_over():
    finding = run(loop(6)).only("S09")
    assert finding.evidence["refusals"] == 6
    assert finding.evidence["span"] == Duration(1_000_000_000)
    assert (finding.connection, finding.related) == (7, (1,))
    assert [frame for _, frame in finding.frames] == [5, 15]
    assert "held it connected (connection 1) and sent no DREQ on it" in finding.message


def test_s09_says_when_the_qpn_became_free():
    answered = loop(6)
    answered.again(64.4, answered.passive(60.0102, "DREQ"))
    answered.active(64.41, "DREP")
    finding = run(answered, until=100).only("S09")
    assert "its DREQ was answered only 4.4 s after the first refusal" in finding.message
    assert finding.evidence["released"] == Time(answered.capture[-1].time)
    exhausted = loop(6, retries=3)
    last = exhausted.repeat(exhausted.passive(60.0102, "DREQ"), every=4.35, count=3)[-1]
    finding = run(exhausted, until=200).only("S09")
    assert "sent 4 times and never answered, was given up about 18.4 s after the first refusal" in finding.message
    assert finding.evidence["released"] == Time(last.time + 4_294_967_296 * 5 // 4)


def test_s09_silent_for_a_few_refusals():
    assert "S09" not in run(loop(3)).codes


def test_a_retry_loop_of_refusals_is_no_reuse_in_timewait():
    """The refused QPs never carried data: nothing has to die out before the next attempt."""
    assert not {"T01", "T02", "X01"} & set(run(loop(6)).codes)


def sound_beside_stale(closed_at, service_id=0x0000000001061C06):
    """10.0.0.2 refuses 10.0.0.1 at 60.01 s; its connection with 10.0.0.3 is closed at `closed_at`."""
    talk = loop(1)
    sound = talk.another(Host("10.0.0.3"), service_id=service_id)
    sound.establish(1)
    talk.passive(60.0102, "DREQ")
    talk.active(60.0104, "DREP")
    sound.close(closed_at)
    return talk


def test_s13_a_sound_connection_closed_right_after():
    result = run(sound_beside_stale(60.07))
    finding = result.only("S13")
    assert (finding.severity, finding.connection, finding.related) == ("info", 2, (3,))
    assert "10.0.0.3 closed this connection 60 ms after 10.0.0.2 had refused connection 3 as stale" in finding.message
    assert result.codes == ["S02", "S13"]  # and nothing of the DREQ that the refusal called for


def test_s13_silent_later_before_and_for_another_service():
    assert "S13" not in run(sound_beside_stale(62)).codes
    assert "S13" not in run(sound_beside_stale(50)).codes
    assert "S13" not in run(sound_beside_stale(60.07, service_id=NVME)).codes


def test_s02_once_where_the_req_of_the_old_connection_was_not_captured():
    """Its holder is the one that asked for it: the REP of the rebooted host tells its QPN."""
    old = Conversation(Host("10.0.0.1"), Host("10.0.0.2"), passive_qpn=QPN)
    old.establish(0)
    del old.capture[0]
    new = old.another(old.hosts["passive"], old.hosts["active"], active_qpn=QPN)
    new.active(60, "REQ")
    new.passive(60.01, "REJ", reason=10)
    old.active(60.0102, "DREQ")
    assert run(old, until=300).of("S02")[1:] == []


def test_an_attempt_whose_refusal_was_not_captured_is_not_what_is_held():
    old, new = refused()
    lost = new.another(active_qpn=QPN)
    lost.active(70, "REQ")  # its REJ 10 is lost
    again = new.another(active_qpn=QPN)
    again.active(80, "REQ")
    again.passive(80.01, "REJ", reason=10)
    result = run(old)
    assert [connection.outcome for connection in result.connections] == ["stale", "rejected", "connecting", "rejected"]
    assert [finding.related for finding in result.of("S02")] == [(1,), (1,)]
