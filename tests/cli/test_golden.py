"""Golden runs: commands with their whole output, from tests/golden/runs.txt.

`scripts/bless` writes the expected outputs anew; the diff shows what a change does to what people see.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def runs() -> dict[str, str]:
    """Name and command line of every run. A blank line or one that begins with # says nothing."""
    lines = (GOLDEN / "runs.txt").read_text().splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    assert len({name for name, _ in pairs}) == len(pairs), "a name stands twice"
    return dict(pairs)


RUNS = runs()


@pytest.mark.parametrize("name", RUNS)
def test_run(name: str, run: Callable[..., Any], at_workplace: Path, pytestconfig: pytest.Config) -> None:
    command = RUNS[name]
    result = run(*shlex.split(command))
    seen = f"$ ibcmtool {command}\n{result.out}"
    if result.err:
        seen += f"--- stderr\n{result.err}"
    seen += f"--- exit code {result.code}\n"
    expected = GOLDEN / f"{name}.txt"
    if pytestconfig.getoption("--bless"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(seen, encoding="utf-8")
    assert seen == expected.read_text(encoding="utf-8")


def test_no_output_without_a_run() -> None:
    """An output whose run is gone would look as if it were checked."""
    held = {str(path.relative_to(GOLDEN).with_suffix("")) for path in GOLDEN.rglob("*/*.txt")}
    assert held <= set(RUNS)
