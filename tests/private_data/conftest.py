"""CM messages out of the recorded captures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.packet import Packet
from scapy.utils import rdpcap

import dissectors.cm
import dissectors.encapsulation
import dissectors.mad

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def recorded() -> Callable[[str, int], Packet]:
    """`recorded(name, frame)`: the CM layer of that frame (from 1) of a capture, recorded or public."""

    def read(name: str, frame: int) -> Packet:
        for folder in ("captures", "../shared/captures"):
            path = ROOT / folder / name
            if path.exists():
                packet = rdpcap(str(path), count=frame)[frame - 1]
                return packet[dissectors.mad.MAD].payload
        pytest.skip(f"no capture {name}")

    return read
