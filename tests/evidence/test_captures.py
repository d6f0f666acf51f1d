"""Captures whose truth is known, frame by frame: what an imperfect witness must not be believed, and what it must."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from evidence.frames import records

from ibcmtool.analysis import Analysis
from ibcmtool.engine.files import analyze
from ibcmtool.reports import rejects
from ibcmtool.reports.connections_table import findings_by_connection

CAPTURES = Path(__file__).parent / "captures"
MOST_FRAMES = 60  # of a capture, that are left out in turn

# What is an error or a warning in each; nothing is in the others, whose frames were lost, doubled, delayed, stamped
# wrongly, or tell of hosts that restarted.
LOUD = {
    "f01e_client_reboot_target_accepts_guilty": {("S01", "error", "certain"): 1},
    "f02b_same_target_guilty": {("S01", "error", "certain"): 1},
    "f05_cloned_guid_rej10": {("X12", "warning", "probable"): 1},
    "f11_older_than_capture_stale": {("S02", "warning", "certain"): 1},
    "f16_sidr_exhausted": {("I06", "warning", "probable"): 1},
    "f14_reuse_60x": {("T01", "error", "certain"): 59},
    "g15_icmp_port_unreachable": {("H18", "warning", "probable"): 1},
    "h32_dreq_dead_link": {("R07", "warning", "probable"): 20},
    "h41_mac_changed_dreq": {("R07", "warning", "probable"): 1, ("X09", "warning", "probable"): 1},
    "late_rep_after_close": {("T07", "warning", "certain"): 1},
    "k15b_qpn_back_after_timewait": {("R07", "warning", "probable"): 1},
    "k15c_other_qpn_twin": {("R07", "warning", "probable"): 1},
    "n01_nvme_110_giveup_3s": {("H18", "warning", "probable"): 6},
    "rxe510_reuse": {("T01", "error", "certain"): 5, ("T02", "warning", "probable"): 5},
    "rxe72": {("H18", "warning", "probable"): 1},
    "s10b_n1": {("H18", "warning", "probable"): 1, ("X09", "warning", "probable"): 2},
    "s10b_n2": {("H18", "warning", "probable"): 1, ("X09", "warning", "probable"): 2},
    "s2_n2b": {("S02", "warning", "certain"): 4},
    "s5_n1": {("T07", "warning", "certain"): 1},
    "s5_n2": {("S12", "warning", "certain"): 1, ("T07", "warning", "certain"): 1},
}
OUTCOMES = {
    "f01_power_outage_both": {"closed": 2, "established": 2},
    "f01e_client_reboot_target_accepts_guilty": {"established": 1, "half_open": 1},
    "f08b_mirror_dup_6s": {"closed": 1},
    "f11_older_than_capture_stale": {"established": 1, "rejected": 1, "stale": 1},
    "f20_same_comm_ids_sequential": {"closed": 6},
    "g08_passive_rebooted_between": {"closed": 1},
    "k03_dreq_rej6": {"closed": 1},
    "rxe72": {"closed": 7, "half_open": 1, "timed_out": 1},
    "s2_n2b": {"closed": 2, "established": 4, "rejected": 4, "stale": 4},
    "s13_n1": {"closed": 2},
    "y6b_two_dirs_1ms": {"closed": 25, "rejected": 20},
    "z9_passive_dreq_lost": {"closed": 4},
}
NAMES = sorted(path.stem for path in CAPTURES.glob("*.pcap"))

# What must be said of each: in a finding of this code, or (no code) in the sentence on a refusal.
SAYS = [
    ("n01_nvme_110_giveup_3s", "H18", "the host's own limit of 3 s"),
    ("n01_nvme_110_giveup_3s", "H18", "has answered nothing since frame 10, a DREQ 10.2 s before"),
    ("n01_nvme_110_giveup_3s", "S12", "It is back since (REQ after 10.2 s, frame 11)"),
    ("g15_icmp_port_unreachable", "H18", "the host is up, nothing takes UDP 4791 there"),
    ("s11_n1", "R17", "18 s after its REQ, 11.7 s into the 75.2 s that the MRA makes it wait"),
    ("s6b_n1", "H24", "The program behind RDMA TCP 7175 on 10.77.0.1 ended"),
    ("s6b_n1", "", "frame 110: the program that served it ended"),
    ("s6b_n1", "", "frame 139: nobody listens for RDMA TCP 7175"),
    ("g04_rej28_private", "", 'frame 4: "quota exceeded"'),
    ("g04_rej28_private", "", "frame 2: private data 00040000 00000000 deadbeef"),
    ("n13_mtu_reject", "", "frame 2: acceptable path MTU 2048 bytes"),
    ("f16_sidr_exhausted", "", "SIDR status 2 rejected by service provider, frame 2"),
]


def loud(analysis: Analysis) -> Counter[tuple[str, str, str]]:
    """Errors and warnings: how many of each code, with each confidence."""
    return Counter(
        (finding.code, finding.severity, finding.confidence)
        for finding in analysis.findings
        if finding.severity != "info"
    )


@pytest.mark.parametrize("name", NAMES)
def test_nobody_innocent_is_accused_and_the_guilty_are(name: str) -> None:
    assert loud(analyze([str(CAPTURES / f"{name}.pcap")])) == LOUD.get(name, {})


@pytest.mark.parametrize("name", sorted(OUTCOMES))
def test_outcomes(name: str) -> None:
    analysis = analyze([str(CAPTURES / f"{name}.pcap")])
    assert Counter(connection.outcome for connection in analysis.connections) == OUTCOMES[name]


@pytest.mark.parametrize(("name", "code", "says"), SAYS)
def test_what_must_be_said(name: str, code: str, says: str) -> None:
    analysis = analyze([str(CAPTURES / f"{name}.pcap")])
    sentences = [finding.message for finding in analysis.findings if finding.code == code]
    if not code:
        found = findings_by_connection(analysis.findings)
        sentences = [rejects.sentence(conn, False, found.get(conn.id, ())) for conn in analysis.connections]
    assert any(says in sentence for sentence in sentences), sentences


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LOUD])
def test_no_frame_less_accuses_anybody_for_certain(name: str, tmp_path: Path) -> None:
    header, frames = records(CAPTURES / f"{name}.pcap")
    path = tmp_path / "less.pcap"
    for place in range(min(len(frames), MOST_FRAMES)):
        path.write_bytes(header + b"".join(frames[:place] + frames[place + 1 :]))
        found = [key for key in loud(analyze([str(path)])) if key[2] == "certain"]
        assert found == [], f"without frame {place + 1}"
