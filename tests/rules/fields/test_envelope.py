"""F05, F10, F11: the MAD around a message, and the QP that it comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversation import Conversation, run
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dissectors.transport import BTH, DETH, ImmDt
from ibcmtool.packets import CmMessage

HEADERS = 14 + 20 + 8 + 12 + 8  # Ethernet, IPv4, UDP, BTH, DETH


def from_qp(source_qp: int, *, immediate: bool = False) -> dict[str, Any]:
    """The envelope of a packet that came from this QP."""
    stack = Ether() / IP() / UDP(dport=4791) / BTH(opcode=0x65 if immediate else 0x64) / DETH(source_qp=source_qp)
    stack = stack / ImmDt() if immediate else stack
    return {"link_type": 1, "headers": bytes(stack)[: HEADERS + 4 * immediate]}


def altered(talk: Conversation, message: CmMessage, offset: int, data: bytes, **envelope: int) -> CmMessage:
    """The message with other bytes in its MAD header."""
    mad = message.mad[:offset] + data + message.mad[offset + len(data) :]
    changed = replace(message, mad=mad, **envelope)
    talk.capture[talk.capture.index(message)] = changed
    return changed


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("REQ", {"reserved_4": 0x12}, "the reserved field at byte 4 of the data is 0x12"),
        ("REQ", {"reserved_139": 1}, "the reserved field at byte 139 of the data is 0x1"),
        ("REP", {"reserved_27": 0xF}, "the reserved field at byte 27 of the data is 0xf"),
        ("DREQ", {"reserved_11": 0xFF}, "the reserved field at byte 11 of the data is 0xff"),
    ],
)
def test_reserved_bits_that_are_set(kind: str, fields: dict[str, int], words: str) -> None:
    """F05"""
    talk = Conversation()
    first = None
    for start in (0, 10):
        other = talk if not start else talk.another()
        messages = [other.active(start, "REQ", **(fields if kind == "REQ" else {}))]
        messages.append(other.passive(start + 0.01, "REP", **(fields if kind == "REP" else {})))
        other.active(start + 0.02, "RTU")
        messages.append(other.active(start + 1, "DREQ", **(fields if kind == "DREQ" else {})))
        first = first or next(message for message in messages if message.type == kind)
    finding = run(talk).only("F05")  # told once for the port and the message type
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "certain", ((0, first.frame),))
    assert finding.message == f"In the {kind} of 10.0.0.{2 if kind == 'REP' else 1} {words}."
    assert finding.evidence == fields


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (6, "the class specific of the MAD header is 0x5"),
        (18, "the reserved field at byte 18 of the MAD header is 0x5"),
    ],
)
def test_reserved_bits_of_the_mad_header(offset: int, words: str) -> None:
    """F05"""
    talk = Conversation()
    altered(talk, talk.active(0, "REQ"), offset, b"\0\5")
    assert run(talk).only("F05").message == f"In the REQ of 10.0.0.1 {words}."


def test_options_where_no_message_has_any() -> None:
    """F05: the Attribute Modifier of a REQ and a REP belongs to ECE, that of others is reserved."""
    talk = Conversation()
    altered(talk, talk.active(0, "REQ", ece_vendor_id=0x2C9), 20, b"\0\0\0\1")
    talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    dreq = talk.active(1, "DREQ")
    altered(talk, dreq, 20, b"\0\0\0\1")
    finding = run(talk).only("F05")
    assert finding.frames == ((0, dreq.frame),)
    assert "the attribute modifier of the MAD header is 0x1" in finding.message


def test_fields_that_later_or_earlier_editions_define() -> None:
    """F05: ECE vendor, SAP Supported, the CM Q_Key of the first editions; another class version."""
    for fields in ({"ece_vendor_id": 0x2C9}, {"sap_supported": 1}, {"reserved_24": 0x80010000}):
        talk = Conversation()
        talk.active(0, "REQ", **fields)
        assert "F05" not in run(talk).codes
    talk = Conversation()
    altered(talk, talk.active(0, "REQ", reserved_4=1), 2, b"\1", class_version=1)
    assert "F05" not in run(talk).codes


def test_a_cut_message_and_a_damaged_one() -> None:
    """F05"""
    talk = Conversation()
    talk.active(0, "REQ", reserved_4=1, cut=24 + 60)
    talk.another().active(1, "REQ", reserved_4=1, icrc_ok=False)
    assert "F05" not in run(talk).codes


@pytest.mark.parametrize(
    ("offset", "data", "envelope", "severity", "words"),
    [
        (2, b"\1", {"class_version": 1}, "warning", "class version 1 instead of 2"),
        (3, b"\x81", {"method": 0x81}, "warning", "method 0x81 instead of 3 (Send)"),
        (4, b"\0\x0c", {}, "info", "status 0x000c instead of 0"),
    ],
)
def test_a_mad_of_another_kind(offset: int, data: bytes, envelope: dict[str, int], severity: str, words: str) -> None:
    """F10: a warning where Linux drops it; a status alone it does not look at."""
    talk = Conversation()
    for start in (0, 1):
        other = talk if not start else talk.another()
        altered(talk, other.active(start, "REQ"), offset, data, **envelope)
    finding = run(talk).only("F10")  # told once for the port
    assert (finding.severity, finding.confidence, finding.frames) == (severity, "certain", ((0, 1),))
    assert finding.message == f"REQ of 10.0.0.1 has {words}."


@pytest.mark.parametrize(("reason", "status", "accused"), [(31, 4, False), (31, 8, True), (28, 4, True)])
def test_the_status_of_a_refused_class_version(reason: int, status: int, accused: bool) -> None:
    """F10: illumos' REJ 31 has the MAD status for a bad version (0x0004), and its own version as information."""
    talk = Conversation()
    talk.active(0, "REQ")
    reject = talk.passive(0.01, "REJ", reason=reason, reject_info_length=1, additional_reject_info=b"\2" + bytes(71))
    altered(talk, reject, 4, status.to_bytes(2, "big"))
    assert ("F10" in run(talk).codes) is accused


def test_a_mad_as_it_should_be() -> None:
    """F10: also cut behind its ids, or with a wrong ICRC."""
    talk = Conversation()
    talk.active(0, "REQ", cut=24 + 8)
    other = talk.another()
    altered(talk, other.active(1, "REQ", icrc_ok=False), 2, b"\1", class_version=1)
    assert "F10" not in run(talk).codes


@pytest.mark.parametrize("immediate", [False, True])
def test_a_message_from_another_qp(immediate: bool) -> None:
    """F11"""
    talk = Conversation()
    req = talk.active(0, "REQ", **from_qp(0x47, immediate=immediate))
    talk.passive(0.01, "REP", **from_qp(1))
    talk.active(0.02, "RTU", **from_qp(0x47, immediate=immediate))
    finding = run(talk).only("F11")  # told once for the port
    assert (finding.severity, finding.confidence, finding.frames) == ("warning", "probable", ((0, req.frame),))
    assert "REQ of 10.0.0.1 comes from QP 0x000047 instead of QP1" in finding.message
    assert finding.evidence == {"source_qp": 0x47}


@pytest.mark.parametrize("immediate", [False, True])
def test_messages_from_qp1_and_without_headers(immediate: bool) -> None:
    """F11"""
    talk = Conversation()
    talk.active(0, "REQ", **from_qp(1, immediate=immediate))
    talk.passive(0.01, "REP")
    assert "F11" not in run(talk).codes


def test_a_redirected_peer_speaks_from_where_it_was_sent() -> None:
    """F11"""
    talk = Conversation()
    talk.active(0, "REQ", **from_qp(1))
    talk.passive(0.01, "REJ", reason=24, additional_reject_info=bytes(72), **from_qp(1))
    other = talk.another()
    other.active(1, "REQ", **from_qp(1))
    other.passive(1.01, "REP", **from_qp(0x47))
    assert "F11" not in run(talk).codes
