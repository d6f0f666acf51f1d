"""C06: messages that were damaged on the way, and came again."""

from __future__ import annotations

from conversation import Conversation, run


def test_damaged_req_came_again() -> None:
    """C06: information for a single one."""
    talk = Conversation()
    req = talk.active(0, "REQ", icrc_ok=False)
    again = talk.again(6.4, req, icrc_ok=True)
    talk.passive(6.41, "REP")
    talk.active(6.42, "RTU")
    result = run(talk)
    assert result.codes == ["C06"]
    finding = result.only("C06")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, req.frame), (0, again.frame))
    assert "REQ from 10.0.0.1 to 10.0.0.2 was captured with a wrong ICRC" in finding.message
    assert "That is why it came again 6.4 s later (frame 2)." in finding.message


def test_a_bit_of_the_message_itself_was_turned_over() -> None:
    """C06: then the message that came again has other bytes; R08 accuses nobody of that."""
    talk = Conversation()
    talk.active(0, "REQ", icrc_ok=False, retry_count=6)
    talk.active(6.4, "REQ")
    talk.passive(6.41, "REP")
    talk.active(6.42, "RTU")
    assert run(talk).codes == ["C06"]


def test_second_damaged_message_between_two_ports_is_a_warning() -> None:
    """C06: either way."""
    talk = Conversation()
    talk.again(6.4, talk.active(0, "REQ", icrc_ok=False), icrc_ok=True)
    talk.again(10.76, talk.passive(6.41, "REP", icrc_ok=False), icrc_ok=True)
    talk.active(10.77, "RTU")
    first, second = run(talk).of("C06")
    assert (first.severity, second.severity) == ("info", "warning")
    assert second.evidence["damaged_between_ports"] == 2


def test_wrong_icrcs_that_the_receiver_did_not_mind() -> None:
    """C06: a capture inside the sender shows packets whose ICRC is still to be computed."""
    talk = Conversation()
    talk.active(0, "REQ", icrc_ok=False)
    talk.passive(0.01, "REP")
    talk.active(0.02, "RTU", icrc_ok=False)
    talk.active(5, "DREQ", icrc_ok=False)
    talk.passive(5.01, "DREP")
    assert run(talk).codes == []


def test_repeated_without_damage_or_without_a_check() -> None:
    """C06"""
    for icrc_ok in (True, None):
        talk = Conversation()
        talk.again(6.4, talk.active(0, "REQ", icrc_ok=icrc_ok))
        talk.passive(6.41, "REP")
        assert "C06" not in run(talk).codes
