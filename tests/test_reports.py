"""What ibcmtool must say of the reports that people write (captures/reports), and what it must not.

The golden runs show the whole outputs; here stands what an expert would check in them, so that a new output cannot be
taken over together with a fault.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from pathlib import Path

import pytest
from report_captures import CAPTURES

from ibcmtool.analysis import Analysis, Finding
from ibcmtool.engine.files import analyze
from ibcmtool.values import Duration, FrameNumber, Qpn, Time

FOLDER = Path(__file__).resolve().parent.parent / "captures" / "reports"


@lru_cache(maxsize=1)
def report(*names: str, policy: str = "relaxed") -> Analysis:
    return analyze([str(FOLDER / name) for name in names], policy)  # type: ignore[arg-type]


def found(analysis: Analysis) -> list[tuple[str, str, int | None]]:
    """Code, severity and connection of all findings but the information about hosts (X03, X07)."""
    return [(f.code, f.severity, f.connection) for f in analysis.findings if f.code not in ("X03", "X07", "R09")]


def only(analysis: Analysis, code: str, connection: int | None = None) -> Finding:
    findings = [f for f in analysis.findings if f.code == code and connection in (None, f.connection)]
    assert len(findings) == 1, [f.message for f in findings]
    return findings[0]


def frames(finding: Finding) -> list[int]:
    return [frame for _, frame in finding.frames]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_is_what_its_story_gives(name: str) -> None:
    """Written anew by scripts/report_captures. Compressed bytes may differ with the library that made them."""
    built = CAPTURES[name]()
    assert content(FOLDER / name) == (gzip.decompress(built) if name.endswith(".gz") else built)


def test_every_capture_has_its_story_and_a_row() -> None:
    held = {path.name for path in FOLDER.iterdir()}
    assert held == set(CAPTURES)
    rows = re.findall(r"^\| \d+ \| (.*?) \|", (FOLDER.parent / "README.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", " ".join(rows))) == held
    assert len(rows) == 19


@pytest.mark.parametrize("name", CAPTURES)
def test_icrcs_are_right(name: str) -> None:
    steps = [step for connection in report(name).connections for step in connection.steps]
    wrong = [step.message.frame for step in steps if step.message.icrc_ok is not True]
    assert wrong == ([1, 3] if name.startswith("19") else [])


def test_1_power_loss() -> None:
    analysis = report("01_power_loss.pcap")
    assert [c.outcome for c in analysis.connections] == ["stale", *["rejected"] * 7, "established"]
    assert sorted(found(analysis)) == sorted(
        [("S02", "warning", 2), ("S09", "warning", 8), ("R07", "warning", 1)]
        + [("S02", "info", number) for number in range(3, 9)]
    )
    s02 = only(analysis, "S02", 2)
    assert frames(s02) == [36, 37]
    assert (s02.evidence["qpn"], s02.evidence["dreq_frame"]) == (Qpn(0x11), FrameNumber(0, 38))
    assert "It goes to 10.10.0.11, where connection 1 was made from, while this REQ came from 10.10.0.12" in s02.message
    assert s02.evidence["retry_budget"] == Duration(16 * 4_294_967_296)
    assert "status 10 (stale conn)" in s02.advice
    s09 = only(analysis, "S09")
    assert "refused as stale 7 times within 64.8 s" in s09.message
    assert "sent 16 times and never answered" in s09.message
    accepted = analysis.connections[8]
    assert analysis.connections[7].closed < s09.evidence["released"].ns < accepted.opened
    assert "they went to 10.10.0.11" in only(analysis, "R07").advice


def test_2_retry_loop() -> None:
    analysis = report("02_retry_loop.pcap")
    assert [c.outcome for c in analysis.connections] == ["stale", *["rejected"] * 5, "established"]
    assert sorted(found(analysis)) == sorted(
        [("S02", "warning", 2), ("S09", "warning", 6)] + [("S02", "info", number) for number in range(3, 7)]
    )
    s09 = only(analysis, "S09")
    assert "refused as stale 5 times within 800 ms" in s09.message
    assert "answered only 4.37 s after the first refusal" in s09.message
    drep = analysis.connections[0].steps[-1].message
    assert (drep.type, drep.time) == ("DREP", s09.evidence["released"].ns)


def test_3_mesh() -> None:
    """For each DREQ: which connection it hit, and whether a stale REQ caused it."""
    analysis = report("03_mesh_node_reset.pcap")
    assert [c.outcome for c in analysis.connections] == [
        *("established", "stale", "closed", "stale", "closed", "closed", "rejected", "rejected", "established")
    ]
    assert sorted(found(analysis)) == [
        ("R07", "warning", 6),
        ("S02", "warning", 7),
        ("S02", "warning", 8),
        ("S13", "info", 3),
        ("S13", "info", 5),
    ]
    for attempt, old, dreq in ((7, 2, 61), (8, 4, 65)):
        s02 = only(analysis, "S02", attempt)
        assert (s02.related, s02.evidence["dreq_frame"]) == ((old,), FrameNumber(0, dreq))
    for sound, attempt in ((3, 7), (5, 8)):
        s13 = only(analysis, "S13", sound)
        assert s13.related == (attempt,)
        assert s13.message.startswith("LID 20 closed this connection")
        assert "No stale REQ or REP named one of its QPNs" in s13.message


def test_4_stale_rep() -> None:
    analysis = report("04_stale_rep.pcap")
    assert [(c.outcome, c.history) for c in analysis.connections] == [("stale", "QpUDe"), ("established", "QpJ^QpU")]
    assert found(analysis) == [("S02", "warning", 2)]
    s02 = only(analysis, "S02")
    assert frames(s02) == [9, 10]
    assert s02.message.startswith("REP of 10.20.0.9:7471 with QPN 0x00002a, which 10.20.0.5:39911 still holds")


def test_5_no_dreq() -> None:
    analysis = report("05_no_dreq.pcapng")
    assert sorted(found(analysis)) == [
        *(("S02", "info", 3), ("S02", "info", 4), ("S02", "warning", 2), ("S03", "error", 2))
    ]
    s03 = only(analysis, "S03")
    assert (s03.confidence, frames(s03)) == ("probable", [9])
    assert "refuses every further attempt" in s03.message
    assert "if it lacks this DREQ (upstream before 4.10)" in s03.advice


def test_6_new_qpn() -> None:
    analysis = report("06_new_qpn.pcap")
    assert [c.outcome for c in analysis.connections] == ["half_open", "established"]
    assert found(analysis) == [("S12", "warning", 1)]
    s12 = only(analysis, "S12")
    assert "It is back since (REQ after 24 s, frame 9) with QPN 0x0001d7 instead of 0x0001d3" in s12.message
    assert "see whether 10.30.0.2:7471 still holds this connection" in s12.advice


def test_7_minutes_accounted_for() -> None:
    analysis = report("07_unanswered_dreqs.pcap")
    assert found(analysis) == [("R07", "warning", 1)]
    r07 = only(analysis, "R07")
    assert "16 of 16 sends of the DREQ of 10.40.0.31 over 4 min 14 s" in r07.message
    assert (
        "The next REQ of 10.40.0.31 came 4 min 31 s after the first DREQ (frame 24): so long it had waited"
        in r07.message
    )


def test_8_moved_address() -> None:
    analysis = report("08_moved_address.pcap")
    assert [c.outcome for c in analysis.connections] == ["closed", "timed_out", "established"]
    assert found(analysis) == [("H18", "warning", 2), ("X09", "warning", 2), ("X13", "info", 3)]
    assert "b8:59:9f:c3:d4:99 since frame 12" in only(analysis, "X09").message


def test_9_one_qpn_towards_many_peers_is_legal() -> None:
    analysis = report("09_one_qpn_many_peers.pcap")
    assert {c.outcome for c in analysis.connections} == {"closed"}
    assert found(analysis) == [("X01", "info", 2)]


def test_10_reused_at_once() -> None:
    analysis = report("10_reused_at_once.pcap")
    assert sorted(found(analysis)) == [("F16", "warning", 2), ("S05", "info", 2), ("T01", "error", 2)]
    t01 = only(analysis, "T01")
    assert (t01.confidence, frames(t01)) == ("certain", [10])
    assert "60 ms after it closed connection 1 (frame 9)" in t01.message
    assert t01.evidence["same_starting_psn"] is True
    assert "cannot be told from one of this" in only(analysis, "F16").message
    assert t01.evidence["free_from"] == Time(analysis.connections[0].active.timewait.likely)  # type: ignore[union-attr]
    strict = report("10_reused_at_once.pcap", policy="strict")
    assert {("T01", "error", 2), ("S05", "error", 2)} <= set(found(strict))


def test_11_gave_up() -> None:
    """Both clients drew the same Communication ID, and their REJs name none of the server's."""
    analysis = report("11_gave_up.pcap")
    _, first, second = analysis.connections
    assert (first.outcome, first.history) == ("timed_out", "Q^Q^QJ")
    assert (second.outcome, second.history) == ("timed_out", "Q^QJ")
    assert first.active.comm_id == second.active.comm_id
    assert sorted(found(analysis)) == [("H18", "warning", 2), ("H18", "warning", 3)]
    assert "3 of 16 sends" in only(analysis, "H18", 2).message
    assert frames(only(analysis, "H18", 2))[-1] == 10
    assert "then the requester gave up (REJ 4)" in only(analysis, "H18", 3).message
    assert frames(only(analysis, "H18", 3))[-1] == 9


def test_12_refusals() -> None:
    analysis = report("12_refusals.pcap")
    reasons = [c.reject.message.fields.reason for c in analysis.connections if c.reject is not None]
    assert (reasons.count(8), reasons.count(28)) == (60, 2)
    assert [f for f in found(analysis) if f[1] != "info"] == []


def test_13_storm() -> None:
    analysis = report("13_storm.pcap.gz")
    assert len(analysis.connections) == 1000
    h18 = [f for f in analysis.findings if f.code == "H18"]
    c02 = [f for f in analysis.findings if f.code == "C02"]
    assert (len(h18), len(c02)) == (823, 59)
    assert {f.severity for f in analysis.findings} == {"warning", "info"}
    assert all("got there" in f.message for f in h18)  # the capture was taken at the target's port
    assert all("the REQs were lost before the capture point" in f.message for f in c02)
    assert {f.code for f in analysis.findings} <= {"H18", "C02", "X03", "X07", "X09"}


def test_14_mra() -> None:
    analysis = report("14_mra.pcap")
    assert [(c.outcome, c.history) for c in analysis.connections] == [("closed", "Q^Qm^Q^mpUDe"), ("rejected", "Q^Qmj")]
    assert sorted(found(analysis)) == [("R15", "info", 1), ("R15", "info", 2)]
    assert "The REQ came again after 6.4 s and 67.6 s" in only(analysis, "R15", 1).message
    assert "REJ (reason 28) 38 s after the first of 2 REQs" in only(analysis, "R15", 2).message


def test_15_dying_process() -> None:
    analysis = report("15_dying_process.pcap")
    assert [c.outcome for c in analysis.connections] == ["closed"]
    assert found(analysis) == [("R16", "info", 1)]


def test_16_wrong_message_rejected() -> None:
    analysis = report("16_wrong_message_rejected.pcap")
    assert found(analysis) == [("H12", "info", 1)]
    assert "came again 15 times" in only(analysis, "H12").message


def test_17_roce_v1_to_v2() -> None:
    analysis = report("17_roce_v1_to_v2.pcap")
    assert sorted(found(analysis)) == [("H18", "warning", 2), ("X10", "warning", 2)]
    assert "heard with RoCE v2 only" in only(analysis, "X10").message


def test_18_vm_and_wire() -> None:
    analysis = report("18_in_the_vm.pcap", "18_on_the_wire.pcap")
    assert found(analysis) == [("X11", "info", 2)]


def test_19_bad_icrc() -> None:
    analysis = report("19_bad_icrc.pcap")
    assert [c.outcome for c in analysis.connections] == ["closed"]
    assert found(analysis) == [("C06", "warning", 1), ("C06", "info", 1)]
    rep, req = analysis.findings[:2]
    assert (frames(req), frames(rep)) == ([1, 2], [3, 4])
    assert "has dropped it. That is why it came again 6.4 s later" in req.message
