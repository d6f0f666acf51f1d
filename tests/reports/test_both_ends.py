"""What reports say of several inputs: how much they share, when none was recording, and what was lost between them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import sinks
from engine.test_clocks import shifted
from rich.console import Console

from ibcmtool.analysis import Analysis, InputInfo
from ibcmtool.engine.files import analyze
from ibcmtool.reports import head
from ibcmtool.reports.page import Page

SECOND = 1_000_000_000
T0 = 1_770_804_001 * SECOND  # 2026-02-11 10:00:01 UTC


def printed(write: object, *arguments: object) -> str:
    out = io.StringIO()
    console = Console(file=out, width=10_000, highlight=False, emoji=False, markup=False, color_system=None)
    write(console, *arguments)  # type: ignore[operator]
    return out.getvalue()


def head_of(*inputs: InputInfo) -> list[str]:
    def write(console: Console) -> None:
        page = Page(console)
        for line in head.lines(page, list(inputs)):
            page.write(line)
        page.flush()

    return printed(write).splitlines()


def info(path: str, first: int, last: int, **kind: object) -> InputInfo:
    return InputInfo(path, "pcap", [1], 9, 5, T0 + first * SECOND, T0 + last * SECOND, **kind)  # type: ignore[arg-type]


def test_how_much_the_inputs_share() -> None:
    one, two = head_of(info("a.pcap", 0, 9), info("b.pcap", 0, 9, shared_packets=5))
    assert "in an input before" not in one
    assert two.endswith("2026-02-11 10:00:01 UTC + 9 s, 5 packets also in an input before")


def test_an_offset_that_was_given() -> None:
    (line,) = head_of(info("a.pcap", 0, 9, clock_offset=-1_000_000_001, clock_given=True))
    assert line.endswith("2026-02-11 10:00:01 UTC + 9 s, clock 1.000000001 s behind, as given")


def test_a_hole_between_inputs() -> None:
    lines = head_of(info("b.pcap", 60, 70), info("a.pcap", 0, 9), info("c.pcap", 70, 80))
    assert lines[3].endswith("no frame in any input for 51 s from 2026-02-11 10:00:10 UTC on")
    assert len(lines) == 4


def both_ends(captures: Path, tmp_path: Path) -> Analysis:
    """Two REPs never reached the other host, whose clock is 12 s ahead."""
    source = captures / "rep_lost_retransmit.pcap"
    path = shifted(source, tmp_path / "other.pcap", 12, lambda number: number not in (2, 3))
    return analyze([str(source), path])


def test_a_lost_message_is_marked_in_the_ladder(captures: Path, tmp_path: Path) -> None:
    analysis = both_ends(captures, tmp_path)
    (finding,) = [finding for finding in analysis.findings if finding.code == "C05"]
    # The first REP came within 100 ms of the other capture's begin.
    assert finding.frames == ((0, 3),)
    assert "REPs from 10.77.0.1 was seen in" in finding.message

    def write(console: Console) -> None:
        sinks.report("timeline", "text", analysis, console=console)

    lines = printed(write).splitlines()
    (lost,) = [line for line in lines if "lost on the way" in line]
    assert "send 2 of 16, as frame 1:2, lost on the way" in lost
    assert sum("captured again as 2:" in line for line in lines) == 6
    (end,) = [line for line in lines if "the capture ends" in line]
    assert "13:00:34" in end  # by the common clock


def test_evidence_names_inputs_and_frames_as_the_text_does(captures: Path) -> None:
    """In JSON as its other frames: both say which input it is."""
    path = str(captures / "nvme_host_crash_stale.pcap")
    analysis = analyze([path, path])
    text = printed(lambda console: sinks.report("analyze", "text", analysis, console=console))
    found = {finding["code"]: finding for finding in json.loads(sinks.report("analyze", "json", analysis))["findings"]}
    assert found["X05"]["evidence"] | {"psn": 0, "gap": ""} == {
        "files": [0, 1],
        "psn": 0,
        "copy_frame": {"file": 1, "frame": 1},
        "gap": "",
    }
    assert "files [1] [2], PSN 0x000000, copy frame 2:1" in text
    assert "frame 1:1 and again as frame 2:1" in text
    assert found["S02"]["evidence"]["dreq_frame"] == {"file": 0, "frame": 13}
    assert "DREQ frame 1:13" in text
    assert "(frame 1:13)" in found["S02"]["message"]
