"""Writes captures/reports anew."""

from __future__ import annotations

from pathlib import Path

from . import CAPTURES

FOLDER = Path(__file__).resolve().parent.parent.parent / "captures" / "reports"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, build in CAPTURES.items():
        (FOLDER / name).write_bytes(build())
