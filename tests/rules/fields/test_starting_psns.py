"""F16: a QPN that comes back with the same starting PSN."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import Duration, Psn

TIMES = {"primary_local_ack_timeout": 19}  # with TAD 15: active at least 128 ms, 2.048 s in Linux, at most 4.29 s


def reuse(
    gap: float,
    *,
    req_psns: tuple[int, int] = (0x777, 0x777),
    rep_psns: tuple[int, int] = (1, 2),
    passive: Host | None = None,
    passive_qpn: int | None = None,
    new_qpn: int = 0x11,
    **req: Any,
) -> Conversation:
    """A connection closed at 1.01 s; `gap` seconds later the active side connects again."""
    old = Conversation(active_qpn=0x11, passive_qpn=passive_qpn)
    old.active(0, "REQ", starting_psn=req_psns[0], **{**TIMES, **req})
    old.passive(0.01, "REP", starting_psn=rep_psns[0], target_ack_delay=15)
    old.active(0.02, "RTU")
    old.close(1.0)
    new = old.another(passive=passive, active_qpn=new_qpn, passive_qpn=passive_qpn)
    new.active(1.01 + gap, "REQ", starting_psn=req_psns[1], **{**TIMES, **req})
    new.passive(1.02 + gap, "REP", starting_psn=rep_psns[1])
    new.active(1.03 + gap, "RTU")
    return old


@pytest.mark.parametrize(
    ("gap", "confidence"), [(0.06, "certain"), (0.2, "probable"), (2.0, "probable"), (2.1, "possible")]
)
def test_the_qpn_and_the_psn_come_back(gap: float, confidence: str) -> None:
    """F16"""
    finding = run(reuse(gap)).only("F16")
    severity = "info" if confidence == "possible" else "warning"
    assert (finding.severity, finding.confidence) == (severity, confidence)
    assert (finding.connection, finding.related, finding.frames) == (2, (1,), ((0, 6),))
    assert "10.0.0.1 uses QPN 0x000011 again" in finding.message
    assert "and starts at PSN 0x000777 as then: a late acknowledgement of that connection" in finding.message
    assert finding.evidence["reused_after"] == Duration(round(gap * 1e9))
    assert finding.evidence["starting_psn"] == Psn(0x777)


def test_the_peer_starts_where_it_did() -> None:
    """F16: then late requests fit, and that shows with the REP."""
    finding = run(reuse(0.06, req_psns=(5, 6), rep_psns=(0, 0))).only("F16")
    assert finding.frames == ((0, 7),)
    assert "10.0.0.1 uses QPN 0x000011 again" in finding.message
    assert "and 10.0.0.2 starts at PSN 0x000000 as then: a late request of that connection" in finding.message


def test_the_passive_side_reuses_its_qpn() -> None:
    """F16"""
    talk = reuse(0.06, req_psns=(5, 6), rep_psns=(9, 9), new_qpn=0x12, passive_qpn=0x88)
    finding = run(talk).only("F16")
    assert finding.frames == ((0, 7),)
    assert "10.0.0.2 uses QPN 0x000088 again" in finding.message
    assert "a late acknowledgement" in finding.message


def test_not_without_the_qpn_the_psn_the_peer_or_the_haste() -> None:
    """F16"""
    for talk in (
        reuse(0.06, new_qpn=0x12),
        reuse(0.06, req_psns=(5, 6)),
        reuse(0.06, passive=Host("10.0.0.3")),
        reuse(4.4),
        reuse(0.06, transport_service_type=3, extended_transport_type=1),
    ):
        assert "F16" not in run(talk).codes


def test_an_attempt_that_was_refused_left_no_packets_behind() -> None:
    """F16: its QP never carried data."""
    talk = Conversation(active_qpn=0x11)
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=28)
    talk.another(active_qpn=0x11).active(0.02, "REQ")
    assert "F16" not in run(talk).codes


def habit(count: int, qpns: int, service_id: int = 0x0000000001061C06, psn: int = 0) -> Conversation:
    """Connections of one CA, a minute apart, on `qpns` QPNs in turn, all with one starting PSN."""
    talk = Conversation()
    for number in range(count):
        other = talk.another(active_qpn=0x40 + number % qpns, service_id=service_id)
        other.active(60.0 * number, "REQ", starting_psn=psn)
        other.passive(60.0 * number + 0.01, "REP", starting_psn=number)
        other.active(60.0 * number + 0.02, "RTU")
        other.close(60.0 * number + 1)
    return talk


def test_a_ca_that_always_starts_at_zero() -> None:
    """F16: information, once."""
    finding = run(habit(20, 5)).only("F16")
    assert (finding.severity, finding.confidence, finding.connection) == ("info", "certain", 8)
    assert "has started 8 REQs at PSN 0x000000, with QPN 0x000042 among them again" in finding.message


def test_fresh_qpns_few_connections_other_psns_and_ipoib() -> None:
    """F16"""
    for talk in (habit(20, 20), habit(7, 3), habit(20, 5, psn=5), habit(20, 5, service_id=0x1000000000000048)):
        assert "F16" not in run(talk).codes
