"""What a command costs before it does anything: which modules it imports. In a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("scapy", "pyshark", "numpy", "lxml", "zstandard")


def imported(code: str, root: Path) -> set[str]:
    """Top-level modules that a program has imported when it ends."""
    report = "import atexit, sys\natexit.register(lambda: print(*sorted(sys.modules), file=sys.__stderr__))\n"
    done = subprocess.run(
        [sys.executable, "-c", report + code], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["--version"], ["explain", "rej:10"], []])
def test_commands_that_read_no_capture_import_nothing_heavy(arguments: list[str], root: Path) -> None:
    modules = imported(
        f"import sys\nsys.argv = {['ibcmtool', *arguments]!r}\nfrom ibcmtool.cli import main\nmain()", root
    )
    assert "typer" in modules
    assert modules.isdisjoint(HEAVY)


def test_import_of_the_package(root: Path) -> None:
    modules = imported("import ibcmtool", root)
    assert "ibcmtool" in modules
    assert modules.isdisjoint({*HEAVY, "typer", "rich"})


def test_analysis_needs_neither_scapy_nor_pyshark_nor_a_compressor(root: Path) -> None:
    code = (
        "import sys\nsys.argv = ['ibcmtool', 'analyze', 'captures/linux-rxe/rping.pcap']\n"
        "from ibcmtool.cli import main\nmain()"
    )
    modules = imported(code, root)
    assert "dissectors" in modules
    assert modules.isdisjoint({"scapy", "pyshark", "numpy", "zstandard"})
