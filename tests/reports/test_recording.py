"""What --write leaves behind, read back by our own readers and by tshark."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibcmtool.engine.live import Session
from ibcmtool.packets import Frame
from ibcmtool.reports.recording import Recording, Rotation
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import ScanRequest, open_capture


def record(capture: Path, into: Path, rotation: Rotation | None = None, process: str = "") -> int:
    """Record a capture as if it had come live; how many CM messages it holds."""
    source: Any = SimpleNamespace(
        name="iface:eth0", speed=1.0, made_up=False, sees_host=False, end_time=None, dropped=3, notes=[]
    )
    session = Session([source], "relaxed")
    recording = Recording(str(into), rotation or Rotation(), session.sources)
    with open_capture(str(capture), 0) as frames:
        kept = [frame._replace(direction="in", process=process) for frame in frames.scan(ScanRequest())]
    session.engine.sink = recording
    session.take(0, kept)
    session.finish()
    recording.close()
    return session.sources[0].info.cm_messages


def frames(path: Path) -> list[Frame]:
    with open_capture(str(path), 0) as capture:
        return list(capture)


def test_the_packets_are_the_same(captures: Path, tmp_path: Path) -> None:
    into = tmp_path / "out.pcapng"
    assert record(captures / "nvme_host_crash_stale.pcap", into) == 14
    written, original = frames(into), frames(captures / "nvme_host_crash_stale.pcap")
    assert [(frame.time, frame.data, frame.link_type) for frame in written] == [
        (frame.time, frame.data, frame.link_type) for frame in original
    ]


def test_findings_are_comments_that_wireshark_shows(
    captures: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    into = tmp_path / "out.pcapng"
    record(captures / "nvme_host_crash_stale.pcap", into, process="nvme-196")
    fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.comment", "-e", "frame.packet_flags_direction"]
    told = subprocess.run(
        [require_tool("tshark"), "-r", into, *fields], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) == 14
    assert "warning S02 stale-refused" in told[8]  # frame 9, the DREQ that settled it
    assert "sent by nvme-196" in told[0]
    assert told[0].endswith("0x00000001")  # inbound


def test_infiniband_is_written_so_that_wireshark_reads_it(
    public_captures: Path, tmp_path: Path, require_tool: Callable[[str], str]
) -> None:
    """Link type 247 is put into ERF records."""
    with open_capture(str(public_captures / "erf-rping-native-ib.pcap"), 0) as capture:
        bare = [frame._replace(link_type=247, data=frame.data[16:]) for frame in capture]
    source: Any = SimpleNamespace(
        name="x", speed=1.0, made_up=False, sees_host=False, end_time=None, dropped=0, notes=[]
    )
    session = Session([source], "relaxed")
    into = tmp_path / "ib.pcapng"
    recording = Recording(str(into), Rotation(), session.sources)
    session.engine.sink = recording
    session.take(0, bare)
    recording.close()
    assert {frame.link_type for frame in frames(into)} == {197}
    command = [require_tool("tshark"), "-r", into, "-Y", "infiniband.mad.mgmtclass == 7"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert ["Connect" in line or "ReadyToUse" in line or "Disconnect" in line for line in told] == [True] * 5
    assert len(frames(into)) == 7  # and two data packets that say that the QPs are up


def test_a_new_file_by_size(captures: Path, tmp_path: Path) -> None:
    record(captures / "cmtime_500conn.pcap", tmp_path / "ring.pcapng", Rotation(size=100_000))
    files = sorted(tmp_path.iterdir())
    assert len(files) > 5
    assert files[0].name.startswith("ring_00001_2026")
    assert all(path.stat().st_size < 101_000 for path in files)
    assert sum(len(frames(path)) for path in files) == len(frames(captures / "cmtime_500conn.pcap"))


def test_only_the_newest_files_are_kept(captures: Path, tmp_path: Path) -> None:
    record(captures / "cmtime_500conn.pcap", tmp_path / "ring.pcapng", Rotation(size=100_000, keep=2))
    names = [path.name for path in sorted(tmp_path.iterdir())]
    assert len(names) == 2
    assert not names[0].startswith("ring_00001_")


def test_a_new_file_by_time(captures: Path, tmp_path: Path) -> None:
    """A minute lies between the connections of this capture."""
    record(captures / "nvme_host_crash_stale.pcap", tmp_path / "out.pcapng", Rotation(time=30_000_000_000))
    assert [len(frames(path)) for path in sorted(tmp_path.iterdir())] == [6, 8]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        Recording(str(tmp_path / "no" / "such.pcapng"), Rotation(), [])
