"""A capture that grows: packets are handed on as soon as they are written, however the file comes to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources.live.captured import record_ends, running

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import source_of
from ibcmtool.sources.live.follow.source import GrowingFile


def test_a_file_grows(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(sample[:24])
    ends = record_ends(sample)
    with running(GrowingFile(f"follow:{path}", str(path))) as run, path.open("ab") as file:
        file.write(sample[24 : ends[0] + 5])
        file.flush()
        run.until(lambda: len(run.frames) == 1)
        file.write(sample[ends[0] + 5 :])
        file.flush()
        run.until(lambda: len(run.frames) == 5)
    assert run.source.notes == []


def test_a_file_that_is_not_there_yet(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "later.pcap"
    with running(GrowingFile(f"follow:{path}", str(path))) as run:
        assert "not there yet" in run.source.notes[0]
        path.write_bytes(sample)
        run.until(lambda: len(run.frames) == 5)


def test_a_file_is_rotated(sample: bytes, tmp_path: Path) -> None:
    """What the old file still got after the new one was made is read first."""
    path = tmp_path / "ring.pcap"
    ends = record_ends(sample)
    path.write_bytes(sample[: ends[0]])
    with running(GrowingFile(f"follow:{path}", str(path))) as run:
        run.until(lambda: len(run.frames) == 1)
        with path.open("ab") as old:
            path.rename(tmp_path / "ring.pcap.1")
            old.write(sample[ends[0] : ends[1]])
            old.flush()
            path.write_bytes(sample)
            run.until(lambda: len(run.frames) == 7)
    assert [note for note in run.source.notes if "was replaced after 2 frames" in note]


def test_a_file_is_cut_and_begun_again(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "again.pcap"
    path.write_bytes(sample)
    with running(GrowingFile(f"follow:{path}", str(path))) as run:
        run.until(lambda: len(run.frames) == 5)
        path.write_bytes(sample[: record_ends(sample)[0]])  # truncates, then writes
        run.until(lambda: len(run.frames) == 6)
    assert any("was replaced" in note for note in run.source.notes)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("follow:", "names no file"),
        ("follow:/dev/null", "is no regular file"),
    ],
)
def test_refusals(text: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as refused:
        source_of(text).open()
    assert "\n" not in str(refused.value)
    assert refused.value.hint
