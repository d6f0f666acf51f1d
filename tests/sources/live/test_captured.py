"""Captures as live sources: packets are handed on as soon as they are there, however the file comes to be."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from ibcmtool.model import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import LiveSource, source_of
from ibcmtool.sources.live.captured import GrowingFile, Replay, StandardInput

PATIENCE = 10.0  # seconds until a test gives up waiting for what must come


class Running:
    """A source in its thread, and what it has delivered."""

    def __init__(self, source: LiveSource) -> None:
        self.source = source
        self.frames: list[bytes] = []
        self.batches = 0
        self.stop = Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.source.run(self._take, self.stop, ())
        except BaseException as error:
            self.error = error

    def _take(self, frames: Sequence[Frame]) -> None:
        self.batches += 1
        self.frames += [frame.data for frame in frames]

    def until(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, f"{len(self.frames)} frames, notes {self.source.notes}, {self.error}"
            time.sleep(0.005)


@contextmanager
def running(source: LiveSource) -> Iterator[Running]:
    source.open()
    run = Running(source)
    run.thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        run.thread.join(PATIENCE)
        source.close()
        assert not run.thread.is_alive()


@pytest.fixture
def sample(captures: Path) -> bytes:
    return (captures / "rping.pcap").read_bytes()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Standard input as a pipe; what it gives writes into it."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file, closed=False, isatty=lambda: False))
        closed = []

        def write(data: bytes) -> None:
            if data:
                os.write(writing, data)
            else:
                os.close(writing)
                closed.append(True)

        yield write
        if not closed:
            os.close(writing)


def record_ends(pcap: bytes) -> list[int]:
    """Offsets behind each record of a little-endian pcap."""
    ends, at = [], 24
    while at < len(pcap):
        at += 16 + int.from_bytes(pcap[at + 8 : at + 12], "little")
        ends.append(at)
    return ends


def test_a_packet_is_there_as_soon_as_it_was_written(sample: bytes, pipe: Callable[[bytes], None]) -> None:
    first, second, *_ = record_ends(sample)
    with running(StandardInput("-", "")) as run:
        pipe(sample[:first])
        run.until(lambda: len(run.frames) == 1)
        pipe(sample[first : second - 7])  # the last bytes are still on their way
        time.sleep(0.3)
        assert len(run.frames) == 1
        pipe(sample[second - 7 : second])
        run.until(lambda: len(run.frames) == 2)
        assert run.frames[1] == sample[first + 16 : second]
    assert run.error is None
    assert not run.source.damaged


def test_the_end_of_the_pipe_ends_the_source(sample: bytes, pipe: Callable[[bytes], None]) -> None:
    with running(StandardInput("-", "")) as run:
        pipe(sample)
        pipe(b"")
        run.until(lambda: not run.thread.is_alive())
        assert len(run.frames) == 5  # the CM messages; data packets are passed over
        assert run.batches == 1


def test_a_pipe_that_ends_inside_a_record_is_damaged(sample: bytes, pipe: Callable[[bytes], None]) -> None:
    with running(StandardInput("-", "")) as run:
        pipe(sample[:1000])
        pipe(b"")
        run.until(lambda: not run.thread.is_alive())
    assert run.source.damaged
    assert "cut off at offset 1000" in run.source.notes[0]
    assert len(run.frames) == 2


def test_what_is_no_capture_is_refused(pipe: Callable[[bytes], None]) -> None:
    with running(StandardInput("-", "")) as run:
        pipe(b"This is a letter, not a capture.\n" * 200)
        pipe(b"")
        run.until(lambda: not run.thread.is_alive())
    assert isinstance(run.error, SourceError)


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
        ("replay:/no/such.pcap", "no such file"),
        ("replay:x.pcap@fast", "'fast' is no speed"),
        ("replay:x.pcap@-1", "'-1' is no speed"),
        ("bpftrace", "is no live source"),
        ("-:x", "is no live source"),
    ],
)
def test_refusals(text: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as refused:
        source_of(text).open()
    assert "\n" not in str(refused.value)
    assert refused.value.hint


def test_a_replay_keeps_the_pace(captures: Path) -> None:
    """71.9 seconds at a hundred times the speed: the second connection comes before the long pause, the third after."""
    with running(Replay("r", f"{captures / 'nvme_host_crash_stale.pcap'}@100")) as run:
        run.until(lambda: len(run.frames) == 6)
        time.sleep(0.2)
        assert len(run.frames) == 6
        run.until(lambda: len(run.frames) == 14)
    assert run.source.speed == 100


def test_a_replay_without_pauses(captures: Path) -> None:
    with running(Replay("r", f"{captures / 'nvme_host_crash_stale.pcap'}@0")) as run:
        run.until(lambda: not run.thread.is_alive())
        assert (len(run.frames), run.batches) == (14, 1)


def test_an_at_sign_may_belong_to_the_name(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "host@rack.pcap"
    path.write_bytes(sample)
    assert Replay("r", str(path)).path == str(path)
    assert Replay("r", f"{path}@2").speed == 2
