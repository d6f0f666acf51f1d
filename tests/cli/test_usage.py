"""What a wrong command line gets: exit code 2 and a word about what is wrong, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibcmtool import __version__, model

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("analyse", "captures/rping.pcap"), "No such command"),
        (("analyze",), "Missing argument"),
        (("analyze", "captures/rping.pcap", "--frobnicate"), "No such option"),
        (("analyze", "captures/rping.pcap", "--policy", "lax"), "'lax'"),
        (("analyze", "captures/rping.pcap", "--format", "xml"), "'xml'"),
        (("analyze", "captures/rping.pcap", "--outcome", "broken"), "'broken' is not one of"),
        (("analyze", "captures/rping.pcap", "--qpn", "0xzz"), "'0xzz' is no number"),
        (("analyze", "captures/rping.pcap", "--connection", "first"), "--connection"),
        (("analyze", "-", "-"), "standard input (-) can be named only once"),
        (("decode", "captures/rping.pcap", "--hex"), "it needs --frame N"),
        (("decode", "captures/rping.pcap", "--frame", "0"), "--frame"),
        (("explain",), "Missing argument"),
    ],
)
def test_usage_error(arguments: tuple[str, ...], says: str, run: Run, at_workplace: Path) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert says in " ".join(result.err.replace("│", " ").split())
    assert result.out == ""


@pytest.mark.parametrize("command", ["analyze", "timeline", "decode", "explain", "verify"])
def test_help(command: str, run: Run) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert "Usage: ibcmtool" in result.out
    assert "Exit code" in result.out


def test_version(run: Run) -> None:
    kind = "pure Python" if Path(model.__file__).suffix == ".py" else "compiled"
    assert run("--version").out == f"ibcmtool {__version__} ({kind})\n"


@pytest.mark.parametrize("command", ["analyze", "timeline", "decode"])
@pytest.mark.parametrize(
    "name", ["nothing.pcap", "directory", "empty.pcap", "text.pcap", "zeros.pcap", "wlan.pcap", "header_cut.pcap"]
)
def test_input_that_is_no_capture_gets_one_line(command: str, name: str, run: Run, at_workplace: Path) -> None:
    result = run(command, f"bad/{name}")
    assert result.code == 2
    assert result.out == ""
    [line] = result.err.splitlines()
    assert line.startswith(f"ibcmtool: bad/{name}: ")
    assert len(line) > len(f"ibcmtool: bad/{name}: ")


@pytest.mark.parametrize("output_format", ["text", "json", "jsonl"])
def test_damage_gets_one_line_after_the_result(output_format: str, run: Run, at_workplace: Path) -> None:
    result = run("analyze", "bad/cut.pcap", "--format", output_format, "--quiet")
    assert result.code == 2
    assert "Qp" in result.out
    [line] = result.err.splitlines()
    assert line.startswith("ibcmtool: bad/cut.pcap: ")
    assert "offset 1000" in line


def test_capture_cut_at_every_byte(run: Run, at_workplace: Path, tmp_path: Path) -> None:
    """A REQ and the REJ that answers it: at whatever byte the file ends, no traceback, and at most one line."""
    whole = (at_workplace / "captures" / "no_listener_rej.pcap").read_bytes()
    cut = tmp_path / "cut.pcap"
    for length in range(len(whole) + 1):
        cut.write_bytes(whole[:length])
        result = run("analyze", cut, "--format", "jsonl")
        at_record_border = length in (24, 24 + 16 + 322, len(whole))
        assert (length, result.code, len(result.err.splitlines())) == (
            length,
            *((0, 0) if at_record_border else (2, 1)),
        )
