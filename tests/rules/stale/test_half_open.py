"""S08, S10-S12 and T09: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import Duration

QPN = 0x11


def test_s08_a_stale_refusal_of_an_unknown_connection_in_a_young_capture_is_info():
    talk = Conversation(active_qpn=QPN)
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=10)
    finding = run(talk).only("S08")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s08_where_the_capture_is_older_than_its_connections():
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    late = talk.another(active_qpn=QPN)
    late.active(5000, "REQ")
    late.passive(5000.01, "REJ", reason=10)
    assert run(talk).only("S08").severity == "info"


def test_s08_of_a_host_without_a_ca_guid():
    """The receiver may mean another host: to it all of them are one."""
    talk = Conversation(Host("10.0.0.1", guid=0), active_qpn=QPN)
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=10)
    assert "all hosts whose CA GUID is 0 are one" in run(talk).only("S08").message


def test_s08_silent_when_the_connection_is_known():
    talk = Conversation(active_qpn=QPN)
    talk.establish(0)
    late = talk.another(active_qpn=QPN)
    late.active(60, "REQ")
    late.passive(60.01, "REJ", reason=10)
    assert "S08" not in run(talk).codes


def refused_and_on(gap):
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(0.02, "REJ", reason=10, message_rejected=2)
    talk.active(0.02 + gap, "RTU")
    return talk


def test_s10_went_on_after_rej_10():
    finding = run(refused_and_on(1)).only("S10")
    assert (finding.severity, finding.confidence) == ("error", "probable")


def test_s10_silent_when_the_rtu_crossed_the_rej():
    assert "S10" not in run(refused_and_on(0.005)).codes


def test_s10_silent_when_the_rtu_answers_another_rep():
    """One that was sent after the REJ, which was held up; or one that is captured behind the RTU."""
    for held_up in (True, False):
        talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=5000))
        request = talk.active(0, "REQ")
        refused = talk.passive(0.01, "REJ", reason=10)
        talk.again(4, request)
        if held_up:
            talk.passive(4.01, "REP")
            talk.capture.remove(refused)
            talk.copy(4.5, refused)
        talk.active(5, "RTU")
        assert "S10" not in run(talk).codes


def test_s11_data_long_after_the_other_side_rejected():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)  # lost: the passive side repeats its REP
    talk.again(4.3, talk.capture[1])
    talk.again(8.6, talk.capture[1])
    finding = run(talk, until=100).only("S11")
    assert finding.severity == "warning"
    assert finding.evidence["still_sending_after"] == Duration(8_580_000_000)


def test_s11_silent_when_the_last_message_was_only_under_way():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)
    assert "S11" not in run(talk, until=100).codes


def test_s11_accuses_nobody_by_a_single_packet_that_may_have_been_held_up():
    rejected = Conversation()
    rejected.active(0, "REQ")
    rep = rejected.passive(0.01, "REP")
    rejected.active(0.02, "REJ", reason=28)
    rejected.again(7.8, rep)
    assert run(rejected, until=100).only("S11").severity == "info"


@pytest.mark.parametrize(("time", "severity"), [(14, "info"), (24, "warning")])
def test_s11_by_data_behind_the_last_dreq(time, severity):
    """A data packet may come twice, the second time some seconds late."""
    talk = Conversation()
    talk.establish(0, max_cm_retries=1)
    talk.again(5.3, talk.active(1, "DREQ"))
    talk.data(time, "passive")
    assert run(talk, until=100).only("S11").severity == severity


def test_s11_silent_when_the_active_side_refused_the_rep_as_stale():
    """It goes on with its REQ, whose next answer is not to what it has refused."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=10, message_rejected=1)
    for time in (8.6, 12.9):
        talk.passive(time, "REP", local_comm_id=0x4711)
    assert "S11" not in run(talk, until=100).codes


def test_s11_silent_while_the_dreq_is_still_being_repeated():
    """Its REP comes again, as the RTU was lost: nobody has let go."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=15)
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    talk.active(1, "DREQ")
    talk.repeat(rep, 4.1, 3)
    assert "S11" not in run(talk, until=13).codes


def test_s11_silent_when_the_data_are_of_the_next_holder_of_the_qpn():
    """Its DREP was not captured; then the passive side gives the QPN to a new connection, to which the data belong."""
    old = Conversation(passive_qpn=0x77)
    old.establish(0)
    old.data(1, "active")
    old.passive(8, "DREQ")
    new = old.another(passive_qpn=0x77)
    new.establish(94)
    new.data(94.5, "active")
    result = run(old, until=200)
    assert "S11" not in result.codes
    assert result.connections[0].last_data["active"].frame == 4


def dying(**req):
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=100))
    talk.establish(0, **req)
    talk.passive(0.5, "MRA", message_mraed=2)  # so that both directions were heard
    talk.active(1, "DREQ")
    return talk


def test_s12_a_dreq_sent_once():
    """Whether the DREP was missed only what the peer sends later can tell."""
    finding = run(dying(), until=60).only("S12")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    talk = dying()
    other = talk.another(Host("10.0.0.9"))
    other.establish(20)
    finding = run(talk, until=60).only("S12")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    talk = dying()
    talk.hosts["passive"].next_psn()
    talk.another(Host("10.0.0.9")).establish(20)
    finding = run(talk, until=60).only("S12")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "1 message of 10.0.0.2 missing" in finding.message


def test_s12_is_only_possible_where_the_peer_is_heard_by_another_clock():
    """It is not known to have sent its next message behind the DREQ."""
    talk = dying()
    talk.another(Host("10.0.0.9")).establish(20)
    for message in talk.capture:
        message.file = int(message.source == talk.hosts["passive"].address)
    assert run(talk, until=60).only("S12").severity == "info"


def test_s12_is_only_possible_where_another_machine_has_the_address_of_the_peer():
    """Its numbers seem to run on from those of the peer, which may have sent a DREP."""
    talk = dying()
    talk.passive(1.5, "MRA", message_mraed=2)
    heir = Host("10.0.0.2", psn=talk.hosts["passive"].psn, guid=0x77)
    talk.another(Host("10.0.0.9"), heir).establish(20)
    assert [found.severity for found in run(talk, until=60).of("S12")] == ["info"]


def test_s12_is_only_possible_where_the_clock_was_set_behind_the_dreq():
    talk = dying()
    talk.another(Host("10.0.0.9")).establish(-1)
    talk.another(Host("10.0.0.9")).establish(20)
    assert [found.severity for found in run(talk, until=60, in_order=False).of("S12")] == ["info"]


def test_s12_says_when_the_sender_is_back_with_another_qpn():
    """The first REQ of the same program to the same service, not the newest of its host."""
    talk = dying()
    talk.another(service_id=0x0000000001061C07).active(24, "REQ", qpn=0x776)
    talk.another().active(25, "REQ", qpn=0x777)
    talk.another().active(26, "REQ", qpn=0x778)
    talk.another(passive=Host("10.0.0.3")).active(27, "REQ", qpn=0x779)
    assert "It is back since (REQ after 24 s, frame 7) with QPN 0x000777" in run(talk, until=60).only("S12").message
    talk = dying()
    talk.another(passive=Host("10.0.0.9")).active(25, "REQ", qpn=0x777)
    assert "back" not in run(talk, until=60).only("S12").message


def test_s12_knows_the_first_request_of_the_same_service():
    """Not another program's, nor the newest."""
    talk = dying()
    talk.another(service_id=0x1061144).active(3, "REQ", qpn=0x700)
    talk.another().active(9, "REQ", qpn=0x777)
    talk.another().active(25, "REQ", qpn=0x778)
    assert "It is back since (REQ after 8 s, frame 7) with QPN 0x000777" in run(talk, until=60).only("S12").message


def test_s12_silent_when_answered_repeated_not_yet_due_or_never_to_be_repeated():
    talk = dying()
    talk.passive(1.01, "DREP")
    assert "S12" not in run(talk, until=60).codes
    talk = dying()
    talk.repeat(talk.capture[-1], 6.4, 3)
    assert "S12" not in run(talk, until=26).codes
    assert "S12" not in run(dying(), until=2).codes
    assert "S12" not in run(dying(max_cm_retries=0), until=60).codes


def test_s12_is_information_while_few_repetitions_are_overdue():
    finding = run(dying(), until=15).only("S12")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_s12_is_told_once_when_the_sender_has_given_up():
    assert run(dying(), until=1000).only("S12").severity == "info"


def test_s12_silent_when_dreqs_cross():
    """Each side learns of the end by the other's DREQ, so neither repeats its own."""
    talk = dying()
    talk.passive(1.001, "DREQ")
    assert "S12" not in run(talk, until=60).codes


def unanswered_dreqs(data_at):
    talk = Conversation()
    talk.establish(0, max_cm_retries=3)
    dreq = talk.active(1, "DREQ")
    talk.repeat(dreq, 6.4, 3)
    talk.data(data_at, "passive")
    return talk


def test_t09_the_other_side_is_still_at_work():
    finding = run(unanswered_dreqs(21), until=200).only("T09")
    assert finding.severity == "warning"
    assert finding.evidence["dreqs"] == 4
    assert finding.evidence["peer_alive_after"] == Duration(20_000_000_000)


def test_t09_is_information_where_the_last_dreq_may_have_arrived():
    finding = run(unanswered_dreqs(15), until=200).only("T09")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_t09_is_information_where_a_single_packet_may_have_been_held_up():
    talk = Conversation()
    talk.establish(0, max_cm_retries=1)
    talk.repeat(talk.active(1, "DREQ"), 6.4, 1)
    talk.data(10, "passive")
    finding = run(talk, until=200).only("T09")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    talk.data(12, "passive")
    assert run(talk, until=200).only("T09").severity == "warning"


def test_s12_is_information_where_both_ends_give_each_connection_one_id():
    talk = dying()
    talk.another(Host("10.0.0.9")).establish(20)
    assert run(talk, until=60).only("S12").severity == "warning"
    talk = Conversation(Host("10.0.0.1", first_comm_id=0x1234), Host("10.0.0.2", first_comm_id=0x1234, psn=100))
    talk.establish(0)
    talk.active(1, "DREQ")
    talk.another(Host("10.0.0.9")).establish(20)
    assert run(talk, until=60).only("S12").severity == "info"


def test_t09_silent_when_the_last_data_came_before_the_dreqs():
    assert "T09" not in run(unanswered_dreqs(0.9), until=200).codes


def test_t09_silent_when_there_was_a_drep():
    talk = Conversation()
    talk.establish(0, max_cm_retries=1)
    dreq = talk.active(1, "DREQ")
    drep = talk.passive(9, "DREP")
    talk.again(9.1, dreq)
    talk.again(9.2, drep)
    talk.again(16, dreq)
    assert "T09" not in run(talk, until=500).codes


def test_a_host_that_reboots_and_is_refused():
    """The whole report: refused, released, connected again."""
    a, b = Host("10.0.0.1"), Host("10.0.0.2")
    talk = Conversation(a, b, active_qpn=QPN)
    talk.establish(0)
    a.psn, a.tid_high, again = 0, 9, Host("10.0.0.1", first_comm_id=0xDEAD0000, tid_high=9)
    refused = talk.another(again, b, active_qpn=QPN)
    refused.active(60, "REQ")
    refused.passive(60.01, "REJ", reason=10)
    talk.passive(60.011, "DREQ")
    talk.active(60.03, "DREP")
    accepted = refused.another(active_qpn=0x12)
    accepted.establish(66)
    result = run(talk)
    assert [c.outcome for c in result.connections] == ["stale", "rejected", "established"]
    assert "S02" in result.codes
    assert not [finding for finding in result.findings if finding.severity == "error"]
