"""T05, T06: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

from conversation import Conversation, Host, run

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
