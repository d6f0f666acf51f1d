"""T05, T06: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

from conversation import Conversation, Host, run
from recordings import judged, of

from ibcmtool.values import Qpn


def test_t05_a_dreq_with_a_wrong_qpn():
    talk = Conversation(passive_qpn=0x30)
    talk.establish(0)
    talk.active(1, "DREQ", qpn=0x35)
    talk.close(2)
    finding = run(talk, until=2.5).only("T05")
    assert [frame for _, frame in finding.frames] == [4]
    assert finding.evidence == {"named_qpn": Qpn(0x35), "qpn": Qpn(0x30)}


def test_t05_silent_for_the_right_qpn_and_when_it_is_unknown():
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    assert "T05" not in run(talk).codes
    assert "T05" not in run(talk.capture[3:]).codes


def test_t06_repeated_dreqs_left_unanswered():
    for lat, severity in ((24, "warning"), (18, "info")):  # a timewait of minutes, or of one second
        talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2", psn=100))
        talk.establish(0, max_cm_retries=3, primary_local_ack_timeout=lat)
        dreq, _ = talk.close(1)
        talk.repeat(dreq, 6.4, 3)
        talk.another().passive(30, "REP")  # no message of it was missed
        finding = run(talk, until=60).only("T06")
        assert finding.severity == severity
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


def test_t05_silent_for_the_qpn_of_a_rep_that_was_offered_anew():
    """The first REP was refused as stale; the next one, announced by an MRA, has another id and QPN."""
    talk = Conversation(passive_qpn=0x30)
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=10, message_rejected=1)
    talk.again(5, req)
    talk.comm_ids["passive"], talk.qpns["passive"] = 0x99, 0x31
    talk.passive(5.01, "MRA", message_mraed=0)
    talk.passive(5.02, "REP")
    talk.active(5.03, "RTU")
    talk.close(6)
    assert not {"T05", "H04", "S11"} & set(run(talk).codes)


def test_t05_accuses_nobody_where_ids_return():
    """Two inputs with clocks apart: the REPs of two lives of a CM with fixed ids, and the DREQ of the first."""
    talk = Conversation(passive_qpn=0x30)
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.passive(0.02, "REP", local_qpn=0x31, tid=rep.tid, file=1)
    talk.active(0.03, "RTU")
    talk.active(1, "DREQ", qpn=0x32)
    assert run(talk).only("T05").severity == "info"


def test_t05_accuses_nobody_by_two_clocks():
    """The input that has the DREQ has neither REQ nor REP: it may be of another life with the same ids."""
    for seen, severity in ((False, "info"), (True, "error")):
        talk = Conversation(passive_qpn=0x30)
        _, rep, _ = talk.establish(0)
        if seen:
            talk.copy(0.015, rep, file=1)
        talk.active(1, "DREQ", qpn=0x31, file=1)
        assert run(talk).only("T05").severity == severity


def test_t05_silent_across_a_hole_in_the_captures_where_ids_return():
    """A CM with fixed ids had another life meanwhile."""
    talk = Conversation(passive_qpn=0x30)
    talk.establish(0)
    talk.active(60, "DREQ", qpn=0x31, file=1)
    talk.passive(60.01, "DREP", file=1)
    assert "T05" in judged(of(talk, (-1, 59.5), (59.6, 70))).codes
    assert "T05" not in judged(of(talk, (-1, 5), (50, 70))).codes
