"""R07, R16: DREQs whose DREP never came, or came late."""

from __future__ import annotations

from conversation import Conversation, Host, run

from ibcmtool.packets import Undelivered
from ibcmtool.values import Duration


def test_dreq_repeated_in_vain() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(max_cm_retries=3)
    dreq = talk.active(1, "DREQ")
    last = talk.repeat(dreq, every=6.4, count=3)[-1]
    finding = run(talk, until=100).only("R07")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, dreq.frame), (0, last.frame))
    assert "4 of 4 sends of the DREQ of 10.0.0.1 over 19.2 s" in finding.message


def test_dreq_of_a_sender_that_stopped_early() -> None:
    """R07: it was repeated once, then no more."""
    talk = Conversation()
    talk.establish()
    dreq = talk.passive(1, "DREQ")
    talk.again(5.3, dreq)
    finding = run(talk, until=200).only("R07")
    assert finding.severity == "info"
    assert "2 of 16 sends of the DREQ of 10.0.0.2" in finding.message


def test_single_dreq_is_left_to_s12() -> None:
    """R07"""
    talk = Conversation()
    talk.establish()
    talk.active(1, "DREQ")
    assert "R07" not in run(talk, until=200).codes


def test_drep_after_the_last_dreq() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(max_cm_retries=1)
    dreq = talk.active(1, "DREQ")
    talk.again(7.4, dreq)
    talk.passive(7.5, "DREP")
    assert "R07" not in run(talk, until=200).codes


def test_dreq_in_a_capture_of_one_direction() -> None:
    """R07: nothing of the other side was ever captured."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    talk.active(0, "RTU")
    dreq = talk.active(1, "DREQ")
    talk.again(7.4, dreq)
    finding = run(talk, until=200).only("R07")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "only one direction" in finding.message


def test_dreq_that_may_not_be_repeated() -> None:
    """R07: with Max CM Retries 0 a single DREQ is all there is."""
    talk = Conversation()
    talk.establish(max_cm_retries=0)
    talk.active(1, "DREQ")
    assert "1 of 1 sends" in run(talk, until=100).only("R07").message


def test_next_req_after_all_retries() -> None:
    """R07: so the minutes between close and reconnect are accounted for."""
    talk = Conversation()
    talk.establish(0, max_cm_retries=3)
    talk.repeat(talk.active(10, "DREQ"), every=6.4, count=3)
    talk.another().establish(35.7)
    finding = run(talk, until=100).only("R07")
    says = "The next REQ of 10.0.0.1 came 25.7 s after the first DREQ (frame 8): so long it had waited for the DREP."
    assert finding.message.endswith(says)
    assert "begins its timewait" in finding.advice


def test_reconnect_that_did_not_wait() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(0, max_cm_retries=3)
    talk.repeat(talk.active(10, "DREQ"), every=6.4, count=3)
    talk.another().establish(30)
    message = run(talk, until=100).only("R07").message
    assert message.endswith("The next REQ of 10.0.0.1 came 20 s after the first DREQ (frame 8).")


def test_dreq_on_a_stale_connection_went_nowhere() -> None:
    """R07: then the QPN is free again, and the advice says where the DREQs went."""
    talk = Conversation(active_qpn=0x11)
    talk.establish(0, max_cm_retries=1)
    refused = talk.another(active_qpn=0x11)
    refused.active(60, "REQ")
    refused.passive(60.001, "REJ", reason=10)
    talk.repeat(talk.passive(60.002, "DREQ"), every=4.35, count=1)
    advice = run(talk, until=100).only("R07").advice
    assert "takes QPN 0x000011 again" in advice
    assert "they went to 10.0.0.1" in advice


def test_drep_long_after_the_only_dreq() -> None:
    """R16"""
    talk = Conversation()
    talk.establish(0)
    dreq = talk.active(10, "DREQ")
    drep = talk.passive(22, "DREP")
    result = run(talk)
    assert result.codes == ["R16"]
    finding = result.only("R16")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, dreq.frame), (0, drep.frame))
    assert "DREP 12 s after the only DREQ" in finding.message
    assert finding.evidence["timeout"] == Duration(4_294_967_296 + 2 * 1_073_741_824)


def test_drep_in_time_and_drep_of_a_repeated_dreq() -> None:
    """R16"""
    talk = Conversation()
    talk.establish(0)
    talk.active(10, "DREQ")
    talk.passive(16, "DREP")
    assert run(talk).codes == []
    talk = Conversation()
    talk.establish(0)
    talk.again(16.4, talk.active(10, "DREQ"))
    talk.passive(25, "DREP")
    assert "R16" not in run(talk).codes


def test_late_drep_after_repetitions_that_were_lost() -> None:
    """R16: the numbers of its QP1 tell that the sender of the DREQ sent more; it is not said to have gone."""
    talk = Conversation()
    talk.establish(0)
    talk.active(10, "DREQ")
    talk.hosts["active"].next_psn()
    talk.passive(22, "DREP")
    talk.another().active(21, "REQ")
    finding = run(talk).only("R16")
    assert finding.confidence == "possible"
    assert "Messages of 10.0.0.1 are missing in between: it repeated the DREQ, it seems" in finding.message
    assert "destroyed" not in finding.message


def test_icmp_beside_unanswered_dreqs() -> None:
    """R07"""
    talk = Conversation()
    talk.establish(max_cm_retries=1)
    dreq = talk.active(1, "DREQ")
    talk.again(7.4, dreq)
    target = talk.hosts["passive"].address
    error = Undelivered(0, 90, dreq.time + 1_000_000, target, talk.hosts["active"].address, target, "port")
    message = run([*talk.capture, error], until=100).only("R07").message
    assert "The host is up, nothing takes UDP 4791 there (ICMP port unreachable, once, first in frame 90)." in message
    assert "ICMP" not in run(talk, until=100).only("R07").message


def test_drep_that_no_input_could_show() -> None:
    """R07: the input that had both directions has ended; the one that goes on shows none of the peer's messages."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=3)
    talk.copy(0.001, req, file=1)
    talk.passive(0.1, "REP", file=1)
    talk.active(0.2, "RTU")
    talk.repeat(talk.active(10, "DREQ"), every=5, count=3)
    assert {(finding.severity, finding.confidence) for finding in run(talk, until=100).of("R07")} == {
        ("info", "possible")
    }
