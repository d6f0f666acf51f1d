"""H09, H13-H15: what an MRA or a REJ says about itself."""

from __future__ import annotations

import pytest
from conversation import Conversation, run

ONE_BYTE = (14, 15, 16, 17, 20, 21, 22, 23, 26)  # SL, traffic class, hop limit, rate, MTU


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


@pytest.mark.parametrize(
    "fields",
    [
        {"additional_reject_info": b""},
        {"additional_reject_info": bytes(8)},
        {"additional_reject_info": b"\x50\x54\x00\xff", "reject_info_length": 4},
    ],
)
def test_timeout_reject_without_a_guid(fields: dict[str, object]) -> None:
    """H13"""
    talk = Conversation()
    talk.active(0, "REQ")
    rej = talk.active(1, "REJ", reason=4, **fields)
    result = run(talk)
    finding = result.only("H13")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, rej.frame),)
    assert "H14" not in result.codes


def test_timeout_reject_as_linux_sends_it() -> None:
    """H13, H14, H15"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4)
    assert run(talk).codes == []


def test_timeout_reject_of_the_passive_side() -> None:
    """H14: illumos sends it when its REP stays unanswered, with the GUID of the REP."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(1, "REJ", reason=4, message_rejected=1)
    assert run(talk).codes == []


def test_timeout_reject_cut_before_its_guid() -> None:
    """H13: not captured is not "not sent"."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1, "REJ", reason=4, cut=24 + 12)
    result = run(talk)
    assert "H13" not in result.codes
    assert "H14" not in result.codes


def test_other_rejects_need_no_guid() -> None:
    """H13"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=28)
    assert run(talk).codes == []


def test_timeout_reject_with_a_foreign_guid() -> None:
    """H14"""
    talk = Conversation()
    req = talk.active(0, "REQ", local_ca_guid=0x5054_00FF_FEAA_0001)
    rej = talk.active(1, "REJ", reason=4, additional_reject_info=(0x5054_00FF_FEAA_0007).to_bytes(8, "big"))
    finding = run(talk).only("H14")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, req.frame), (0, rej.frame))
    assert "5054:00ff:feaa:0007" in finding.message
    assert finding.evidence == {"guid": 0x5054_00FF_FEAA_0007, "known_guid": 0x5054_00FF_FEAA_0001}


def test_timeout_reject_of_a_ca_without_a_guid() -> None:
    """H14: a REQ with GUID 0 says nothing about the sender."""
    talk = Conversation()
    talk.active(0, "REQ", local_ca_guid=0)
    talk.active(1, "REJ", reason=4, additional_reject_info=(0x5054_00FF_FEAA_0007).to_bytes(8, "big"))
    assert "H14" not in run(talk).codes


@pytest.mark.parametrize(
    ("reason", "needed"),
    [(18, 16), (25, 16), (13, 2), (19, 2), (32, 3), (33, 3), (24, 72), *((reason, 1) for reason in ONE_BYTE)],
)
def test_reject_info_too_short(reason: int, needed: int) -> None:
    """H15"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=reason, additional_reject_info=bytes(needed - 1))
    finding = run(talk).only("H15")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.evidence["reject_info_length"] == needed - 1
    assert f"reason {reason} needs {needed}" in finding.message


def test_reject_info_longer_than_its_field() -> None:
    """H15"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=28, reject_info_length=73)
    assert "the field holds 72" in run(talk).only("H15").message


@pytest.mark.parametrize(
    ("reason", "info"), [(12, bytes(16)), (13, bytes(2)), (26, b"\x30"), (24, bytes(72)), (8, b"")]
)
def test_reject_info_just_long_enough(reason: int, info: bytes) -> None:
    """H15"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=reason, additional_reject_info=info)
    assert "H15" not in run(talk).codes


def test_invalid_gid_without_a_gid() -> None:
    """H15: Linux does that when it cannot read its GID table."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=12)
    assert run(talk).only("H15").severity == "info"


def test_repeated_rejects_are_told_once() -> None:
    """H15"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=26)
    talk.again(4.3, req)
    talk.again(4.4, rej)
    assert len(run(talk).of("H15")) == 1
