"""`analyze --by`: formats, filters and exit codes work as without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
BYS = ("pair", "target", "service")
STALE = "captures/nvme_host_crash_stale.pcap"


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((STALE,), 0),  # S02 is a warning
        ((STALE, "--fail-on", "warning"), 1),
        ((STALE, "--fail-on", "warning", "--min-severity", "error"), 1),
        ((STALE, "--fail-on", "warning", "--outcome", "closed"), 0),
        (("captures/timewait_qpn_reuse.pcap",), 1),
        (("bad/cut.pcap",), 2),
        (("bad/nothing.pcap",), 2),
        (("bad/no_cm.pcap",), 0),
    ],
)
@pytest.mark.parametrize("output_format", ["text", "json", "jsonl"])
def test_exit_code(
    arguments: tuple[str, ...], code: int, by: str, output_format: str, run: Run, at_workplace: Path
) -> None:
    assert run("analyze", *arguments, "--by", by, "--format", output_format).code == code


@pytest.mark.parametrize(
    ("choice", "connections"),
    [
        ((), 4),
        (("--connection", "3"), 1),
        (("--peer", "40513"), 1),
        (("--outcome", "rejected"), 2),
        (("--code", "x03"), 1),
        (("--service", "iser"), 0),
    ],
)
def test_filters(choice: tuple[str, ...], connections: int, run: Run, at_workplace: Path) -> None:
    view = json.loads(run("analyze", STALE, "--by", "pair", "--format", "json", *choice).out)
    assert view["summary"]["connections"] == sum(row["connections"] for row in view["rows"]) == connections


def test_min_severity_hides_findings(run: Run, at_workplace: Path) -> None:
    codes = [
        set(json.loads(run("analyze", STALE, "--by", "pair", "-f", "json", *more).out)["rows"][0]["by_code"])
        for more in ((), ("--min-severity", "warning"))
    ]
    assert codes == [codes[1] | {"X03"}, codes[1]]


@pytest.mark.parametrize("by", BYS)
def test_totals_are_those_of_the_connections(by: str, run: Run, at_workplace: Path) -> None:
    for name in ("cmtime_500conn", "mra_rej_rep_retransmit", "udaddy_sidr", "iser_login_logout"):
        path = f"captures/{name}.pcap"
        view = json.loads(run("analyze", path, "--by", by, "--format", "json").out)
        whole = json.loads(run("analyze", path, "--format", "json").out)
        assert view["summary"]["by_outcome"] == whole["summary"]["by_outcome"]
        requests = [
            message
            for connection in whole["connections"]
            for message in connection["messages"]
            if message["type"] in ("REQ", "SIDR_REQ")
        ]
        assert sum(row["requests"]["sent"] for row in view["rows"]) == len(requests)


def test_both_ends_are_counted_once(run: Run, at_workplace: Path) -> None:
    view = json.loads(run("analyze", STALE, STALE, "--by", "target", "--format", "json").out)
    assert view["summary"]["connections"] == 4


def test_what_it_can_be_by(run: Run, at_workplace: Path) -> None:
    result = run("analyze", STALE, "--by", "host")
    assert result.code == 2
    assert "pair" in result.err
