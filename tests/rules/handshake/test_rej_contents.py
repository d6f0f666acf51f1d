"""H13-H17: what a REJ says."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Result, run

from ibcmtool.values import Guid

ONE_BYTE = (14, 15, 16, 17, 20, 21, 22, 23, 26)  # SL, traffic class, hop limit, rate, MTU
MELLANOX = 0x0002C9


def handshake(result: Result) -> list[str]:
    """What the rules of this family say of it."""
    return [code for code in result.codes if code.startswith("H")]


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
    talk.active(0.04, "REJ", reason=4)
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


def test_timeout_reject_of_the_passive_side() -> None:
    """H14: illumos sends it when its REP stays unanswered, with the GUID of the REP."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(1, "REJ", reason=4, message_rejected=1)
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
    assert finding.evidence == {"guid": Guid(0x5054_00FF_FEAA_0007), "known_guid": Guid(0x5054_00FF_FEAA_0001)}


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


@pytest.mark.parametrize("reason", [0, 34, 36, 0xFFFF])
def test_reason_that_is_not_defined(reason: int) -> None:
    """H16"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rej = talk.passive(0.1, "REJ", reason=reason)
    talk.again(6.4, req)
    talk.again(6.5, rej)
    finding = run(talk).only("H16")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, rej.frame),)
    assert finding.message == f"REJ of 10.0.0.2 with reason {reason}, which is not defined."


@pytest.mark.parametrize("reason", [1, 33, 35])
def test_reason_that_is_defined(reason: int) -> None:
    """H16"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.1, "REJ", reason=reason)
    assert "H16" not in run(talk).codes


def test_vendor_id_in_a_rej() -> None:
    """H17: once for each address."""
    talk = Conversation()
    talk.active(0, "REQ", ece_vendor_id=MELLANOX)
    rej = talk.passive(0.1, "REJ", reason=8, local_comm_id=MELLANOX)
    second = talk.another()
    second.active(1, "REQ", ece_vendor_id=MELLANOX)
    second.passive(1.1, "REJ", reason=8, local_comm_id=MELLANOX)
    finding = run(talk).only("H17")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, rej.frame),)
    assert "REJ of 10.0.0.2 has Local Communication ID 0x000002c9: the Vendor ID" in finding.message
    third = talk.another(passive=Host("10.0.0.3"))
    third.active(2, "REQ", ece_vendor_id=MELLANOX)
    third.passive(2.1, "REJ", reason=8, local_comm_id=MELLANOX)
    assert [finding.connection for finding in run(talk).of("H17")] == [1, 3]


def test_rejs_with_ids_of_their_own() -> None:
    """H17: none, without ECE and with it, and a real one."""
    talk = Conversation()
    for start, vendor, local in ((0, 0, 0), (1, MELLANOX, 0), (2, MELLANOX, 0x0102A0B0)):
        other = talk.another()
        other.active(start, "REQ", ece_vendor_id=vendor)
        other.passive(start + 0.1, "REJ", reason=8, local_comm_id=local)
    assert not handshake(run(talk))
