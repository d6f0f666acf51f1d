"""`ibcmtool live` as a user runs it: lines, JSON lines, limits, signals, pipes that close, commands that are run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import pytest

Run = Callable[..., Any]
PATIENCE = 20


@pytest.fixture
def live(root: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `ibcmtool live` with these arguments; whatever still runs at the end is ended."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    environment = {**kept, "PYTHONPATH": str(root)}
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **given: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ibcmtool", "live", *map(str, arguments)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **{"env": environment, **pipes, **given})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def lines_until(stream: IO[str] | None, sign: str) -> list[str]:
    """Lines up to the first one with this in it; they must come while the program runs."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line.rstrip("\n"))
        if sign in line:
            return lines
    raise AssertionError(f"no {sign!r} in {lines}")


def test_a_line_for_each_event(run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:captures/nvme_host_crash_stale.pcap@0")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == (
        "13:04:51.181396  #1     REQ       10.77.0.2:47563 → 10.77.0.1:4420  NVMe/RDMA 4420  "
        "QPN 0x000011, PSN 0xe23620, qid 0, hrqsize 32, hsqsize 31"
    )
    dreq = next(at for at, line in enumerate(lines) if " DREQ " in line)
    assert re.match(r"13:05:57.081711   warning  S02 stale-refused #3: REQ of .* \[frames 7, 8\]$", lines[dreq + 1])
    assert lines[-1] == "  ibcmtool explain S02 says more; timeline has ladders and Wireshark filters."


def test_json_lines(run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:captures/nvme_host_crash_stale.pcap@0", "--format", "jsonl")
    objects = [json.loads(line) for line in result.out.splitlines()]
    kinds = [one["kind"] for one in objects]
    assert kinds.count("event") == 14
    assert kinds.count("connection") == 4
    assert kinds[-2:] == ["input", "summary"]
    assert objects[-1]["by_code"]["S02"] == 2
    first = objects[0]
    assert (first["type"], first["connection"], first["sender"], first["active_state"]) == (
        "REQ",
        1,
        "active",
        "REQ_SENT",
    )
    event, finding = next(
        pair for pair in pairwise(objects) if pair[1].get("code") == "S02"
    )  # at once behind the message that brought it
    assert (event["type"], event["frame"]) == ("DREQ", 9)
    assert finding["connection"] == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 0), (("--fail-on", "warning"), 1), (("--fail-on", "never"), 0), (("--fail-on", "warning", "-c", "1"), 0)],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, run: Run, at_workplace: Path) -> None:
    """Connection 1 is the old one: its warnings are those of connections 3 and 4."""
    assert run("live", "replay:captures/nvme_host_crash_stale.pcap@0", *arguments).code == code


def test_a_damaged_capture(run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:bad/cut.pcap@0")
    assert result.code == 2
    assert re.fullmatch(r"ibcmtool: bad/cut.pcap: cut off at offset 1000: .*\n", result.err)
    assert "RDMA TCP 7174" in result.out  # what could be read is told all the same


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bpftrace",), "bpftrace: is no live source; name one of kernel, umad"),
        (("replay:no/such.pcap",), "no/such.pcap: no such file"),
        (("replay:bad/text.pcap@0",), "bad/text.pcap"),
    ],
)
def test_refusals_are_one_line(arguments: tuple[str, ...], says: str, run: Run, at_workplace: Path) -> None:
    result = run("live", *arguments)
    assert result.code == 2
    assert says in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--duration=soon", "--rotate=big", "--keep=x"])
def test_options_that_make_no_sense(option: str, run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:captures/rping.pcap@0", option)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_a_number_of_messages(run: Run, at_workplace: Path) -> None:
    """The limit is looked at between batches; the replay at its own pace delivers them one by one."""
    result = run("live", "replay:captures/rping.pcap", "--count", 3, "--format", "jsonl")
    assert sum('"kind": "event"' in line for line in result.out.splitlines()) == 3


def test_a_filter(run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:captures/nvme_host_crash_stale.pcap@0", "--format", "jsonl", "--connection", 3)
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert {one["connection"] for one in objects if one["kind"] == "event"} == {3}
    assert [one["id"] for one in objects if one["kind"] == "connection"] == [3]


def test_quiet_tells_only_the_end(run: Run, at_workplace: Path) -> None:
    result = run("live", "replay:captures/rping.pcap@0", "--quiet")
    assert result.out.startswith("replay:captures/rping.pcap@0  live")


def test_a_command_for_each_finding(run: Run, at_workplace: Path, tmp_path: Path) -> None:
    into = tmp_path / "told"
    command = f'echo "$IBCMTOOL_SEVERITY $IBCMTOOL_CODE $IBCMTOOL_CONNECTION $(cat)" >> {into}'
    run("live", "replay:captures/nvme_host_crash_stale.pcap@0", "--exec", command, "--fail-on", "warning")
    told = sorted(into.read_text().splitlines())
    assert [line.split()[:3] for line in told] == [["warning", "S02", "3"], ["warning", "S02", "4"]]
    assert json.loads(told[0].split(maxsplit=3)[3])["frames"] == [{"file": 0, "frame": 7}, {"file": 0, "frame": 8}]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_brings_the_report(
    number: signal.Signals, live: Callable[..., subprocess.Popen[str]], captures: Path, tmp_path: Path
) -> None:
    into = tmp_path / "out.pcapng"
    process = live(f"replay:{captures / 'nvme_host_crash_stale.pcap'}@1", "--write", into)
    lines_until(process.stdout, "#2     RTU")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "2 connections" in out
    assert into.stat().st_size > 6 * 300


def test_a_reader_that_goes_away(live: Callable[..., subprocess.Popen[str]], captures: Path) -> None:
    process = live(f"replay:{captures / 'rping.pcap'}@0.02", "--lines")
    lines_until(process.stdout, "REQ")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(PATIENCE) != 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_a_pipe_that_stays_open_is_read_at_once(live: Callable[..., subprocess.Popen[str]], captures: Path) -> None:
    """The first REQ is told while the writer still has the rest."""
    reading, writing = os.pipe()
    process = live("-", stdin=reading)
    os.close(reading)
    sample = (captures / "rping.pcap").read_bytes()
    os.write(writing, sample[: 24 + 16 + 322])
    lines = lines_until(process.stdout, "REQ")
    assert len(lines) == 1
    os.write(writing, sample[24 + 16 + 322 :])
    lines_until(process.stdout, "DREP")
    os.close(writing)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "closed" in out


def test_a_frame_from_the_future_is_told_at_once_and_the_others_go_on(
    live: Callable[..., subprocess.Popen[str]], captures: Path
) -> None:
    reading, writing = os.pipe()
    process = live("-", "--lines", stdin=reading)
    os.close(reading)
    sample = bytearray((captures / "rping.pcap").read_bytes())
    rep = 24 + 16 + 322  # where its record begins, with its seconds
    sample[rep : rep + 4] = (int.from_bytes(sample[rep : rep + 4], "little") + 3600).to_bytes(4, "little")
    os.write(writing, sample[: rep + 16 + 322])
    lines_until(process.stderr, "a packet is dated 1 h ahead of the one before")
    os.write(writing, sample[rep + 16 + 322 :])
    lines_until(process.stderr, "message 2 is dated 1 h ahead of the one before, and taken as of that")
    os.close(writing)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert re.search(r"closed +QpUDe", out)
    assert "X06" in out


def test_a_duration(live: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    path = tmp_path / "silent.pcap"
    begun = time.monotonic()
    process = live(f"follow:{path}", "--duration", "1s")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "not there yet" in err
    assert out.endswith("No CM messages.\n")  # nothing of how captures are to be taken
    assert time.monotonic() - begun >= 1


def test_service_managers_are_told(
    live: Callable[..., subprocess.Popen[str]], captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(PATIENCE)
        environment = {**os.environ, "NOTIFY_SOCKET": str(path)}
        process = live(f"replay:{captures / 'rping.pcap'}@0", "--quiet", env=environment)
        assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"STOPPING=1"
        process.communicate(timeout=PATIENCE)
