"""Measures whole processes in turn, and prints what came out as tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

# An installed ibcmtool has its byte code; so has a checkout, unless the environment forbids to keep it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
LONG = 15.0  # seconds; a command that takes longer is measured once


class Measure(NamedTuple):
    """One command on one input."""

    seconds: float
    megabytes: float


def measure(command: Sequence[str]) -> Measure:
    """One whole process. Raises RuntimeError when it fails (exit code 1 is a finding, not a failure)."""
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"exit code {process.returncode}: {' '.join(command)}")
    return Measure(seconds, usage.ru_maxrss / 1024)


def best_of(commands: dict[str, list[str]], rounds: int) -> dict[str, Measure]:
    """All commands in turn, so many rounds; the best time and the largest memory of each."""
    seen: dict[str, list[Measure]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            if not seen[name] or seen[name][0].seconds < LONG:
                seen[name].append(measure(command))
    return {name: Measure(min(m.seconds for m in ms), max(m.megabytes for m in ms)) for name, ms in seen.items()}


def table(title: str, measured: dict[str, Measure], megabytes: float) -> None:
    """The first row is the one that all others are compared with."""
    ours = next(iter(measured.values())).seconds
    print(f"\n{title}\n")
    print(f"{'':<31}{'seconds':>9}{'MB/s':>8}{'memory MB':>11}{'time / first':>14}")
    for name, (seconds, memory) in measured.items():
        print(f"{name:<31}{seconds:>9.2f}{megabytes / seconds:>8.0f}{memory:>11.0f}{seconds / ours:>14.2f}")
    sys.stdout.flush()
