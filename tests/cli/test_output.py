"""Where output goes and how it is dressed: colour, pipes, full disks, standard input, interrupts."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibcmtool.cli.output import make_console

Run = Callable[..., Any]
ESCAPE = "\x1b["


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ibcmtool", *arguments]


@pytest.fixture
def process_environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "PYTHONPATH": str(root), "TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environment", "choice", "colored"),
    [
        ({}, "auto", False),
        ({}, "always", True),
        ({}, "never", False),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "1"}, "never", False),
        ({"FORCE_COLOR": ""}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", False),
    ],
)
def test_colour_in_a_pipe(
    environment: dict[str, str],
    choice: str,
    colored: bool,
    run: Run,
    at_workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for arguments in (("analyze", "captures/no_listener_rej.pcap"), ("explain", "S02"), ("explain", "all")):
        assert (ESCAPE in run(*arguments, "--color", choice).out) is colored


@pytest.mark.parametrize(
    ("environment", "choice", "colored"),
    [
        ({}, "auto", True),
        ({}, "never", False),
        ({"NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": ""}, "auto", True),
        ({"TERM": "dumb"}, "always", True),
    ],
)
def test_colour_on_a_terminal(
    environment: dict[str, str], choice: str, colored: bool, root: Path, process_environment: dict[str, str]
) -> None:
    master, terminal = pty.openpty()
    arguments = command("explain", "rej:8", "--color", choice)
    with subprocess.Popen(arguments, stdout=terminal, cwd=root, env={**process_environment, **environment}) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # how Linux tells the end of a pseudo terminal
                break
            if not part:
                break
            shown += part
    os.close(master)
    assert process.returncode == 0
    assert b"invalid service ID" in shown
    assert (ESCAPE.encode() in shown) is colored


def test_a_pipe_gets_whole_lines(run: Run, at_workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No width, so nothing is folded or cut: each connection and each sentence is a line that grep finds."""
    lines = run("analyze", "captures/nvme_host_crash_stale.pcap").out.splitlines()
    assert len([line for line in lines if "QpUdE" in line and "NVMe/RDMA 4420" in line]) == 2
    assert max(map(len, lines)) > 200
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert make_console().width > 1000 or sys.__stdout__.isatty()


def test_closed_pipe_ends_quietly(root: Path, process_environment: dict[str, str]) -> None:
    arguments = command("analyze", "captures/linux-rxe/cmtime_500conn.pcap", "--format", "json")
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root, env=process_environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"{\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


def test_full_disk(root: Path, process_environment: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("analyze", "captures/linux-rxe/rping.pcap"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env=process_environment,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "ibcmtool: writing failed: No space left on device\n"


@pytest.mark.parametrize("name", ["analyze", "timeline", "decode"])
def test_standard_input(name: str, root: Path, process_environment: dict[str, str]) -> None:
    data = (root / "captures" / "linux-rxe" / "rping.pcap").read_bytes()
    done = subprocess.run(
        command(name, "-"), input=data, capture_output=True, cwd=root, env=process_environment, check=False
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"0x000011" in done.stdout or b"QpUDe" in done.stdout


def test_decode_follows_a_live_stream(root: Path, process_environment: dict[str, str]) -> None:
    """Each message of standard input is written when it comes, not when the stream ends."""
    data = (root / "captures" / "linux-rxe" / "no_listener_rej.pcap").read_bytes()
    with subprocess.Popen(
        command("decode", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, env=process_environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        process.stdin.flush()
        assert b"REQ" in process.stdout.readline()
        assert b"reason 8" in process.stdout.readline()
        process.stdin.close()
    assert process.returncode == 0


def test_interrupt(root: Path, process_environment: dict[str, str]) -> None:
    data = (root / "captures" / "linux-rxe" / "rping.pcap").read_bytes()
    with subprocess.Popen(
        command("decode", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
        env=process_environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(data)
        process.stdin.flush()
        process.stdout.readline()  # it is at work now
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


def test_completion_of_topics_and_commands(root: Path, process_environment: dict[str, str]) -> None:
    def completed(*words: str) -> list[str]:
        asked = {
            "_IBCMTOOL_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": f"{len(words) - 1}",
        }
        done = subprocess.run(
            command(), capture_output=True, text=True, cwd=root, env={**process_environment, **asked}, check=False
        )
        return done.stdout.split()

    assert completed("ibcmtool", "ana") == ["analyze"]
    assert "S02" in completed("ibcmtool", "explain", "S0")
    assert completed("ibcmtool", "analyze", "--outcome", "half") == ["half_open"]


class TestProgress:
    """The progress line, with a clock of our own."""

    @pytest.fixture
    def now(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        now = [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        return now

    def test_nothing_without_a_terminal(self) -> None:
        from ibcmtool.cli.progress import reading

        with reading(quiet=False) as progress:
            assert progress is None

    def test_appears_after_a_second_and_goes_away(
        self, now: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from ibcmtool.cli.progress import reading

        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with reading(quiet=True) as progress:
            assert progress is None
        with reading(quiet=False) as progress:
            assert progress is not None
            progress(4096)
            now[0] = 0.9
            progress(8192)
            assert capsys.readouterr().err == ""
            now[0] = 1.1
            progress(12288)
            progress(1_000_000)
        assert "frames read" in capsys.readouterr().err
