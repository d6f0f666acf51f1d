"""Measures ibcmtool beside tshark, capinfos, Scapy and dpkt on the same machine, in turn, and prints the tables.

    .venv/bin/python benchmarks/run.py                 # everything: some GB of disk, about ten minutes
    .venv/bin/python benchmarks/run.py --scale 0.1     # a tenth of every input, for a quick look

Inputs are built in a temporary folder and removed. Each figure is the best of several whole processes, start-up
included, with warm files; the commands take turns, so that a machine that slows down slows all of them. Memory is the
largest resident set that the kernel saw. docs/performance.md holds an output of this script.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import inputs

TSHARK = ["tshark", "-Y", "infiniband.mad.mgmtclass==7", "-T", "fields", "-e", "frame.number", "-r"]
SCAPY = """\
import sys
from dissectors import *
from scapy.all import PcapReader
for packet in PcapReader(sys.argv[1]):
    CM_REQ in packet
"""
DPKT = "import sys, dpkt\nfor time, frame in dpkt.pcap.Reader(open(sys.argv[1], 'rb')): dpkt.ethernet.Ethernet(frame)"
# An installed ibcmtool has its modules compiled; so has a checkout, unless the environment forbids to keep them.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
SLOW_SHARE = 50  # Scapy and dpkt read only so small a part of the input; their time is multiplied


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
            seen[name].append(measure(command))
    return {name: Measure(min(m.seconds for m in ms), max(m.megabytes for m in ms)) for name, ms in seen.items()}


def table(title: str, measured: dict[str, Measure], megabytes: float) -> None:
    ours = measured["ibcmtool"].seconds
    print(f"\n{title}\n")
    print(f"{'':<28}{'seconds':>9}{'MB/s':>8}{'memory MB':>11}{'time / ours':>13}")
    for name, (seconds, memory) in measured.items():
        print(f"{name:<28}{seconds:>9.2f}{megabytes / seconds:>8.0f}{memory:>11.0f}{seconds / ours:>13.2f}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the inputs, 1 is full")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ibcmtool-benchmark-") as folder:
        run(Path(folder), options.scale, options.rounds)


def run(folder: Path, scale: float, rounds: int) -> None:
    ibcmtool = [sys.executable, "-m", "ibcmtool", "analyze", "--fail-on", "never"]
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, {shutil.which('tshark') or 'no tshark'}")

    sample = str(inputs.SAMPLES / "rping.pcap")
    small = best_of({"ibcmtool": [*ibcmtool, sample], "tshark": [*TSHARK, sample]}, rounds + 2)
    table("A capture of 41 frames (start-up)", small, 0.005)

    for megabytes, slow in ((220, True), (2000, False)):
        size = int(megabytes * scale * 1_000_000)
        path = folder / f"data{megabytes}.pcap"
        inputs.write(path, inputs.data_heavy(size))
        commands = {
            "ibcmtool": [*ibcmtool, "--format", "jsonl", str(path)],
            "capinfos -c": ["capinfos", "-c", str(path)],
        }
        if slow:
            commands["tshark"] = [*TSHARK, str(path)]
        measured = best_of(commands, rounds)
        if slow:
            measured |= slow_readers(folder, inputs.data_heavy(size // SLOW_SHARE))
        table(f"Data-heavy, {path.stat().st_size / 1e6:,.0f} MB", measured, path.stat().st_size / 1e6)
        path.unlink()

    lives = int(50_000 * scale)
    path = folder / "cm.pcap"
    inputs.write(path, inputs.cm_only(lives))
    packed = folder / "cm.pcap.gz"
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(plain, target)
    commands = {
        "ibcmtool": [*ibcmtool, "--format", "jsonl", str(path)],
        "ibcmtool, gzip": [*ibcmtool, "--format", "jsonl", str(packed)],
        "ibcmtool, text": [*ibcmtool, str(path)],
        "tshark": [*TSHARK, str(path)],
        "capinfos -c": ["capinfos", "-c", str(path)],
    }
    measured = best_of(commands, rounds) | slow_readers(folder, inputs.cm_only(lives // SLOW_SHARE))
    table(f"CM-only, {lives * 5:,} messages, {path.stat().st_size / 1e6:,.0f} MB", measured, path.stat().st_size / 1e6)
    growth(folder, ibcmtool, lives // 2, rounds)


def slow_readers(folder: Path, frames: Iterable[inputs.Timed]) -> dict[str, Measure]:
    """Scapy and dpkt on a small part; start-up is taken off before the time is multiplied."""
    path = folder / "part.pcap"
    inputs.write(path, frames)
    found = {}
    for name, code in (("Scapy", SCAPY), ("dpkt (no InfiniBand)", DPKT)):
        try:
            whole = measure([sys.executable, "-c", code, str(path)])
            empty = folder / "empty.pcap"
            empty.write_bytes(inputs.HEADER)
            start = measure([sys.executable, "-c", code, str(empty)])
        except RuntimeError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            continue
        found[f"{name}, from 1/{SLOW_SHARE}"] = Measure((whole.seconds - start.seconds) * SLOW_SHARE, whole.megabytes)
    return found


def growth(folder: Path, ibcmtool: list[str], lives: int, rounds: int) -> None:
    print("\nGrowth, CM-only, jsonl\n")
    print(f"{'messages':>10}{'seconds':>9}{'us/message':>12}{'memory MB':>11}{'time / first':>14}")
    first = 0.0
    for factor in (1, 2, 4, 8):
        path = folder / "growth.pcap"
        inputs.write(path, inputs.cm_only(lives * factor))
        command = [*ibcmtool, "--format", "jsonl", str(path)]
        seconds, memory = best_of({"ibcmtool": command}, max(1, rounds - factor // 4))["ibcmtool"]
        first = first or seconds
        count = lives * factor * 5
        print(f"{count:>10,}{seconds:>9.2f}{seconds / count * 1e6:>12.1f}{memory:>11.0f}{seconds / first:>14.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
