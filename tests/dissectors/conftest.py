"""Frames of the recorded captures, as plain bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = ROOT.parent / "shared" / "captures" / "public"


def _frames(path: Path) -> list[bytes]:
    with RawPcapReader(str(path)) as reader:
        return [data for data, _ in reader]


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], list[bytes]]:
    """`recorded(name)`: the Ethernet frames of a recorded capture."""
    return lambda name: _frames(ROOT / "captures" / "linux-rxe" / f"{name}.pcap")


@pytest.fixture(scope="session")
def published() -> Callable[[str], list[bytes]]:
    """`published(name)`: the frames of a published capture, which stands beside the repository or not at all."""

    def read(name: str) -> list[bytes]:
        path = PUBLIC / name
        if not path.exists():
            pytest.skip(f"no {name}")
        return _frames(path)

    return read
