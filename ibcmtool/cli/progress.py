"""The progress line of long reads: on stderr, only on a terminal, only after a second, gone when the work is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

PATIENCE = 1.0  # seconds of silence before the line appears


@contextmanager
def reading(quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """Hand out a function that takes the number of frames read so far; None where no progress is to be shown."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    begun = time.monotonic()
    shown: Callable[[int], None] | None = None
    with ExitStack() as stack:

        def progress(frames: int) -> None:
            nonlocal shown
            if shown is not None:
                shown(frames)
            elif time.monotonic() - begun >= PATIENCE:
                shown = _line(stack)

        yield progress


def _line(stack: ExitStack) -> Callable[[int], None]:
    """The line appears, and stays until the stack is closed."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} frames read"), TimeElapsedColumn())
    progress = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = progress.add_task("reading", total=None)
    return lambda frames: progress.update(task, completed=frames)
