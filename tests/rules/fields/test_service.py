"""F12-F14: ECE options, the IP CM header, and service ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversation import Conversation, Host, run

from dissectors.fields import gid_bytes
from ibcmtool.packets import CmMessage

MELLANOX = 0x0002C9
ACCEPTED = {"ece_vendor_id_middle": 0x02, "ece_vendor_id_low": 0xC9}
OPTIONS = bytes.fromhex("10000002")


def with_options(talk: Conversation, message: CmMessage) -> None:
    """Put options into the Attribute Modifier."""
    talk.capture[talk.capture.index(message)] = replace(message, mad=message.mad[:20] + OPTIONS + message.mad[24:])


def offered(req: dict[str, int], rep: dict[str, int], options: str = "") -> Conversation:
    """Two connections with these vendor fields; `options` names the messages that have options."""
    talk = Conversation()
    for start in (0, 1):
        other = talk if not start else talk.another()
        for message in (other.active(start, "REQ", **req), other.passive(start + 0.01, "REP", **rep)):
            if message.type in options.split():
                with_options(talk, message)
    return talk


def test_options_that_the_passive_side_does_not_take() -> None:
    """F12"""
    finding = run(offered({"ece_vendor_id": MELLANOX}, {}, "REQ")).only("F12")  # told once for the port
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "certain", ((0, 2),))
    assert finding.message == "The REQ offers options of vendor 0x0002c9; 10.0.0.2 takes none."
    assert finding.evidence == {"vendor_id": 0, "options": 0, "offered_vendor_id": MELLANOX}


@pytest.mark.parametrize(
    ("req", "rep", "options", "frame", "words"),
    [
        ({}, ACCEPTED, "REP", 2, "REP of 10.0.0.2 has options of vendor 0x0002c9; the REQ offered none."),
        ({}, {}, "REQ", 1, "REQ of 10.0.0.1 has options 0x10000002 without a vendor."),
        ({"ece_vendor_id": MELLANOX}, {}, "REP", 2, "REP of 10.0.0.2 has options 0x10000002 without a vendor."),
    ],
)
def test_options_that_nobody_can_read(
    req: dict[str, int], rep: dict[str, int], options: str, frame: int, words: str
) -> None:
    """F12"""
    finding = run(offered(req, rep, options)).only("F12")
    assert (finding.severity, finding.frames, finding.message) == ("warning", ((0, frame),), words)


def test_options_of_both_sides_and_of_none() -> None:
    """F12"""
    assert "F12" not in run(offered({"ece_vendor_id": MELLANOX}, ACCEPTED, "REQ REP")).codes
    assert "F12" not in run(offered({}, {})).codes


def test_a_rep_that_was_cut() -> None:
    """F12"""
    talk = Conversation()
    talk.active(0, "REQ", ece_vendor_id=MELLANOX)
    talk.passive(0.01, "REP", cut=24 + 20)
    assert "F12" not in run(talk).codes


def header(version: int = 0, ip_version: int = 0x40, padding: bytes = bytes(12)) -> bytes:
    """The 36 bytes of the RDMA IP CM Service in front of consumer data."""
    source, destination = gid_bytes("10.0.0.1")[12:], gid_bytes("10.0.0.2")[12:]
    return bytes((version, ip_version)) + b"\xa0\0" + padding + source + bytes(12) + destination + b"hello"


def refused(data: bytes, private_data: bytes = b"", reason: int = 28, **options: Any) -> Conversation:
    talk = Conversation(**options)
    talk.active(0, "REQ", private_data=data)
    talk.passive(0.01, "REJ", reason=reason, private_data=private_data)
    return talk


@pytest.mark.parametrize(
    ("data", "words"), [(header(version=1), "version 0x01"), (header(ip_version=0x50), "IP version 5")]
)
def test_a_header_that_linux_refuses(data: bytes, words: str) -> None:
    """F13"""
    finding = run(refused(data)).only("F13")
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "possible", ((0, 1), (0, 2)))
    assert f"The REQ for RDMA TCP 7174 has {words} in its IP CM header; 10.0.0.2 refused it" in finding.message


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (header(), {}),
        (header(ip_version=0x60), {}),
        (b"\0\0\xbd\x1b", {}),
        (header(version=1), {"private_data": b"the consumer says no"}),
        (header(version=1), {"reason": 8}),
        (header(version=1), {"service_id": 0x00000000013F1C06}),
        (header(version=1), {"service_id": 0x1000000000000048}),
    ],
)
def test_refusals_for_other_reasons(data: bytes, options: dict[str, Any]) -> None:
    """F13: good headers, none (RTRS over AF_IB), a consumer's words, no listener, AF_IB, a service without it."""
    assert "F13" not in run(refused(data, **options)).codes


def test_a_listener_that_expects_no_header() -> None:
    """F13: accepted as it is."""
    talk = Conversation()
    talk.active(0, "REQ", private_data=header(version=1))
    talk.passive(0.01, "REP")
    assert "F13" not in run(talk).codes


def test_a_sidr_request_that_linux_refuses() -> None:
    """F13"""
    talk = Conversation()
    talk.active(0, "SIDR_REQ", service_id=0x0000000001111C06, private_data=header(version=2))
    talk.passive(0.01, "SIDR_REP", status=2)
    assert "The SIDR_REQ for RDMA UDP 7174 has version 0x02" in run(talk).only("F13").message


def test_an_ipv4_address_with_something_in_front() -> None:
    """F13"""
    talk = Conversation()
    talk.active(0, "REQ", private_data=header(padding=b"\0" * 10 + b"\xff\xff"))
    talk.another().active(1, "REQ", private_data=header(padding=b"\0" * 10 + b"\xff\xff"))
    finding = run(talk).only("F13")  # told once for the port
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "possible", ((0, 1),))
    assert "an IPv4 address whose first twelve bytes are not 0" in finding.message


def test_a_service_id_with_its_bytes_turned_round() -> None:
    """F14"""
    talk = Conversation(service_id=0x061C060100000000)
    talk.active(0, "REQ")
    talk.another(service_id=0x061C060100000000).active(1, "REQ")
    finding = run(talk).only("F14")  # told once for the id
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "probable", ((0, 1),))
    assert finding.message == (
        "REQ for service id 0x061c060100000000, of no known class. With its bytes turned round it is RDMA TCP 7174."
    )


def test_a_private_service_id() -> None:
    """F14"""
    finding = run([Conversation(service_id=0xC0FFEE0000000001).active(0, "SIDR_REQ")]).only("F14")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.message == "SIDR_REQ for service id 0xc0ffee0000000001, of no known class."


@pytest.mark.parametrize(
    "service_id",
    [0x0000000001061C06, 0x0000000000011234, 0x0100000000000048, 0x1000000000000048, 0x0200000000000007, 0x5054],
)
def test_classes_that_we_know(service_id: int) -> None:
    """F14"""
    talk = Conversation(service_id=service_id)
    talk.active(0, "REQ")
    assert "F14" not in run(talk).codes


def test_the_guid_of_an_srp_target() -> None:
    """F14: of the same vendor as the initiator's, or the interface id in the GID that the REQ goes to."""
    talk = Conversation(service_id=0x5054_00FF_FEAA_0002)
    talk.active(0, "REQ")
    assert "F14" not in run(talk).codes
    talk = Conversation(Host("fe80::1"), Host("fe80::e61d:2dff:fe00:2"), service_id=0xE41D_2DFF_FE00_0002)
    talk.active(0, "REQ")
    assert "F14" not in run(talk).codes
