"""`ibcmtool sources` and `ibcmtool counters`: what a host has for `live`, and what its kernel counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracing import TracingHost

from ibcmtool.sources.live.counters import all_counters
from ibcmtool.sources.live.source import Offer

Run = Callable[..., Any]

OFFERS = [
    Offer("kernel", True, "every CM message", "ibcmtool live kernel"),
    Offer("umad:mlx5_0:1", False, "ib_cm owns the CM messages of this port", "use ibcmtool live kernel"),
    Offer("umad:mlx5_1:1", False, "an iWARP device has no MADs", ""),
]


def test_sources(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibcmtool.cli.sources.offers", lambda: OFFERS)
    result = run("sources")
    assert result.code == 0
    assert result.out.splitlines() == [
        "yes  kernel         every CM message",
        "                    ibcmtool live kernel",
        "no   umad:mlx5_0:1  ib_cm owns the CM messages of this port",
        "                    use ibcmtool live kernel",
        "no   umad:mlx5_1:1  an iWARP device has no MADs",
    ]


def test_sources_as_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibcmtool.cli.sources.offers", lambda: OFFERS)
    told = json.loads(run("sources", "--format", "json").out)
    assert told["schema"] == "ibcmtool.sources/1"
    assert told["sources"][0] == {
        "source": "kernel",
        "available": True,
        "reason": "every CM message",
        "command": "ibcmtool live kernel",
    }
    assert [one["available"] for one in told["sources"]] == [True, False, False]


def test_sources_of_this_machine(run: Run) -> None:
    """Whatever it is."""
    result = run("sources")
    assert result.code == 0
    assert "ibcmtool live follow:FILE" in result.out
    assert result.err == ""


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A port of a host whose counters are shown."""
    machine = TracingHost(tmp_path, monkeypatch)
    found = machine.port("rxe0:1", "Ethernet")
    (found / "cm_rx_msgs/req").write_text("1234\n")
    (found / "cm_tx_retries/rep").write_text("2\n")
    monkeypatch.setattr("ibcmtool.cli.counters.all_counters", lambda: all_counters(machine.root))
    return found


def test_counters(run: Run, port: Path) -> None:
    result = run("counters")
    assert result.code == 0
    head, *rows = result.out.splitlines()
    assert head.split() == ["rxe0:1", "received", "of", "them", "again", "sent", "of", "them", "again"]
    assert [row.split() for row in rows][:4] == [
        ["REQ", "1,234", "0", "0", "0"],
        ["MRA", "0", "0", "0", "0"],
        ["REJ", "0", "0", "0", "0"],
        ["REP", "0", "0", "0", "2"],
    ]
    assert len(rows) == 11


def test_counters_as_json(run: Run, port: Path) -> None:
    [told] = json.loads(run("counters", "-f", "json").out)["ports"]
    assert (told["device"], told["port"], told["rx_msgs"]["REQ"], told["tx_retries"]["REP"]) == ("rxe0", 1, 1234, 2)


def watched(port: Path, monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    """Each wait, two more REQs come, and a third wait is interrupted."""

    def sleep(wait: float) -> None:
        seconds.append(wait)
        if len(seconds) == 3:
            raise KeyboardInterrupt
        if len(seconds) == 1:
            (port / "cm_rx_msgs/req").write_text("1236\n")
            (port / "cm_rx_duplicates/req").write_text("1\n")

    monkeypatch.setattr(time, "sleep", sleep)


def test_watching_counters(run: Run, port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    watched(port, monkeypatch, waited)
    result = run("counters", "--watch", "5")
    assert waited == [5.0, 5.0, 5.0]
    assert result.code == 130
    first, second = result.out.splitlines()
    assert first[10:] == "rxe0:1  received 2 REQ; of them again 1 REQ"
    assert second[10:] == "rxe0:1  nothing"


def test_watching_counters_as_json(run: Run, port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    watched(port, monkeypatch, waited)
    first, second = (json.loads(line) for line in run("counters", "-w", "-f", "json").out.splitlines())
    assert waited == [1.0] * 3
    assert first["ports"][0]["rx_msgs"]["REQ"] == 2
    assert second["ports"][0]["rx_msgs"]["REQ"] == 0


def test_a_host_that_counts_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibcmtool.cli.counters.all_counters", dict)
    result = run("counters")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert "modprobe ib_cm" in result.err


def test_seconds_without_watch(run: Run, port: Path) -> None:
    result = run("counters", "5")
    assert result.code == 2
    assert "SECONDS goes with --watch" in result.err
