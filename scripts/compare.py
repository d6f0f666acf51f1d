#!/usr/bin/env python3
"""Runs two installed ibcmtools over all captures and demands the same output, byte for byte.

Usage: compare.py PYTHON OTHER_PYTHON CAPTURE_OR_FOLDER...

Each PYTHON is the interpreter of an environment in which ibcmtool is installed: pure and compiled, or of two versions.
Exit code 1 and one line for each command whose stdout, stderr or exit code differs; 2 where one ends in a traceback.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

COMMANDS = (
    ("analyze",),
    ("analyze", "--policy", "strict", "--format", "json"),
    ("analyze", "--format", "jsonl"),
    ("analyze", "--by", "pair"),
    ("timeline",),
    ("decode",),
    ("decode", "--format", "json"),
)


def main(arguments: Sequence[str]) -> int:
    if arguments[0] == "--record":
        for name, result in record(list(map(Path, arguments[1:]))):
            print(json.dumps([name, result]), flush=True)  # or the next process would print it again
        return 0
    pythons, places = arguments[:2], list(map(Path, arguments[2:]))
    recorders = [
        subprocess.Popen([python, __file__, "--record", *map(str, captures(places))], stdout=subprocess.PIPE, text=True)
        for python in pythons
    ]
    first, second = (dict(map(json.loads, recorder.communicate()[0].splitlines())) for recorder in recorders)
    if any(recorder.returncode for recorder in recorders):
        return 2
    print(*(outcomes.pop("") for outcomes in (first, second)), sep=" and ")
    different = [name for name in first if first[name] != second.get(name)]
    for name in different:
        print(f"differs: ibcmtool {name}")
    print(f"{len(first)} outputs compared, {len(different)} differ")
    return 1 if different or not first or first.keys() != second.keys() else 0


def captures(places: Sequence[Path]) -> list[Path]:
    """The captures among these files and in these folders, as far as they are here."""
    found = [
        path
        for place in places
        if place.exists()
        for path in ([place] if place.is_file() else sorted(place.rglob("*.*")))
    ]
    return [path for path in found if any(kind in path.suffixes for kind in (".pcap", ".pcapng", ".erf"))]


def record(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Each command line with what came of it; the empty one with the version. Nothing is printed by this process."""
    yield "", outcome(["--version"])
    lines = [[command[0], str(path), *command[1:]] for path in paths for command in COMMANDS]
    app = import_module("ibcmtool.cli").app
    for line in lines[: len(COMMANDS)]:  # so that all that they need is loaded once, not in each process
        with suppress(SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            app(line)
    for line in lines:
        text = outcome(line)
        if "Traceback (most recent call last)" in text:
            raise SystemExit(f"ibcmtool {' '.join(line)}\n{text}")
        yield " ".join(line), hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def outcome(arguments: Sequence[str]) -> str:
    """What ibcmtool with these arguments prints, and its exit code; in a process of its own, as always."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.argv = ["ibcmtool", *arguments]
            import_module("ibcmtool.__main__").main()
        _, status = os.waitpid(child, 0)
        output.seek(0)
        text = output.read().decode("utf-8", "surrogateescape").strip()
    return text if not status else f"{text}\nexit code {os.waitstatus_to_exitcode(status)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
