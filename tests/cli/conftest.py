"""Running commands, and a folder of inputs that no tool should have to read."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ibcmtool.cli import app


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ibcmtool with these arguments, in this process, as if its output went to a pipe."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            app([str(argument) for argument in arguments], prog_name="ibcmtool")
        return Result(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory, captures: Path) -> Path:
    """A folder with `captures` (the samples), `reports` and `bad` (inputs that are damaged, foreign or none)."""
    place = tmp_path_factory.mktemp("workplace")
    (place / "captures").symlink_to(captures)
    (place / "reports").symlink_to(captures.parent / "reports")
    bad = place / "bad"
    bad.mkdir()
    (bad / "directory").mkdir()
    whole = (captures / "rping.pcap").read_bytes()
    files = {
        "empty.pcap": b"",
        "text.pcap": b"This is a letter, not a capture.\n" * 20,
        "zeros.pcap": bytes(4096),
        "wlan.pcap": with_link_type(whole, 105),
        "ipoib.pcap": with_link_type(whole, 242),
        "header_only.pcap": whole[:24],
        "header_cut.pcap": whole[:17],
        "cut.pcap": whole[:1000],
        "cut.pcap.gz": gzip.compress(whole, mtime=0)[:700],
        "snaplen_96.pcap": with_snap_length(whole, 96),
        "wrong_length.pcap": whole[:32] + struct.pack("<I", 0x7FFFFFFF) + whole[36:],
        "no_cm.pcap": without_cm(whole),
        "clock_ahead.pcap": with_clock_ahead((captures / "nvme_host_crash_stale.pcap").read_bytes(), 3600),
    }
    for name, data in files.items():
        (bad / name).write_bytes(data)
    return place


@pytest.fixture
def at_workplace(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workplace)
    return workplace


def records(pcap: bytes) -> list[tuple[int, int, int, bytes]]:
    """Seconds, fraction, length on the wire and bytes of each packet of a little-endian pcap file."""
    found = []
    at = 24
    while at < len(pcap):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", pcap, at)
        at += 16
        found.append((seconds, fraction, length, pcap[at : at + captured]))
        at += captured
    return found


def pcap_of(header: bytes, packets: list[tuple[int, int, int, bytes]]) -> bytes:
    return header[:24] + b"".join(
        struct.pack("<IIII", seconds, fraction, len(data), length) + data for seconds, fraction, length, data in packets
    )


def with_link_type(pcap: bytes, link_type: int) -> bytes:
    return pcap[:20] + struct.pack("<I", link_type) + pcap[24:]


def with_snap_length(pcap: bytes, length: int) -> bytes:
    return pcap_of(pcap, [(*rest, data[:length]) for *rest, data in records(pcap)])  # type: ignore[misc]


def without_cm(pcap: bytes) -> bytes:
    """Only what goes to another queue pair than QP1 (the BTH stands at byte 42 of these frames)."""
    return pcap_of(pcap, [packet for packet in records(pcap) if packet[3][47:50] != b"\0\0\1"])


def with_clock_ahead(pcap: bytes, by: int) -> bytes:
    return pcap_of(pcap, [(seconds + by, *rest) for seconds, *rest in records(pcap)])  # type: ignore[misc]
