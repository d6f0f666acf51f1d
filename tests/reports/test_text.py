"""The report of `analyze`, whole, at several widths and for few, many and very many connections."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import pytest
import sinks

from ibcmtool.analysis import Analysis
from ibcmtool.reports.text import CAP
from ibcmtool.values import CommId, Duration, Guid, Psn

WIDTHS = (72, 80, 100, 120, 200, None)


def report(screen: Any, analysis: Analysis, width: int | None, *, everything: bool = False, **kind: Any) -> Any:
    made = screen(width, **kind)
    sinks.report("analyze", "text", analysis, console=made.console, everything=everything)
    return made


def squeezed(lines: list[str]) -> str:
    """Lines as one text, so that a wrapped sentence can be found."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("everything", [False, True])
def test_every_scene_fits_every_width(screen: Any, scene: Analysis, width: int | None, everything: bool) -> None:
    lines = report(screen, scene, width, everything=everything).lines
    assert lines
    if width is not None:
        assert max(map(len, lines)) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert not any(a == b == "" for a, b in itertools.pairwise(lines))  # no double blank lines
    assert "capture.pcap" in lines[0]


@pytest.mark.parametrize("width", WIDTHS)
def test_ascii_only_where_there_is_no_utf8(screen: Any, scene: Analysis, width: int | None) -> None:
    assert report(screen, scene, width, encoding="ascii").text.isascii()


def test_no_escape_codes_without_colour(screen: Any, scene: Analysis) -> None:
    assert "\x1b" not in report(screen, scene, None).text
    assert "\x1b" not in report(screen, scene, 80).text


def test_colour_changes_nothing_but_colour(screen: Any, scene: Analysis) -> None:
    plain, coloured = report(screen, scene, 120).lines, report(screen, scene, 120, color=True).text
    assert "\x1b[" in coloured
    assert [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()] == plain


def test_one_clean_connection(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.clean_close(), 120).lines
    assert lines[0] == "capture.pcap  pcap, Ethernet, 5 frames, 5 CM messages, 2026-02-11 10:00:01 UTC + 5.2 s"
    assert " ".join(lines[2].split()) == "id active → passive service outcome history opened set-up duration findings"
    assert lines[3] == "─" * len(lines[2])
    assert lines[4] == (
        " 1  10.77.0.2:41234 → 10.77.0.1:4420  NVMe/RDMA 4420  closed   QpUDe    10:00:01.000  31.9 ms     5.2 s"
    )
    assert lines[1] == lines[5] == ""
    assert lines[6:] == ["✓ 1 connection, closed, nothing to report"]


def test_narrow_pages_put_the_ends_on_two_lines_and_keep_what_matters(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.clean_close(), 80).lines
    assert [" ".join(line.split()) for line in lines[3:7] if "─" not in line] == [
        "id active → passive service outcome history duration findings",
        "1 10.77.0.2:41234 NVMe/RDMA 4420 closed QpUDe 5.2 s",
        "→ 10.77.0.1:4420",
    ]


def test_a_long_history_is_cut_before_a_column_goes(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.unanswered_REQs(), 90).lines
    assert any("Q^Q^Q^Q^" in line and "…" in line and line.endswith("H18") for line in lines)
    assert any("duration" in line for line in lines)


def test_a_pipe_cuts_nothing(screen: Any, records: SimpleNamespace) -> None:
    analysis = records.unanswered_REQs()
    lines = report(screen, analysis, None).lines
    assert any("Q" + "^Q" * 15 in line for line in lines)
    assert any("10:00:01.000" in line for line in lines)
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_stale_connection(screen: Any, records: SimpleNamespace, width: int | None) -> None:
    lines = report(screen, records.stale_S02(), width).lines
    words = squeezed(lines)
    assert "warning S02 stale-refused connection 1 (with 2), frames 7, 8" in words
    assert "numbers age 65.9 s, QPN 0x000011, refused at 2026-02-11 10:01:06.900086 UTC" in words
    assert "advice The peer rebooted or was reset without a DREQ;" in words
    assert "info X03 reboot (probable) connection 2, frame 7" in words
    assert "REJ 10 stale connection by the passive side, frame 8" in words
    assert "✗ 1 of 2 connections was stale, 1 rejected; 1 warning and 1 info (S02)" in words
    rows = [line for line in lines if re.match(r" [12]  10\.77", line)]
    assert [line.split()[-1] for line in rows] == ["S02", "X03"]
    assert rows[1].split()[-2] == "S02"
    assert words.index("S02 stale-refused") < words.index("X03 reboot")


def test_the_policy_is_named_where_it_matters(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(report(screen, records.timewait_reuse(), 100).lines)
    assert words.count("policy judged by the relaxed reading") == 1  # S05, not T01
    assert "1 error and 1 info under the relaxed policy (T01)" in words


def test_rejections_say_why(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(report(screen, records.no_listener(), 80).lines)
    assert "rejected 8" in words
    assert "REJ 8 invalid service ID by the passive side, frame 2: nobody listens for RDMA TCP 9999" in words
    assert "✗ 1 connection, rejected" in words


def test_srp_gives_its_own_reason(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(report(screen, records.SRP_reject(), 120).lines)
    assert "REJ 28 consumer reject by the passive side, frame 2" in words
    assert "RDMA channel limit reached for this initiator" in words


def test_twenty_connections_are_all_listed(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.crowd(20, 2), 80).lines
    assert [int(line.split()[0]) for line in lines if re.match(r" ?\d+  10\.", line)] == list(range(1, 21))
    assert lines[-2] == "✗ 2 of 20 connections timed out, 18 closed; 2 warnings (H18)"


def test_many_are_summarised_with_the_problems_first(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.crowd(500, 60), 80).lines
    words = squeezed(lines)
    assert re.search(r"timed out +60 +12\.0 %", words)
    assert re.search(r"closed +440 +88\.0 %", words)
    assert re.search(r"NVMe/RDMA 4420 +500 +100\.0 %", words)
    assert re.search(r"10\.77\.0\.3 → 10\.77\.0\.1 +167 +33\.4 %", words)
    assert re.search(r"H18 req-exhausted +60", words)
    (row,) = [line for line in lines if re.match(r" *\d+-\d+  3 clients", line)]  # a group, see test_attempts.py
    assert row.split()[0] == "441-500"
    assert "60 of 500 connections shown, problems first: --all lists every one" in words
    assert sum("warning  H18" in line for line in lines) == 1
    assert "59 more attempts alike: connections 442-500" in words
    assert len(lines) < 60


def test_many_problems_that_are_not_alike_are_cut_off(screen: Any, records: SimpleNamespace) -> None:
    analysis = records.crowd(500, 60)
    for number, conn in enumerate(analysis.connections[-60:]):
        conn.service_id += number
    lines = report(screen, analysis, 80).lines
    words = squeezed(lines)
    rows = [line for line in lines if re.match(r" *\d+  10\.", line)]
    assert len(rows) == CAP
    assert all("timed out" in row for row in rows)
    assert "40 of 500 connections shown, problems first: --all lists every one" in words
    assert sum("warning  H18" in line for line in lines) == 3 + 1  # three in full, the others in one line
    assert "57 more of req-exhausted, connections 444-500" in words
    assert len(lines) < 100


def test_all_means_all(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.crowd(500, 60), 80, everything=True).lines
    assert len([line for line in lines if re.match(r" *\d+  10\.", line)]) == 500
    assert sum("warning  H18" in line for line in lines) == 60


def test_many_clean_connections(screen: Any, records: SimpleNamespace) -> None:
    lines = report(screen, records.crowd(500), 80).lines
    assert "Every connection ended cleanly and without a warning; --all lists them." in lines
    assert lines[-1] == "✓ 500 connections, all closed, nothing to report"


def test_fifty_thousand_connections_stay_short(screen: Any, records: SimpleNamespace) -> None:
    first = records.crowd(1).connections[0]
    analysis = records.analysis(first)
    analysis.connections = analysis.connections * 50_000
    lines = report(screen, analysis, 80).lines
    assert len(lines) < 30
    assert lines[-1] == "✓ 50,000 connections, all closed, nothing to report"


def test_info_findings_of_one_code_are_folded(screen: Any, records: SimpleNamespace) -> None:
    found = tuple(records.finding("X08", number, (number,), severity="info") for number in range(1, 8))
    words = squeezed(report(screen, records.analysis(*records.crowd(7).connections, findings=found), 100).lines)
    assert words.count("The sentence of X08.") == 3
    assert words.count("The advice of X08.") == 1
    assert "X08 4 more of some-finding, connections 4-7" in words
    assert words.endswith(
        "✓ 7 connections, all closed; 7 info ibcmtool explain X08 says more; "
        "timeline has ladders and Wireshark filters."
    )


def test_warnings_are_never_folded_in_a_short_report(screen: Any, records: SimpleNamespace) -> None:
    found = tuple(records.finding("R07", number, (number,)) for number in range(1, 8))
    words = squeezed(report(screen, records.analysis(*records.crowd(7).connections, findings=found), 100).lines)
    assert words.count("The sentence of R07.") == 7


def test_no_cm_messages(screen: Any, records: SimpleNamespace) -> None:
    words = squeezed(report(screen, records.empty(), 80).lines)
    assert "0 CM messages" in words
    assert "No CM messages." in words
    assert "the capture starts after the connections were made" in words
    assert "NIC hides RoCE traffic" in words


def test_damage_stands_below_its_input(screen: Any, records: SimpleNamespace) -> None:
    analysis = records.clean_close()
    analysis.inputs[0].truncated = True
    analysis.inputs[0].damage = "record of frame 6 at byte 2,130: 330 bytes announced, 12 there"
    analysis.inputs[0].cut_frames = 2
    lines = report(screen, analysis, 120).lines
    assert lines[1] == "    ✗ record of frame 6 at byte 2,130: 330 bytes announced, 12 there"
    assert lines[2] == "    ✗ 2 frames cut short by the snap length"


def test_several_inputs_are_numbered_and_frames_name_theirs(screen: Any, records: SimpleNamespace) -> None:
    analysis = records.stale_S02()
    other = records.analysis(path="other side.pcap").inputs[0]
    analysis.inputs.append(other)
    lines = report(screen, analysis, 120).lines
    assert lines[0].startswith("[1] capture.pcap")
    assert lines[1].startswith("[2] other side.pcap")
    assert "connection 1 (with 2), frames 1:7, 1:8" in squeezed(lines)


def test_hostile_names_cannot_reach_the_terminal(screen: Any, records: SimpleNamespace) -> None:
    analysis = records.clean_close()
    analysis.inputs[0].path = "evil\x1b[2J\n.pcap"
    analysis.findings.append(records.finding("S02", 1, (1,), message="bad \x1b]0;title\x07 words"))
    assert "\x1b" not in report(screen, analysis, 80).text
    assert "\x1b]0" not in report(screen, analysis, 80, color=True).text


def test_numbers_and_lists_of_evidence(screen: Any, records: SimpleNamespace) -> None:
    evidence = {
        "gaps": [Duration(6_390_000_000), Duration(117_000_000)],
        "starting_psn": Psn(0x3A5F12),
        "local_comm_id": CommId(0xA0F70798),
        "ca_guid": Guid(0x505400FFFEAA0002),
        "sends": 16,
        "allowed": None,
        "answered": False,
    }
    found = (records.finding("R01", 1, (1,), evidence=evidence),)
    words = squeezed(report(screen, records.analysis(*records.crowd(1).connections, findings=found), 200).lines)
    assert (
        "numbers gaps 6.39 s 117 ms, starting PSN 0x3a5f12, local comm id 0xa0f70798, CA GUID 5054:00ff:feaa:0002, "
        "sends 16, answered no"
    ) in words
