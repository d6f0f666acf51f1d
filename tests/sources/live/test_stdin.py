"""A capture on standard input: packets are handed on as soon as they are there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from sources.live.captured import record_ends, running

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import source_of
from ibcmtool.sources.live.stdin.source import StandardInput


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
        assert run.batches == 2  # one before the first data packet: it may be asked for then


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


def test_it_takes_no_arguments() -> None:
    with pytest.raises(SourceError, match="is no live source") as refused:
        source_of("-:x").open()
    assert "\n" not in str(refused.value)
    assert refused.value.hint
