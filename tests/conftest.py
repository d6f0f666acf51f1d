"""What all tests share: the sample captures, tools that may be missing, and the option that blesses golden outputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from ibcmtool.cli.version import compiled

ROOT = Path(__file__).resolve().parent.parent

# How long an example takes says nothing on a machine that does other work as well.
settings.register_profile("ibcmtool", deadline=None)
settings.load_profile("ibcmtool")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write the expected outputs of the golden runs anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if compiled():
        for item in items:
            if item.get_closest_marker("pure"):
                item.add_marker(pytest.mark.skip(reason="puts a Python object where compiled code has one of its own"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository, or the unpacked sdist."""
    return ROOT


@pytest.fixture(scope="session")
def captures(root: Path) -> Path:
    """The sample captures that belong to the project."""
    return root / "captures" / "linux-rxe"


@pytest.fixture(scope="session")
def public_captures(root: Path) -> Path:
    """Captures published by others, which lie beside the repository on some machines and must not be in it."""
    path = root.parent / "shared" / "captures" / "public"
    if not path.is_dir():
        pytest.skip("public captures are not here")
    return path


@pytest.fixture(scope="session")
def require_tool() -> Callable[[str], str]:
    """Path of a program; where it is missing the test is skipped, and in CI it fails."""

    def require(name: str) -> str:
        path = shutil.which(name)
        if path is None and os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        if path is None:
            pytest.skip(f"{name} is not installed")
        return path

    return require
