"""Output in large pieces: one write for many lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_LINES = 16  # of a connection of five messages: 90 kB


@contextmanager
def in_pieces(out: TextIO) -> Iterator[Callable[[str], None]]:
    """A function that writes to `out`, many texts at once, but each on its own where somebody looks on (a terminal).

    The rest is written at the end, also when an error or an interrupt ends the work.
    """
    most = 1 if out.isatty() else _LINES
    texts: list[str] = []

    def flush() -> None:
        piece = "".join(texts)
        texts.clear()
        out.write(piece)
        out.flush()

    def write(text: str) -> None:
        texts.append(text)
        if len(texts) >= most:
            flush()

    try:
        yield write
    finally:
        flush()
