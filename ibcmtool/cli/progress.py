"""The progress line of long reads: on stderr, only on a terminal, only after a second, gone when the work is done."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 1.0  # seconds of silence before the line appears


@contextmanager
def reading(quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Hand out a function that takes the number of frames read so far; None where no progress is to be shown."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    line = _Line()
    try:
        yield line
    finally:
        line.close()


class _Line:
    def __init__(self) -> None:
        self._start = time.monotonic()
        self._close: Callable[[], None] | None = None
        self._show: Callable[[int], None] | None = None

    def __call__(self, frames: int) -> None:
        if self._show is not None:
            self._show(frames)
        elif time.monotonic() - self._start >= PATIENCE:
            self._open()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.completed:,} frames read"), TimeElapsedColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task("reading", total=None)
        progress.start()
        self._close = progress.stop
        self._show = lambda frames: progress.update(task, completed=frames)

    def close(self) -> None:
        if self._close is not None:
            self._close()
