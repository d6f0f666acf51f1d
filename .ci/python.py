"""Prints the interpreter of a version of Python, as 3.10: of those on PATH and those that pyenv keeps.

Usage: python.py VERSION
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PYENV = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
ASK = "import sys; print(*sys.version_info[:2], sys.version_info.releaselevel)"


def interpreters() -> dict[tuple[int, int], Path]:
    """One of each version that is released, those on PATH first. A shim of pyenv may stand for none: each is asked."""
    folders = [Path(name) for name in os.get_exec_path()] + sorted(PYENV.glob("versions/*/bin"))
    found: dict[tuple[int, int], Path] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("python3.*")) if path.suffix[1:].isdigit()):
        asked = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            major, minor, level = asked.stdout.split()
            if level == "final":
                found.setdefault((int(major), int(minor)), path)
    return found


def main(wanted: str) -> int:
    found = interpreters()
    version = tuple(map(int, wanted.split(".")))
    if version not in found:
        there = ", ".join(f"{major}.{minor}" for major, minor in sorted(found)) or "none"
        print(f"no Python {wanted} on PATH or in {PYENV}/versions; there: {there}", file=sys.stderr)
        return 1
    print(found[version])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
