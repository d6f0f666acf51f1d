"""What is imported is declared: a package that another one brings today may be gone tomorrow, or on another Python."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import requires
from pathlib import Path

OWN = {"ibcmtool", "dissectors"}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_every_import_is_declared(root: Path) -> None:
    declared = {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in requires("ibcmtool") or ()}
    tests = root / "tests"
    own_of_tests = {path.stem for path in tests.iterdir()}
    for folder in (root / "ibcmtool", root / "dissectors", tests):
        known = {*sys.stdlib_module_names, *OWN, *declared, *(own_of_tests if folder == tests else ())}
        unknown = {path: names for path in folder.rglob("*.py") if (names := imported(path) - known)}
        assert unknown == {}
