"""L01-L06: a second path for an open connection."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

from ibcmtool.values import Duration

LAP_TID = 0x700000001


def infiniband() -> Conversation:
    """Between LIDs: there is no alternate path on RoCE."""
    return Conversation(Host("10.0.0.1", lid=1), Host("10.0.0.2", lid=2))


def test_lap_after_its_own_dreq() -> None:
    """L01"""
    talk = infiniband()
    talk.establish()
    dreq = talk.active(1, "DREQ")
    lap = talk.active(1.5, "LAP")
    talk.passive(2, "DREP")
    finding = run(talk).only("L01")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, dreq.frame), (0, lap.frame))
    assert "sent a LAP 500 ms after its own DREQ" in finding.message
    assert finding.evidence == {"gap": Duration(500_000_000)}


def test_lap_that_is_repeated_after_the_dreq_is_told_once() -> None:
    """L01"""
    talk = infiniband()
    talk.establish()
    lap = talk.active(0.5, "LAP")
    talk.active(1, "DREQ")
    talk.repeat(lap, every=2, count=3)
    talk.passive(20, "DREP")
    assert run(talk).only("L01").severity == "error"


def test_lap_by_two_clocks() -> None:
    """L01"""
    talk = infiniband()
    talk.establish()
    talk.active(1, "DREQ")
    talk.active(1.5, "LAP", file=1)
    assert run(talk).only("L01").confidence == "probable"


def test_lap_that_crosses_a_dreq() -> None:
    """L01: the peer's, of which its sender knows nothing yet; or its own, in a capture with some disorder."""
    talk = infiniband()
    talk.establish()
    talk.passive(1, "DREQ")
    talk.active(1.002, "LAP")
    talk.active(1.01, "DREP")
    assert "L01" not in run(talk).codes
    talk = infiniband()
    talk.establish()
    talk.active(1, "DREQ")
    talk.active(1.02, "LAP")
    assert "L01" not in run(talk).codes


def test_lap_long_after_the_end_is_told_by_another_rule() -> None:
    """L01"""
    talk = infiniband()
    talk.establish()
    talk.close(1)
    talk.active(20, "LAP")
    assert {"L01", "H08"} & set(run(talk).codes) == {"H08"}


def test_lap_before_the_rtu() -> None:
    """L01"""
    talk = infiniband()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    lap = talk.active(0.2, "LAP")
    rtu = talk.active(1, "RTU")
    finding = run(talk).only("L01")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, lap.frame), (0, rtu.frame))


def test_lap_and_an_rtu_that_may_be_the_second_one() -> None:
    """L01: the first is not in the capture, the REP that was repeated called for another. Or there is none at all."""
    talk = infiniband()
    talk.active(0, "REQ")
    rep = talk.passive(0.1, "REP")
    talk.active(0.2, "LAP")
    talk.again(4.5, rep)
    talk.active(4.6, "RTU")
    assert "L01" not in run(talk).codes
    talk = infiniband()
    talk.active(0, "REQ")
    talk.passive(0.1, "REP")
    talk.active(0.2, "LAP")
    assert "L01" not in run(talk).codes


def test_lap_and_an_rtu_that_was_held_up() -> None:
    """L01: by its number it was sent before the LAP."""
    talk = infiniband()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.5, "LAP", psn=2)
    talk.active(4.7, "RTU", psn=1)
    assert "L01" not in run(talk).codes


def test_apr_and_its_lap_in_captures_with_other_clocks() -> None:
    """L02: the TransactionID tells that it was asked for."""
    talk = infiniband()
    talk.establish()
    talk.passive(1, "APR", tid=77)
    talk.active(1.5, "LAP", tid=77, file=1)
    assert "L02" not in run(talk, until=200).codes


def test_apr_without_lap() -> None:
    """L02"""
    talk = infiniband()
    talk.hosts["active"].psn = 100
    talk.establish()
    apr = talk.passive(1, "APR", ap_status=0)
    assert run(talk, until=10).only("L02").severity == "info"  # the LAP may have been missed
    talk.close(2)
    finding = run(talk, until=10).only("L02")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, apr.frame),)
    assert "no LAP from LID 1 was captured" in finding.message


@pytest.mark.parametrize("order", [(1, 1.1), (1.02, 1)])
def test_apr_to_a_lap(order: tuple[float, float]) -> None:
    """L02: also where the capture has them in the wrong order."""
    talk = infiniband()
    talk.establish()
    talk.active(order[0], "LAP")
    talk.passive(order[1], "APR")
    assert run(talk, until=10).codes == []


def test_apr_in_a_capture_of_one_direction() -> None:
    """L02: nothing of the side that sends LAPs; and of a connection that began earlier."""
    talk = infiniband()
    talk.passive(0.1, "REP")
    talk.passive(1, "APR")
    assert "L02" not in run(talk).codes
    talk = infiniband()
    talk.active(0, "RTU")
    talk.passive(1, "APR")
    assert "L02" not in run(talk).codes


def test_lap_from_the_passive_side() -> None:
    """L03"""
    talk = infiniband()
    talk.establish()
    lap = talk.passive(1, "LAP")
    talk.again(1.9, lap)
    talk.active(2, "APR")
    finding = run(talk).only("L03")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, lap.frame),)


def test_lap_from_nobody_knows_which_side() -> None:
    """L03"""
    talk = infiniband()
    talk.passive(1, "LAP")
    assert "L03" not in run(talk).codes


def test_two_laps_at_once() -> None:
    """L04: the first is repeated after the second was sent."""
    talk = infiniband()
    talk.establish()
    first = talk.active(1, "LAP", tid=LAP_TID)
    second = talk.active(2, "LAP", tid=LAP_TID + 1)
    again = talk.again(6, first)
    talk.again(7, second)
    talk.again(11, first)
    parallel = run(talk).of("L04")
    assert [(finding.severity, finding.confidence) for finding in parallel] == [
        ("info", "possible"),  # nobody can tell yet
        ("warning", "certain"),  # once
    ]
    assert parallel[1].frames == ((0, first.frame), (0, second.frame), (0, again.frame))
    assert "LAP repeated 4 s after LID 1 had sent another one" in parallel[1].message


def test_laps_one_after_another() -> None:
    """L04: answered, or given up."""
    talk = infiniband()
    talk.establish()
    talk.active(1, "LAP", tid=LAP_TID)
    talk.passive(1.5, "APR", tid=LAP_TID)
    talk.active(2, "LAP", tid=LAP_TID + 1)
    talk.passive(2.1, "APR", tid=LAP_TID + 1)
    third = talk.active(3, "LAP", tid=LAP_TID + 2)
    talk.again(9.2, third)
    talk.active(60, "LAP", tid=LAP_TID + 3)
    assert "L04" not in run(talk).codes


def test_lap_that_is_repeated() -> None:
    """L04"""
    talk = infiniband()
    talk.establish()
    talk.repeat(talk.active(1, "LAP"), every=6.2, count=3)
    assert "L04" not in run(talk).codes


def test_lap_with_another_qpn() -> None:
    """L05"""
    talk = infiniband()
    talk.establish()
    lap = talk.active(1, "LAP", qpn=0x7777)
    talk.passive(1.1, "APR", ap_status=6)
    finding = run(talk).only("L05")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, lap.frame),)
    assert f"names QPN 0x007777, but LID 2 uses 0x{talk.qpns['passive']:06x}" in finding.message


def test_lap_whose_qpn_is_not_known() -> None:
    """L05: the REP is not in the capture; or its QPN stands elsewhere (XRC)."""
    talk = infiniband()
    talk.active(0, "REQ")
    talk.active(0.2, "RTU")
    talk.active(1, "LAP", qpn=0x7777)
    assert "L05" not in run(talk).codes
    talk = infiniband()
    talk.establish(transport_service_type=3, extended_transport_type=1)
    talk.active(1, "LAP", qpn=0x7777)
    assert "L05" not in run(talk).codes


def test_lap_on_roce() -> None:
    """L06: told once."""
    talk = Conversation()
    talk.establish()
    lap = talk.active(1, "LAP")
    talk.again(7.2, lap)
    talk.passive(8, "APR")
    finding = run(talk).only("L06")
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.frames == ((0, lap.frame),)
    assert finding.message == "LAP on RoCE v2."


def test_lap_on_infiniband() -> None:
    """L06"""
    talk = infiniband()
    talk.establish()
    talk.active(1, "LAP")
    talk.passive(1.1, "APR")
    assert run(talk).codes == []
