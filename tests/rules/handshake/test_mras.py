"""H09, H10: MRAs that ask for nothing."""

from __future__ import annotations

import pytest
from conversation import Conversation, run

from ibcmtool.values import Duration


@pytest.mark.parametrize(("sender", "mraed"), [("active", 0), ("passive", 1)])
def test_mra_about_a_message_of_its_own_side(sender: str, mraed: int) -> None:
    """H09"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    mra = getattr(talk, sender)(0.02, "MRA", message_mraed=mraed)
    finding = run(talk).only("H09")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, mra.frame),)
    assert finding.evidence == {"message_mraed": mraed, "sender": sender}


def test_undefined_message_mraed() -> None:
    """H09"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "MRA", message_mraed=3)
    assert "undefined" in run(talk).only("H09").message


def test_mra_for_a_lap_that_was_not_captured() -> None:
    """H09"""
    talk = Conversation()
    talk.establish()
    talk.passive(1, "MRA", message_mraed=2)
    assert run(talk).only("H09").confidence == "probable"


def test_proper_mras() -> None:
    """H09: one for the REQ, one for the REP, one for a LAP."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "MRA", message_mraed=0)
    talk.passive(0.02, "REP")
    talk.active(0.03, "MRA", message_mraed=1)
    talk.active(0.04, "RTU")
    talk.active(1, "LAP")
    talk.passive(1.01, "MRA", message_mraed=2)
    talk.passive(1.02, "APR")
    assert "H09" not in run(talk).codes


def test_mra_of_a_connection_that_began_earlier() -> None:
    """H09: whose MRA this is would be a guess."""
    talk = Conversation()
    talk.passive(0, "MRA", message_mraed=1)
    assert "H09" not in run(talk).codes


def test_mra_after_the_rep() -> None:
    """H10"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    mra = talk.passive(0.1, "MRA")
    talk.active(0.2, "RTU")
    finding = run(talk).only("H10")
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, rep.frame), (0, mra.frame))
    assert finding.message == ("MRA of 10.0.0.2 asks for time for the REQ 90 ms after its REP had answered it.")


def test_mra_after_the_rtu() -> None:
    """H10: told once, however often it comes."""
    talk = Conversation()
    talk.establish()
    mra = talk.active(1, "MRA")
    talk.again(2, mra)
    assert run(talk).only("H10").evidence == {"gap": Duration(980_000_000), "message_mraed": 1, "answer": "RTU"}


def test_mra_soon_after_the_rej() -> None:
    """H10: a repeated REQ may be missing from the capture."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ")
    talk.passive(1, "MRA")
    assert run(talk).only("H10").confidence == "possible"


def test_mra_long_after_the_rej() -> None:
    """H10: of the active side that is H08."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.1, "REJ")
    talk.active(30, "MRA")
    codes = run(talk).codes
    assert "H10" not in codes
    assert "H08" in codes


def test_mra_in_its_time() -> None:
    """H10: before the answer, right behind it, and for a REP that came again because the RTU was lost."""
    talk = Conversation()
    talk.active(0, "REQ")
    mra = talk.passive(0.5, "MRA")
    rep = talk.passive(5, "REP")
    talk.again(5.02, mra)
    talk.active(5.03, "RTU")
    talk.again(9.4, rep)
    talk.active(9.41, "MRA")
    talk.active(9.6, "RTU")
    assert "H10" not in run(talk).codes
    other = Conversation()
    req = other.active(0, "REQ")
    other.passive(0.1, "REJ")
    other.again(6.4, req)
    other.passive(6.41, "MRA")
    assert "H10" not in run(other).codes
