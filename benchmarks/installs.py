"""Installs ibcmtool the way its users do, once compiled and once pure: wheels in environments of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import ENVIRONMENT

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("compiled", "pure")


def install(kind: str, folder: Path) -> str:
    """The command `ibcmtool` of an environment below `folder`, which is made when it isn't there; with byte code."""
    home = folder / kind
    command = home / "bin" / "ibcmtool"
    if not command.exists():
        print(f"building and installing: {kind}", file=sys.stderr)
        enabled = {"HATCH_BUILD_HOOKS_ENABLE": "true"} if kind == "compiled" else {}
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(home / "bin" / "pip"), "install", "--quiet", "--quiet", str(ROOT)], enabled)
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    if kind not in said:
        raise RuntimeError(f"{command} is not {kind}: {said}")
    return str(command)


def _run(command: list[str], additions: dict[str, str] | None = None) -> None:
    settings = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **(additions or {})}
    subprocess.run(command, check=True, env=ENVIRONMENT | settings)
