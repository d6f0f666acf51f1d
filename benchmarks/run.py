"""Measures ibcmtool, compiled and pure, beside tshark, capinfos, Scapy and dpkt on the same machine, in turn.

    .venv/bin/python benchmarks/run.py                 # everything: some GB of disk, about half an hour
    .venv/bin/python benchmarks/run.py --scale 0.1     # a tenth of every input, for a quick look
    .venv/bin/python benchmarks/run.py --installs DIR  # keeps the two installed ibcmtools there, for the next run

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
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import inputs, live
from benchmarks.installs import KINDS, install
from benchmarks.measuring import Measure, best_of, measure, table

CM = ["-Y", "infiniband.mad.mgmtclass==7"]
TSHARK = ["tshark", *CM, "-T", "fields", "-e", "frame.number", "-r"]
TSHARK_JSON = ["tshark", *CM, "-T", "json", "-r"]
SCAPY = """\
import sys
from dissectors import *
from scapy.all import PcapReader
for packet in PcapReader(sys.argv[1]):
    CM_REQ in packet
"""
DPKT = "import sys, dpkt\nfor time, frame in dpkt.pcap.Reader(open(sys.argv[1], 'rb')): dpkt.ethernet.Ethernet(frame)"
SLOW_SHARE = 50  # Scapy and dpkt read only so small a part of the input; their time is multiplied
ANALYZE = ["analyze", "--fail-on", "never"]
LIVE_RATE, LIVE_SECONDS = 50_000, 20

# What the compiled build is to reach on a quiet machine: our row, their row, at most this ratio of times.
TARGETS = (
    ("analyze, text", "tshark, frame numbers", 0.75),
    ("analyze, jsonl", "tshark, all CM fields", 0.6),
    ("analyze, jsonl", "tshark, json", 0.11),
)
DATA_TARGET = 1.5  # data-heavy, 2 GB: of the time of capinfos


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the inputs, 1 is full")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--installs", type=Path, help="folder that keeps the two environments")
    parser.add_argument("--earlier", help="command `ibcmtool` of an earlier version, to be measured as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ibcmtool-benchmark-") as temporary:
        folder = Path(temporary)
        ours = {kind: install(kind, options.installs or folder) for kind in KINDS}
        if options.earlier:
            ours["earlier"] = options.earlier
        run(folder, ours, options.scale, options.rounds)


def run(folder: Path, ours: dict[str, str], scale: float, rounds: int) -> None:
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, {shutil.which('tshark') or 'no tshark'}")
    start_up(ours, rounds + 7)
    data_heavy(folder, ours, scale, rounds)
    cm_only(folder, ours, int(50_000 * scale), rounds)
    growth(folder, ours["compiled"], int(25_000 * scale), rounds)
    print()
    for kind in KINDS:
        print(f"{kind}: ", end="", flush=True)
        live.run_rate(ours[kind], int(LIVE_RATE * min(scale, 1)), LIVE_SECONDS, ["--quiet"])


def start_up(ours: dict[str, str], rounds: int) -> None:
    sample = str(inputs.SAMPLES / "rping.pcap")
    for title, arguments in (("--help", ["--help"]), ("a capture of 41 frames", [*ANALYZE, sample])):
        commands = each(ours, f"ibcmtool {arguments[0]}", arguments)
        commands["tshark"] = ["tshark", "--help"] if title == "--help" else [*TSHARK, sample]
        table(f"Start-up: {title}", best_of(commands, rounds), 0.005)


def each(ours: dict[str, str], name: str, arguments: list[str]) -> dict[str, list[str]]:
    """The same for each of our builds; the compiled one has the plain name."""
    return {name if kind == "compiled" else f"{name}, {kind}": [command, *arguments] for kind, command in ours.items()}


def data_heavy(folder: Path, ours: dict[str, str], scale: float, rounds: int) -> None:
    for megabytes, slow in ((220, True), (2000, False)):
        size = int(megabytes * scale * 1_000_000)
        path = folder / "data.pcap"
        inputs.write(path, inputs.data_heavy(size))
        commands = each(ours, "analyze, jsonl", [*ANALYZE, "--format", "jsonl", str(path)])
        commands["capinfos -c"] = ["capinfos", "-c", str(path)]
        if slow:
            commands["tshark, frame numbers"] = [*TSHARK, str(path)]
        measured = best_of(commands, rounds)
        if slow:
            measured |= slow_readers(folder, inputs.data_heavy(size // SLOW_SHARE))
        table(f"Data-heavy, {path.stat().st_size / 1e6:,.0f} MB", measured, path.stat().st_size / 1e6)
        if not slow:
            target(measured, "analyze, jsonl", "capinfos -c", DATA_TARGET)
        path.unlink()


def cm_only(folder: Path, ours: dict[str, str], lives: int, rounds: int) -> None:
    path = folder / "cm.pcap"
    inputs.write(path, inputs.cm_only(lives))
    packed = folder / "cm.pcap.gz"
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as unpacked:
        shutil.copyfileobj(plain, unpacked)
    commands = {
        **each(ours, "analyze, jsonl", [*ANALYZE, "--format", "jsonl", str(path)]),
        **each(ours, "analyze, text", [*ANALYZE, str(path)]),
        **each(ours, "decode", ["decode", str(path)]),
        **each(ours, "decode, json", ["decode", "--format", "json", str(path)]),
        "analyze, jsonl, gzip": [ours["compiled"], *ANALYZE, "--format", "jsonl", str(packed)],
        "tshark, frame numbers": [*TSHARK, str(path)],
        "tshark, all CM fields": [*tshark_fields(), str(path)],
        "tshark, json": [*TSHARK_JSON, str(path)],
        "capinfos -c": ["capinfos", "-c", str(path)],
    }
    measured = best_of(commands, rounds) | slow_readers(folder, inputs.cm_only(lives // SLOW_SHARE))
    table(f"CM-only, {lives * 5:,} messages, {path.stat().st_size / 1e6:,.0f} MB", measured, path.stat().st_size / 1e6)
    for row, other, most in TARGETS:
        target(measured, row, other, most)
    path.unlink()
    packed.unlink()


def target(measured: dict[str, Measure], row: str, other: str, most: float) -> None:
    ratio = measured[row].seconds / measured[other].seconds
    print(f"\n{row}: {ratio:.2f} of {other} ({'within' if ratio <= most else 'OVER'} the {most} aimed at)", flush=True)


def tshark_fields() -> list[str]:
    """tshark printing every CM field that it knows."""
    listed = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in listed.splitlines()]
    names = [row[2] for row in rows if row[0] == "F" and row[2].startswith("infiniband.cm.")]
    return ["tshark", *CM, "-T", "fields", *(part for name in names for part in ("-e", name)), "-r"]


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


def growth(folder: Path, ibcmtool: str, lives: int, rounds: int) -> None:
    print("\nGrowth, CM-only, jsonl\n")
    print(f"{'messages':>10}{'seconds':>9}{'us/message':>12}{'memory MB':>11}{'time / first':>14}")
    first = 0.0
    for factor in (1, 2, 4, 8):
        path = folder / "growth.pcap"
        inputs.write(path, inputs.cm_only(lives * factor))
        command = [ibcmtool, *ANALYZE, "--format", "jsonl", str(path)]
        [(seconds, memory)] = best_of({"": command}, max(1, rounds - factor // 4)).values()
        first = first or seconds
        count = lives * factor * 5
        print(f"{count:>10,}{seconds:>9.2f}{seconds / count * 1e6:>12.1f}{memory:>11.0f}{seconds / first:>14.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
