"""`analyze`: exit codes, formats, what the filters leave. What the reports look like is the golden runs' business."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("captures/rping.pcap",), 0),
        (("captures/timewait_qpn_reuse.pcap",), 1),  # T01 is an error
        (("captures/timewait_qpn_reuse.pcap", "--fail-on", "never"), 0),
        (("captures/timewait_qpn_reuse.pcap", "--min-severity", "error", "--fail-on", "info"), 1),
        (("captures/timewait_qpn_reuse.pcap", "--connection", "3"), 0),  # the one without a finding
        (("captures/nvme_host_crash_stale.pcap",), 0),  # S02 is a warning
        (("captures/nvme_host_crash_stale.pcap", "--fail-on", "warning"), 1),
        (("captures/nvme_host_crash_stale.pcap", "--fail-on", "warning", "--min-severity", "error"), 1),
        (("captures/iser_login_logout.pcap", "--fail-on", "warning"), 0),
        (("captures/iser_login_logout.pcap", "--fail-on", "info"), 1),  # X08
        (("bad/cut.pcap",), 2),
        (("bad/cut.pcap", "--fail-on", "never"), 2),
        (("bad/no_cm.pcap",), 0),
        (("bad/nothing.pcap",), 2),
    ],
)
@pytest.mark.parametrize("output_format", ["text", "json", "jsonl"])
def test_exit_code(arguments: tuple[str, ...], code: int, output_format: str, run: Run, at_workplace: Path) -> None:
    assert run("analyze", *arguments, "--format", output_format).code == code


def test_policy_decides_how_bad_a_req_in_timewait_is(run: Run, at_workplace: Path) -> None:
    severities = {}
    for policy in ("relaxed", "strict"):
        result = run("analyze", "captures/timewait_qpn_reuse.pcap", "--format", "json", "--policy", policy)
        severities[policy] = {one["code"]: one["severity"] for one in json.loads(result.out)["findings"]}
    assert severities == {
        "relaxed": {"T01": "error", "F16": "warning", "S05": "info"},
        "strict": {"T01": "error", "F16": "warning", "S05": "error"},
    }


@pytest.mark.parametrize("name", ["nvme_host_crash_stale", "ucmatose_10conn", "stale_req_dup_dreq_edge", "udaddy_sidr"])
def test_json_lines_are_the_objects_of_the_json_report(name: str, run: Run, at_workplace: Path) -> None:
    whole = json.loads(run("analyze", f"captures/{name}.pcap", "--format", "json").out)
    lines = [json.loads(line) for line in run("analyze", f"captures/{name}.pcap", "--format", "jsonl").out.splitlines()]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_kind.setdefault(line.pop("kind"), []).append(line)
    assert set(by_kind) <= {"input", "connection", "finding", "summary"}
    assert by_kind["input"] == whole["inputs"]
    assert by_kind["summary"] == [whole["summary"]]
    # Alone in a stream, a connection cannot know which others its display filter has to keep out.
    for one in [*by_kind["connection"], *whole["connections"]]:
        del one["display_filter"]
    assert sorted(by_kind["connection"], key=lambda one: one["id"]) == whole["connections"]
    assert sorted(map(json.dumps, by_kind.get("finding", []))) == sorted(map(json.dumps, whole["findings"]))


@pytest.mark.parametrize(
    ("choice", "connections", "codes"),
    [
        (("--connection", "3"), [3], {"S02", "X03"}),
        (("--connection", "1"), [1], {"S02"}),  # the connection that the refused REQ proved stale
        (("-c", "1", "-c", "4"), [1, 4], {"S02"}),
        (("--peer", "10.77.0.2:40513"), [3], {"S02", "X03"}),
        (("--peer", "5054:00ff:feaa:0002"), [1, 2, 3, 4], {"S02", "X03"}),
        (("--peer", "0x505400fffeaa0002"), [1, 2, 3, 4], {"S02", "X03"}),
        (("--peer", "::FFFF:10.77.0.1"), [1, 2, 3, 4], {"S02", "X03"}),
        (("--peer", "10.77.0.9"), [], set()),
        (("--service", "nvme"), [1, 2, 3, 4], {"S02", "X03"}),
        (("--service", "0x1061144"), [1, 2, 3, 4], {"S02", "X03"}),
        (("--service", "9999"), [], set()),
        (("--qpn", "0x12"), [2, 4], {"S02"}),
        (("--qpn", "17"), [1, 3], {"S02", "X03"}),
        (("--outcome", "rejected"), [3, 4], {"S02", "X03"}),
        (("--outcome", "stale", "--qpn", "0x11"), [1], {"S02"}),
        (("--code", "x03"), [3], {"S02", "X03"}),
        (("--code", "T01"), [], set()),
    ],
)
@pytest.mark.parametrize("output_format", ["json", "jsonl"])
def test_filters(
    choice: tuple[str, ...],
    connections: list[int],
    codes: set[str],
    output_format: str,
    run: Run,
    at_workplace: Path,
) -> None:
    result = run("analyze", "captures/nvme_host_crash_stale.pcap", "--format", output_format, *choice)
    if output_format == "json":
        analysis = json.loads(result.out)
        found = analysis["connections"], analysis["findings"]
    else:
        lines = [json.loads(line) for line in result.out.splitlines()]
        found = tuple([line for line in lines if line["kind"] == kind] for kind in ("connection", "finding"))
    assert sorted(one["id"] for one in found[0]) == connections
    assert {one["code"] for one in found[1]} == codes


def test_capture_wide_finding_passes_only_by_its_own_code(run: Run, at_workplace: Path) -> None:
    everything = run("analyze", "bad/cut.pcap", "--format", "jsonl").out
    by_code = run("analyze", "bad/cut.pcap", "--format", "jsonl", "--code", "C01").out
    by_connection = run("analyze", "bad/cut.pcap", "--format", "jsonl", "--connection", "1").out
    assert ['"C01"' in output for output in (everything, by_code, by_connection)] == [True, True, False]
    assert ['"kind": "connection"' in output for output in (everything, by_code, by_connection)] == [True, False, True]


def test_times_are_utc_unless_asked(run: Run, at_workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    try:
        assert "12:58:44.605436" in run("decode", "captures/rping.pcap").out
        assert "15:58:44.605436" in run("decode", "captures/rping.pcap", "--local").out
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_timewait_model_can_be_chosen(run: Run, at_workplace: Path) -> None:
    """LAT 19, TAD 15; on the active side the QPN came back after 117 ms, more than that of no model."""
    ends = {}
    for model in ("auto", "linux-2.6", "illumos"):
        arguments = ("captures/timewait_qpn_reuse.pcap", "--timewait-model", model, "--format", "json")
        result = json.loads(run("analyze", *arguments).out)
        first = result["connections"][0]
        ends[model] = tuple(
            round(float(first[side]["timewait_until"]) - float(first["closed"]), 2) for side in ("active", "passive")
        )
        assert "T01" in {finding["code"] for finding in result["findings"]}
    assert ends == {"auto": (2.05, 2.05), "linux-2.6": (2.05, 2.05), "illumos": (1.21, 2.15)}
    assert "(illumos, 1.21 s)" in run("timeline", "captures/timewait_qpn_reuse.pcap", "--timewait-model=illumos").out
