"""Captures made to break what reads them: every command says something, and none ends in a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BUILT = Path(__file__).parents[3] / "shared" / "captures" / "built"
HOSTILE = sorted(BUILT.glob("r_*")) or [
    pytest.param(BUILT, marks=pytest.mark.skip(reason="needs ../shared/captures, which this clone does not have"))
]
BY = ("pair", "target", "service")


@pytest.mark.parametrize("path", [path for path in HOSTILE if "idb_bomb" not in getattr(path, "name", "")], ids=str)
def test_no_command_breaks(path: Path, run: Callable[..., Any]) -> None:
    for arguments in (
        ["analyze", path],
        *(["analyze", path, "--by", by] for by in BY),
        ["analyze", path, "--format", "json"],
        ["analyze", path, "--redact"],
        ["timeline", path],
        ["decode", path],
        ["decode", path, "--format", "json"],
    ):
        result = run(*arguments)
        assert result.code in (0, 1, 2)
        assert result.out or result.err
