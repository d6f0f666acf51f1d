"""F01-F04, F15: what REQ and REP say of the two QPs."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, run

XRC = {"transport_service_type": 3, "extended_transport_type": 1}


@pytest.mark.parametrize(("number", "words"), [(0, "QP0"), (1, "QP1"), (0xFFFFFF, "the multicast QPN")])
@pytest.mark.parametrize("kind", ["REQ", "REP"])
def test_a_qpn_that_no_connection_can_have(kind: str, number: int, words: str) -> None:
    """F01"""
    talk = Conversation()
    message = talk.active(0, "REQ", **({"local_qpn": number} if kind == "REQ" else {}))
    if kind == "REP":
        message = talk.passive(0.01, "REP", local_qpn=number)
    finding = run(talk).only("F01")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, message.frame),)
    assert finding.message == (f"{kind} of 10.0.0.{1 if kind == 'REQ' else 2} has Local QPN 0x{number:06x}: {words}.")


def test_told_where_it_was_said_first() -> None:
    """F01: the DREQ only repeats the REP's number."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP", local_qpn=1)
    talk.active(0.02, "RTU")
    talk.active(1, "DREQ", remote_qpn=1)
    assert run(talk).only("F01").frames == ((0, rep.frame),)


def test_a_dreq_to_qp0_of_a_connection_that_was_not_captured() -> None:
    """F01"""
    talk = Conversation()
    dreq = talk.active(1, "DREQ", remote_qpn=0)
    talk.passive(1.01, "DREP")
    finding = run(talk).only("F01")
    assert (finding.confidence, finding.frames) == ("probable", ((0, dreq.frame),))
    assert "DREQ of 10.0.0.1 has Remote QPN 0x000000: QP0" in finding.message


def test_the_qpn_of_an_xrc_target_stands_elsewhere() -> None:
    """F01: with its REQ, and without."""
    talk = Conversation()
    talk.active(0, "REQ", **XRC)
    talk.passive(0.01, "REP", local_qpn=0, local_eecn=0x77)
    assert "F01" not in run(talk).codes
    assert "F01" not in run(talk.capture[1:]).codes


def test_an_xrc_target_without_a_qpn() -> None:
    """F01"""
    talk = Conversation()
    talk.active(0, "REQ", **XRC)
    talk.passive(0.01, "REP", local_qpn=0, local_eecn=1)
    assert "has Local EE Context Number, the QPN of an XRC target, 0x000001: QP1" in run(talk).only("F01").message


def test_reliable_datagrams_and_dropped_packets_name_no_qp() -> None:
    """F01"""
    talk = Conversation()
    talk.active(0, "REQ", local_qpn=0, transport_service_type=2)
    other = talk.another()
    other.active(1, "REQ", local_qpn=0, icrc_ok=False)
    assert "F01" not in run(talk).codes


def depths(offered: int, wanted: int, **req: int) -> Conversation:
    talk = Conversation()
    talk.active(0, "REQ", responder_resources=offered, **req)
    talk.passive(0.01, "REP", initiator_depth=wanted)
    talk.active(0.02, "RTU")
    return talk


def test_more_reads_than_offered() -> None:
    """F02"""
    finding = run(depths(4, 16)).only("F02")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, 1), (0, 2))
    assert "10.0.0.2 wants Initiator Depth 16, but the REQ offers Responder Resources 4" in finding.message
    assert finding.evidence == {"initiator_depth": 16, "responder_resources": 4}


def test_as_many_reads_as_offered_and_other_services() -> None:
    """F02: XRC initiators offer 0 and mean nothing by it; unreliable connections have no reads."""
    for talk in (depths(4, 4), depths(0, 1, **XRC), depths(0, 1, transport_service_type=1)):
        assert "F02" not in run(talk).codes


@pytest.mark.parametrize(
    ("req", "words", "confidence"),
    [
        ({"transport_service_type": 2}, "2 (reliable datagrams)", "certain"),
        ({"transport_service_type": 3, "extended_transport_type": 4}, "3 with Extended Transport Type 4", "probable"),
    ],
)
def test_a_service_that_nobody_implements(req: dict[str, int], words: str, confidence: str) -> None:
    """F03"""
    talk = Conversation()
    talk.active(0, "REQ", **req)
    finding = run(talk).only("F03")
    assert (finding.severity, finding.confidence, finding.frames) == ("warning", confidence, ((0, 1),))
    assert f"asks for Transport Service Type {words}." in finding.message


@pytest.mark.parametrize("req", [{}, {"transport_service_type": 1}, XRC, {"extended_transport_type": 4}])
def test_services_in_use(req: dict[str, int]) -> None:
    """F03: the extended type counts only where the type says so."""
    talk = Conversation()
    talk.active(0, "REQ", **req)
    assert "F03" not in run(talk).codes


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("path_mtu", 0, "Path Packet Payload MTU 0"),
        ("path_mtu", 6, "Path Packet Payload MTU 6"),
        ("primary_packet_rate", 1, "Primary Packet Rate 1"),
    ],
)
def test_codes_of_a_req_that_are_not_defined(field: str, value: int, words: str) -> None:
    """F04"""
    talk = Conversation()
    talk.establish(0, **{field: value})
    finding = run(talk).only("F04")
    assert (finding.severity, finding.confidence, finding.frames) == ("warning", "certain", ((0, 1),))
    assert finding.message == f"REQ of 10.0.0.1 has {words}, which is not defined."
    assert finding.evidence == {field: value}


def test_failover_neither_accepted_nor_refused() -> None:
    """F04"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP", failover_accepted=3)
    assert "REP of 10.0.0.2 has Failover Accepted 3" in run(talk).only("F04").message


def test_a_rate_of_the_future() -> None:
    """F04"""
    talk = Conversation()
    talk.active(0, "REQ", primary_packet_rate=26)
    finding = run(talk).only("F04")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "Primary Packet Rate 26, which no known edition defines" in finding.message


def test_every_code_that_is_defined_or_was_cut_off() -> None:
    """F04"""
    talk = Conversation()
    for number in range(1, 6):
        other = talk.another()
        other.active(number, "REQ", path_mtu=number, primary_packet_rate=(0, 2, 16, 24, 25)[number - 1])
        other.passive(number + 0.01, "REP", failover_accepted=number % 3)
    talk.another().active(9, "REQ", path_mtu=0, cut=24 + 50)
    assert "F04" not in run(talk).codes


def queues(**fields: int) -> Conversation:
    talk = Conversation()
    talk.establish(0, **fields)
    talk.another().establish(1, **fields)
    return talk


def test_one_packet_that_finds_the_shared_queue_empty() -> None:
    """F15"""
    finding = run(queues(srq=1, rnr_retry_count=0)).only("F15")  # told once for the port
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "probable", ((0, 1),))
    assert "REQ of 10.0.0.1 announces a shared receive queue and RNR Retry Count 0" in finding.message


def test_credits_of_a_shared_queue() -> None:
    """F15"""
    finding = run(queues(srq=1, end_to_end_flow_control=1)).only("F15")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "end-to-end flow control, which has no effect there" in finding.message


IPOIB = 0x1000_0000_0000_0048


@pytest.mark.parametrize(
    "fields",
    [
        {"srq": 1},
        {"rnr_retry_count": 0, "end_to_end_flow_control": 1},
        {"srq": 1, "rnr_retry_count": 0, "service_id": IPOIB},
        {"srq": 1, "rnr_retry_count": 0, **XRC},
    ],
)
def test_queues_that_suit_their_settings(fields: dict[str, Any]) -> None:
    """F15: IPoIB connected mode wants no retries; the fields of XRC mean less."""
    assert "F15" not in run(queues(**fields)).codes


def test_an_xrc_target_whose_req_was_cut() -> None:
    """F01: a REP with QPN 0 and an EE context is of XRC, if nothing is known of its transport."""
    talk = Conversation()
    talk.active(0, "REQ", cut=60, **XRC)
    talk.passive(0.01, "REP", local_qpn=0, local_eecn=0x77)
    assert "F01" not in run(talk).codes
