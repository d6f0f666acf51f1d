"""Tables whose columns are chosen by the width at hand.

A column says how much it may shrink; the caller offers several tables (columns left out, cells on two lines), richest
first, and the first one that fits is drawn. Without a width the richest one is drawn, as wide as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.text import Text

from ibcmtool.reports import style
from ibcmtool.reports.page import Page, Piece

GAP = 2


@dataclass(slots=True)
class Column:
    """One column. A cell is a list of lines; most have one."""

    title: str
    justify: Literal["left", "right"] = "left"
    least: int | None = None  # narrowest width that still tells something; None: never cut
    enough: int | None = None  # width beyond which cutting costs little
    cells: list[list[Text]] = field(default_factory=list)
    _natural: int = 0

    def natural(self) -> int:
        """The width that no cell is cut at."""
        if not self._natural:
            self._natural = max([len(self.title), *(line.cell_len for cell in self.cells for line in cell)])
        return self._natural

    def wanted(self) -> int:
        return self.natural() if self.enough is None else min(self.natural(), max(self.enough, len(self.title)))

    def minimum(self) -> int:
        return self.natural() if self.least is None else min(self.natural(), max(self.least, len(self.title)))


def fits(columns: Sequence[Column], width: int | None, *, cut: bool = False) -> bool:
    """Whether the table fits with nothing that matters cut, or with its cells cut to their least."""
    needed = sum(column.minimum() if cut else column.wanted() for column in columns)
    return width is None or needed + GAP * (len(columns) - 1) <= width


def richest(tables: Iterable[list[Column]], width: int | None) -> list[Column]:
    """The first of these tables that fits; where none does, the first that bears to be cut, else the last."""
    tried = []
    for table in tables:
        if fits(table, width):
            return table
        tried.append(table)
    return next((table for table in tried if fits(table, width, cut=True)), tried[-1])


def widths(columns: Sequence[Column], width: int | None) -> list[int]:
    """Natural widths, taken back to the minimum from the widest column on until the table fits."""
    natural = [column.natural() for column in columns]
    if width is None:
        return natural
    least = [column.minimum() for column in columns]
    excess = sum(natural) + GAP * (len(columns) - 1) - width
    while excess > 0:
        spare = [now - low for now, low in zip(natural, least, strict=True)]
        at = spare.index(max(spare))
        if spare[at] <= 0:
            break
        natural[at] -= 1
        excess -= 1
    return natural


def draw(page: Page, columns: Sequence[Column], notes: Sequence[Iterable[Piece]] = ()) -> Iterator[Text]:
    """The lines of the table; under each row its notes, sentences with their styles."""
    size = widths(columns, page.width)
    yield _line(page, [Text(column.title, style.HEAD) for column in columns], columns, size)
    yield Text(page.glyphs.rule * (sum(size) + GAP * (len(size) - 1)), style.QUIET)
    for row in range(len(columns[0].cells)):
        cells = [column.cells[row] for column in columns]
        for at in range(max(map(len, cells))):
            parts = [cell[at] if at < len(cell) else _EMPTY for cell in cells]
            yield _line(page, parts, columns, size)
        for note in notes[row] if notes else ():
            yield from page.hanging(Text(f"     {page.glyphs.corner} ", style.QUIET), page.text(*note))


_EMPTY = Text()


def _line(page: Page, parts: Sequence[Text], columns: Sequence[Column], size: Sequence[int]) -> Text:
    line, pad = Text(), 0
    for part, column, width in zip(parts, columns, size, strict=True):
        cell = page.elided(part, width)
        spare = width - cell.cell_len
        if cell:
            before = pad + (spare if column.justify == "right" else 0)
            line.append(" " * before).append_text(cell)
            pad = GAP + (0 if column.justify == "right" else spare)
        else:
            pad += GAP + spare
    return line
