"""H20: both ends call each other."""

from __future__ import annotations

from conversation import Conversation, Host, run

A, B = Host("10.0.0.1"), Host("10.0.0.2")


def calls(*, second_at: float = 0.005, service_id: int = 0x0000000001061C06) -> tuple[Conversation, Conversation]:
    """A calls B with QPN 0x11, and B calls A with QPN 0x22."""
    there = Conversation(A, B, active_qpn=0x11)
    there.active(0, "REQ")
    back = there.another(active=B, passive=A, active_qpn=0x22, service_id=service_id)
    back.active(second_at, "REQ")
    return there, back


def test_two_calls_that_become_one_connection() -> None:
    """H20"""
    there, _ = calls()
    rep = there.passive(0.05, "REP", qpn=0x22)
    there.active(0.06, "RTU")
    result = run(there)
    finding = result.only("H20")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert (finding.connection, finding.related) == (1, (2,))
    assert finding.frames == ((0, 1), (0, 2), (0, rep.frame))
    assert finding.message == (
        "10.0.0.1 and 10.0.0.2 called each other within 5 ms for the same service, and the REP names QPN 0x000022,"
        " which the other REQ had offered: one connection, opened from both ends."
    )
    assert finding.evidence == {"qpn": "0x000022", "gap_ns": 5_000_000}
    assert {"S01", "S02", "S04", "X01"}.isdisjoint(result.codes)


def test_the_other_end_may_answer() -> None:
    """H20"""
    _, back = calls()
    back.passive(0.05, "REP", qpn=0x11)
    finding = run(back).only("H20")
    assert (finding.connection, finding.related) == (2, (1,))


def test_two_connections_in_opposite_directions() -> None:
    """H20: as IPoIB-CM and meshes have them, each with QPs of its own."""
    there, back = calls()
    for talk in (there, back):
        talk.passive(0.05, "REP")
        talk.active(0.06, "RTU")
    assert "H20" not in run(there).codes


def test_calls_for_two_services() -> None:
    """H20: the QPN is in use twice, but this is no peer-to-peer connection."""
    there, _ = calls(service_id=0x0000000001060001)
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_that_was_over() -> None:
    """H20: refused before; its QP serves the call of the other side now."""
    there, back = calls()
    back.passive(0.02, "REJ", reason=8)
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_that_had_succeeded() -> None:
    """H20: the QPN is connected already; S04 and X01 are about that."""
    there, back = calls()
    back.passive(0.02, "REP")
    back.active(0.03, "RTU")
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_to_somebody_else() -> None:
    """H20"""
    there = Conversation(A, B, active_qpn=0x11)
    there.active(0, "REQ")
    there.another(active=B, passive=Host("10.0.0.3"), active_qpn=0x22).active(0.005, "REQ")
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes
