"""Checks the built archives: the wheel holds the two packages and nothing else, the sdist all that tests need.

Usage: check_archives.py DIRECTORY, which holds one wheel and one sdist.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("ibcmtool", "dissectors")
SDIST_NEEDS = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "hatch_build.py",
    "captures/README.md",
    "captures/linux-rxe/rping.pcap",
    "scripts/test",
    "tests/conftest.py",
)


def sources(root: Path) -> set[str]:
    """The files that the wheel must hold: every module of both packages, and their markers."""
    return {
        path.relative_to(root).as_posix()
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def problems(directory: Path, root: Path) -> list[str]:
    [wheel] = directory.glob("*.whl")
    [sdist] = directory.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as tar:
        packed = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    wanted = sources(root)
    found = [f"wheel lacks {name}" for name in sorted(wanted - held)]
    found += [f"wheel holds {name}, which is no part of it" for name in sorted(held - wanted)]
    found += [f"sources lack {package}/py.typed" for package in PACKAGES if f"{package}/py.typed" not in held]
    found += [f"sdist lacks {name}" for name in SDIST_NEEDS if name not in packed]
    return found


def main() -> int:
    found = problems(Path(sys.argv[1]), Path(__file__).resolve().parent.parent)
    print("\n".join(found) or "wheel and sdist hold what they should")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
