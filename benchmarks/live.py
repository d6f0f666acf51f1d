"""Feeds `ibcmtool live -` through a pipe and measures whether it keeps up, and how much memory it takes.

    .venv/bin/python benchmarks/live.py rate                        # 50,000 CM messages a second for 20 seconds
    .venv/bin/python benchmarks/live.py soak --seconds 3600         # 500 a second for an hour, memory every minute

The writer writes at its pace for as long as the pipe takes it, so a reader that is too slow shows as writing time
beyond the planned one. Arguments behind `--` go to ibcmtool.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import inputs
from benchmarks.measuring import ENVIRONMENT

MESSAGES_OF_A_LIFE = 5
SLICES = 20  # a second is written in so many pieces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rate", "soak"))
    parser.add_argument("--rate", type=int, help="CM messages a second")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--ibcmtool", default=str(Path(sys.executable).with_name("ibcmtool")), help="the command")
    parser.add_argument("arguments", nargs="*", help="of ibcmtool live, behind --")
    options = parser.parse_args()
    rate = options.rate or (50_000 if options.what == "rate" else 500)
    seconds = options.seconds or (20 if options.what == "rate" else 3600)
    arguments = options.arguments or ["--quiet"]
    if options.what == "rate":
        run_rate(options.ibcmtool, rate, seconds, arguments)
    else:
        run_soak(options.ibcmtool, rate, seconds, arguments)


def run_rate(ibcmtool: str, rate: int, seconds: int, arguments: list[str]) -> None:
    pieces = list(slices(rate, seconds))  # made before: making them takes longer than reading them
    reader = start(ibcmtool, arguments)
    assert reader.stdin is not None
    begun = time.perf_counter()
    for number, piece in enumerate(pieces):
        pause = begun + number / SLICES - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        write(reader, piece)
    written = time.perf_counter() - begun
    memory, most = resident(reader.pid), most_resident(reader.pid)
    reader.stdin.close()
    _, _, usage = os.wait4(reader.pid, 0)
    ended = time.perf_counter() - begun
    count = rate * seconds
    print(f"ibcmtool live - {' '.join(arguments)}: {count:,} messages at {rate:,} a second")
    print(f"planned {seconds:.1f} s, written in {written:.2f} s, read and reported after {ended:.2f} s")
    processor = usage.ru_utime + usage.ru_stime
    print(f"processor {processor:.1f} s, memory {memory:.0f} MB, at most {most:.0f} MB")


def run_soak(ibcmtool: str, rate: int, seconds: int, arguments: list[str]) -> None:
    reader = start(ibcmtool, arguments)
    assert reader.stdin is not None
    print(f"ibcmtool live - {' '.join(arguments)}: {rate:,} messages a second for {seconds:,} s\n")
    print(f"{'minute':>7}{'messages':>12}{'memory MB':>11}", flush=True)
    begun = time.perf_counter()
    for number, piece in enumerate(slices(rate, seconds)):
        pause = begun + number / SLICES - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        write(reader, piece)
        if number % (60 * SLICES) == 0:
            minute = number // (60 * SLICES)
            print(f"{minute:>7}{number * rate // SLICES:>12,}{resident(reader.pid):>11.1f}", flush=True)
    print(f"{'end':>7}{rate * seconds:>12,}{resident(reader.pid):>11.1f}")
    reader.stdin.close()
    print(f"exit code {reader.wait()}")


def slices(rate: int, seconds: int) -> Iterator[bytes]:
    """A capture in pieces, SLICES of them for each second."""
    count = rate * seconds
    frames = inputs.cm_only(count // MESSAGES_OF_A_LIFE, rate // MESSAGES_OF_A_LIFE)
    yield inputs.HEADER
    for _ in range(seconds * SLICES):
        yield b"".join(inputs.record(*frame) for _, frame in zip(range(rate // SLICES), frames, strict=False))


def start(ibcmtool: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [ibcmtool, "live", "-", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=ENVIRONMENT, bufsize=0)


def write(reader: subprocess.Popen[bytes], piece: bytes) -> None:
    assert reader.stdin is not None
    view = memoryview(piece)
    while view:
        view = view[os.write(reader.stdin.fileno(), view) :]


def resident(pid: int) -> float:
    """Resident memory of a process, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def most_resident(pid: int) -> float:
    """The most resident memory that a process ever had, MB. (What `wait4` tells includes the time before it began.)"""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
