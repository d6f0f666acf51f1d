"""--redact: nothing of the hosts is left in any output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
CAPTURES = Path(__file__).resolve().parents[2] / "captures" / "linux-rxe"
NAMES = sorted(path.name for path in CAPTURES.iterdir())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", [["analyze", "--all"], ["analyze", "-f", "json"], ["timeline"], ["decode"]])
def test_nothing_of_the_hosts_is_left(name: str, command: list[str], run: Run) -> None:
    """The lab's addresses, GUIDs and MAC addresses."""
    out = run(*command, CAPTURES / name, "--redact").out
    assert out
    assert not re.findall(r"10\.77\.0\.\d|fd77:|5054:00ff|52:54:00:aa|005056|2:4d0a|a4d000", out, re.IGNORECASE)


def test_one_frame_in_full(run: Run) -> None:
    """Every layer, with the bytes: also the private data, where the NVMe numbers stay."""
    out = run("decode", CAPTURES / "nvme_connect_disconnect.pcap", "--frame", 1, "--hex", "--redact").out
    assert "192.0.2.1" in out
    assert "hsqsize" in out
    assert not re.findall(r"10\.77\.0|0a4d|5054", out.lower())


def test_live_and_what_it_writes(run: Run, tmp_path: Path) -> None:
    source, into = f"replay:{CAPTURES / 'nvme_host_crash_stale.pcap'}@0", tmp_path / "out.pcapng"
    out = run("live", source, "--redact", "--write", into).out
    assert "192.0.2.1" in out
    assert "10.77.0" not in out
    assert bytes((10, 77, 0)) not in into.read_bytes()
