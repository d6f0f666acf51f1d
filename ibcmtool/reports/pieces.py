"""Output in large pieces: one write for many lines."""

from __future__ import annotations

from typing import TextIO

_LINES = 16  # of a connection of five messages: 90 kB


class Pieces:
    """Writes many texts at once, but each on its own where somebody looks on (a terminal, or `at_once`)."""

    def __init__(self, out: TextIO, *, at_once: bool = False) -> None:
        self._out = out
        self._most = 1 if at_once or out.isatty() else _LINES
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Everything written so far comes out. Call it at the end, also when an error or an interrupt ends the work."""
        piece = "".join(self._texts)
        self._texts.clear()
        self._out.write(piece)
        self._out.flush()
