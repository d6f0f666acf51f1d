"""I01-I06: resolving a service to a UD QP."""

from __future__ import annotations

import pytest
from conversation import SERVICE, Conversation, Host, Result, run

from ibcmtool.analysis import Finding
from ibcmtool.values import Qpn

LATER = 300.0  # the capture is older than any request is repeated


def heard() -> Conversation:
    """Both hosts have spoken at the beginning of the capture."""
    talk = Conversation(Host("10.0.0.1", psn=100))
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", service_id=SERVICE)
    return talk


def test_a_service_that_is_resolved() -> None:
    """I01, I02, I03, I04, I05"""
    talk = heard()
    again = talk.another()
    req = again.active(LATER, "SIDR_REQ")
    again.again(LATER + 4.1, req)
    again.passive(LATER + 4.2, "SIDR_REP", service_id=SERVICE)
    assert run(talk, until=LATER + 10).codes == []


def test_answer_to_no_request() -> None:
    """I01: a warning where the numbers of its addressee run on, so that no request of it was missed."""

    def judged(*, later: bool, missed: bool) -> Finding:
        talk = heard()
        assert talk.another().passive(LATER, "SIDR_REP", service_id=SERVICE).frame == 3
        if missed:
            talk.hosts["active"].next_psn()
        if later:
            talk.another().active(LATER + 1, "SIDR_REQ")
        return run(talk).only("I01")

    finding = judged(later=True, missed=False)
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    for unsure in (judged(later=False, missed=False), judged(later=True, missed=True)):
        assert (unsure.severity, unsure.confidence) == ("info", "possible")
    assert finding.frames == ((0, 3),)
    assert "SIDR_REP to 10.0.0.1" in finding.message
    assert "in the 5 min before it" in finding.message


def test_answer_in_a_young_capture() -> None:
    """I01: the request may have come before."""
    talk = heard()
    talk.another().passive(LATER - 100, "SIDR_REP", service_id=SERVICE)
    assert "I01" not in run(talk).codes


def test_answer_to_a_host_that_is_never_heard() -> None:
    """I01: perhaps only one direction is captured."""
    talk = heard()
    talk.another(Host("10.0.0.9")).passive(LATER, "SIDR_REP", service_id=SERVICE)
    assert "I01" not in run(talk).codes


def test_answer_captured_before_its_request() -> None:
    """I01"""
    talk = heard()
    other = talk.another()
    other.passive(LATER, "SIDR_REP", service_id=SERVICE)
    other.active(LATER + 0.01, "SIDR_REQ")
    assert "I01" not in run(talk).codes


@pytest.mark.parametrize(
    ("status", "qpn", "q_key", "severity"),
    [(0, 0, 0x1234, "warning"), (1, 0x55, 0, "info"), (2, 0, 0x80010000, "info"), (0, 1, 0, None), (1, 0, 0, None)],
)
def test_status_and_qpn(status: int, qpn: int, q_key: int, severity: str | None) -> None:
    """I02"""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    rep = talk.passive(0.01, "SIDR_REP", service_id=SERVICE, status=status, qpn=qpn, q_key=q_key)
    talk.again(0.02, rep)
    result = run(talk)
    if severity is None:
        assert result.codes == []
    else:
        finding = result.only("I02")
        assert (finding.severity, finding.confidence) == (severity, "certain")
        assert finding.frames == ((0, rep.frame),)
        assert finding.evidence == {"status": status, "qpn": Qpn(qpn), "q_key": q_key}


def test_answer_that_was_cut() -> None:
    """I02, I03"""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", qpn=0, cut=24 + 8)
    assert not {"I02", "I03"} & set(run(talk).codes)


def test_another_service_is_resolved() -> None:
    """I03"""
    talk = Conversation()
    req = talk.active(0, "SIDR_REQ", service_id=SERVICE)
    rep = talk.passive(0.01, "SIDR_REP", service_id=SERVICE + 1)
    finding = run(talk).only("I03")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, req.frame), (0, rep.frame))
    assert "asked for service 0x0000000001061c06 and resolved 0x0000000001061c07" in finding.message


def test_a_refusal_names_another_service() -> None:
    """I03: redirection."""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", service_id=SERVICE + 1, status=4, qpn=0)
    assert run(talk).codes == []


def test_two_requests_with_one_id() -> None:
    """I04"""
    talk = Conversation()
    first = talk.active(0, "SIDR_REQ")
    second = talk.active(1, "SIDR_REQ", service_id=SERVICE + 1, tid=0x99)
    result = run(talk)
    finding = result.only("I04")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, first.frame), (0, second.frame))
    assert "for another request 1 s after the first" in finding.message
    assert finding.related == (result.connections[0].id,)


def test_one_request_with_two_contents() -> None:
    """I04: the same TransactionID as well."""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.active(4.1, "SIDR_REQ", partition_key=0x8001)
    assert run(talk).only("I04").related == ()


def test_one_id_for_one_request_after_another() -> None:
    """I04: the first was answered; or it is the same request; or a bit error; or another host has the same id."""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", service_id=SERVICE)
    talk.active(1, "SIDR_REQ", service_id=SERVICE + 1, tid=0x99)
    assert "I04" not in run(talk).codes
    talk = Conversation()
    talk.repeat(talk.active(0, "SIDR_REQ"), every=4.1, count=15)
    talk.active(70, "SIDR_REQ", partition_key=0x8001, icrc_ok=False)
    assert "I04" not in run(talk).codes
    one = Conversation(Host("10.0.0.1", first_comm_id=7), Host("10.0.0.2"))
    one.active(0, "SIDR_REQ")
    one.another(Host("10.0.0.3", first_comm_id=7)).active(1, "SIDR_REQ")
    assert "I04" not in run(one).codes


def test_a_request_without_end() -> None:
    """I04: told at the seventeenth send."""
    talk = Conversation()
    req = talk.active(0, "SIDR_REQ")
    sends = talk.repeat(req, every=4.1, count=20)
    finding = run(talk).only("I04")
    assert finding.severity == "info"
    assert finding.frames == ((0, req.frame), (0, sends[15].frame))
    assert "sent 17 times over 65.6 s" in finding.message


def test_two_answers() -> None:
    """I05"""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    one = talk.passive(0.01, "SIDR_REP", service_id=SERVICE, qpn=0x55)
    other = talk.passive(1.01, "SIDR_REP", service_id=SERVICE, qpn=0x56)
    finding = run(talk, until=10).only("I05")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, one.frame), (0, other.frame))
    assert "with QPN 0x000055 and 1 s later with QPN 0x000056; no repeated request" in finding.message


def test_a_repeated_request_is_answered_anew() -> None:
    """I05: a service may open a QP for each."""
    talk = Conversation()
    req = talk.active(0, "SIDR_REQ")
    talk.passive(4.0, "SIDR_REP", service_id=SERVICE, qpn=0x55)
    talk.again(4.1, req)
    talk.passive(4.2, "SIDR_REP", service_id=SERVICE, status=1, qpn=0)
    finding = run(talk, until=10).only("I05")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert "status 1; the request was repeated" in finding.message


def test_the_same_answer_twice() -> None:
    """I05: repeated, or made anew with other private data."""
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    rep = talk.passive(0.01, "SIDR_REP", service_id=SERVICE, qpn=0x55)
    talk.again(0.5, rep)
    talk.passive(1, "SIDR_REP", service_id=SERVICE, qpn=0x55, private_data=b"x")
    assert "I05" not in run(talk, until=10).codes


def test_every_sidr_request_unanswered() -> None:
    """I06: 16 sends; fewer are information, one is nothing."""

    def judged(sends: int, *, answered: bool = False) -> Result:
        talk = Conversation()
        talk.repeat(talk.active(0, "SIDR_REQ"), every=4.1, count=sends - 1)
        if answered:
            talk.passive(4.1 * sends, "SIDR_REP", status=1, qpn=0)
        return run(talk, until=300)

    finding = judged(16).only("I06")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, 1), (0, 16))
    assert finding.message == (
        "16 sends of the SIDR_REQ to 10.0.0.2 unanswered over 61.5 s; no CM messages of that address were captured."
    )
    assert judged(3).only("I06").severity == "info"
    assert "I06" not in judged(1).codes + judged(16, answered=True).codes
