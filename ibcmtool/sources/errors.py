"""What can go wrong with a source: it cannot be read at all (SourceError), or only up to a point (DamageError)."""

from __future__ import annotations


class SourceError(Exception):
    """Nothing can be read from this input. `str()` is the one line for stderr.

    path: as the user gave it ("-" is standard input); offset: byte offset in the file, after decompression, None
    where no single place is meant; problem: what was found, and what was expected; hint: what to try.
    """

    def __init__(self, path: str, problem: str, hint: str = "", offset: int | None = None) -> None:
        super().__init__(path, problem, hint, offset)  # all of them in `args`: it must survive pickling
        self.path = path
        self.problem = problem
        self.hint = hint
        self.offset = offset

    def __str__(self) -> str:
        where = "" if self.offset is None else f" (at offset {self.offset})"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{shown(self.path)}: {self.problem}{where}{hint}"


class DamageError(Exception):
    """The input can be read up to here; `str()` is the damage line. It never leaves this package."""


def shown(path: str) -> str:
    """The path as it stands in a message: always one line, whatever bytes the file's name is made of."""
    if path == "-":
        return "standard input"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in path)
