"""Draws the entries of a ladder: two lifelines, arrows between them, timewait beside them.

A row, from left to right: relative time, (wide pages: absolute time,) frame, state of the active end, its timewait bar,
its lifeline, the room for arrows, the lifeline, timewait bar and state of the passive end, (very wide pages: findings).
Narrow pages have the absolute time on the second line of the row and findings below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import Connection, Role
from ibcmtool.reports import ladder_texts, style
from ibcmtool.reports.ladder_entries import Entry, pauses
from ibcmtool.reports.page import Page

PLAIN_WIDTH = 120  # where the page has no width
CLOCK_FROM = 108  # page width from which the absolute time has a column
ROOM = (18, 64)  # least and most room for arrows
NOTES = (44, 76)  # least and most width of a column for findings
ROOM_BESIDE_NOTES = 48

_CLOCK = 15
_TIMEWAIT = "cyan"
_LABEL: dict[str, str] = {"REJ": "bold red"}
_NOTHING = Text()


class Span(NamedTuple):
    """One line from lifeline to lifeline: what stands on both of them and between."""

    left: str
    inner: Text
    right: str


class Drawing:
    """The drawing of one connection."""

    def __init__(self, page: Page, conn: Connection, made: Sequence[Entry], *, several_files: bool) -> None:
        self._page = page
        self._glyphs = page.glyphs
        self._conn = conn
        self._entries = made
        self._several_files = several_files
        self._width = page.width or PLAIN_WIDTH
        self._wide = self._width >= CLOCK_FROM
        self._time_width = max([10, *(len(self._relative(entry)) for entry in made)])
        self._frame_width = max([5, *(len(self._frame(entry)) for entry in made)])
        self._state_width = tuple(max([7, *(len(entry.states[at]) for entry in made)]) for at in (0, 1))
        self._gutter = self._time_width + 1 + (_CLOCK + 2 if self._wide else 0) + self._frame_width + 2
        spare = self._width - self._gutter - sum(self._state_width) - 6
        beside = any(entry.findings for entry in made) and spare - ROOM_BESIDE_NOTES - 2 >= NOTES[0]
        self._room = ROOM_BESIDE_NOTES if beside else min(max(spare, ROOM[0]), ROOM[1])
        self._notes = min(spare - self._room - 2, NOTES[1]) if beside else 0

    def lines(self) -> Iterator[Text]:
        """Every line of the ladder."""
        yield from self._heading()
        before: Entry | None = None
        for entry, pause in zip(self._entries, pauses(self._entries), strict=True):
            if pause is not None and before is not None:
                yield self._pause(before.time, pause)
            yield from self._row(entry)
            before = entry

    def _heading(self) -> Iterator[Text]:
        left, right = formatting.end_name(self._conn.active), formatting.end_name(self._conn.passive)
        inside = self._room + 2
        titles = f"{'time':>{self._time_width}} " + (f"{'clock':>{_CLOCK}}  " if self._wide else "")
        titles = (titles + f"{'frame':>{self._frame_width}}").ljust(self._gutter)
        indent = " " * (self._state_width[0] + 2)
        if len(left) + len(right) + 2 <= inside:
            names = [left + right.rjust(inside - len(left))]
        else:
            names = [left, right.rjust(inside)]
        for line in names:
            yield Text.assemble((titles, style.QUIET), indent, self._page.text(line, style.HEAD))
            titles = " " * self._gutter
        yield Text.assemble(titles, indent, ("active" + "passive".rjust(inside - len("active")), style.QUIET))

    def _row(self, entry: Entry) -> Iterator[Text]:
        spans = self._spans(entry)
        notes = ladder_texts.callouts(self._page, entry.findings, self._notes) if self._notes else []
        least = max(len(notes), 1 if self._wide or entry.kind == "capture ends" else 2)
        spans += [self._span(_NOTHING)] * (least - len(spans))
        for at, span in enumerate(spans):
            yield self._line(
                self._gutter_text(entry, at),
                entry.states if at == 0 else ("", ""),
                span,
                (self._bar("active", entry, at), self._bar("passive", entry, at)),
                notes[at] if at < len(notes) else _NOTHING,
            )
        if not self._notes:
            indent = self._gutter + self._state_width[0] // 2
            for line in ladder_texts.callouts(self._page, entry.findings, self._width - indent):
                yield Text.assemble(" " * indent, line)

    def _line(
        self, gutter: Text, states: tuple[str, str], span: Span, bars: tuple[Text, Text], note: Text = _NOTHING
    ) -> Text:
        return Text.assemble(
            gutter,
            " " * (self._gutter - gutter.cell_len),
            f"{states[0]:>{self._state_width[0]}} ",
            bars[0],
            span.left,
            span.inner,
            " " * (self._room - span.inner.cell_len),
            span.right,
            bars[1],
            f" {states[1]:<{self._state_width[1]}}  ",
            note,
        )

    def _gutter_text(self, entry: Entry, at: int) -> Text:
        moment = self._page.calendar.time(entry.time)
        if at == 0:
            text = f"{self._relative(entry):>{self._time_width}} "
            text += f"{moment:>{_CLOCK}}  " if self._wide else ""
            return Text.assemble(text, (f"{self._frame(entry):>{self._frame_width}}", style.HEAD))
        if at == 1 and not self._wide:
            return Text(f"{moment:>{self._time_width + 1 + self._frame_width}}", style.QUIET)
        return _NOTHING

    def _relative(self, entry: Entry) -> str:
        return self._page.calendar.relative(entry.time - self._conn.opened)

    def _frame(self, entry: Entry) -> str:
        return ladder_texts.frame_name(entry.frame, self._several_files)

    def _bar(self, role: Role, entry: Entry, at: int) -> Text:
        interval = self._conn.end(role).timewait
        if interval is None or not interval.start <= entry.time <= interval.likely:
            return Text(" ")
        if entry.time < interval.likely:
            return Text(self._glyphs.bar, _TIMEWAIT)
        return Text(self._glyphs.bar_end if at == 0 else " ", _TIMEWAIT)

    def _pause(self, since: int, length: int) -> Text:
        bars = []
        for end in (self._conn.active, self._conn.passive):
            inside = end.timewait is not None and end.timewait.start <= since < end.timewait.likely
            bars.append(Text(self._glyphs.bar if inside else " ", _TIMEWAIT))
        text = Text(f"{formatting.duration(length)} later".center(self._room), style.QUIET)
        span = Span(self._glyphs.pause, text, self._glyphs.pause)
        return self._line(_NOTHING, ("", ""), span, (bars[0], bars[1]))

    def _spans(self, entry: Entry) -> list[Span]:
        if entry.kind == "message":
            return self._message(entry)
        if entry.kind == "data":
            return [self._arrow(entry.roles[0], Text("data", style.QUIET), self._glyphs.data_line)]
        quiet = style.QUIET if entry.kind == "capture ends" else ""
        texts = ladder_texts.event(self._conn, entry, self._several_files)
        lines = [line for text in texts for line in self._page.wrapped(Text(text, quiet), self._room - 2)]
        return [self._span(self._placed(line, entry)) for line in lines]

    def _span(self, inner: Text) -> Span:
        return Span(self._glyphs.lifeline, inner, self._glyphs.lifeline)

    def _placed(self, line: Text, entry: Entry) -> Text:
        """Text beside the lifeline that it is about; in the middle where it is about both or none."""
        spare = self._room - line.cell_len
        indent = 1 if entry.roles == ("active",) else spare - 1 if entry.roles == ("passive",) else spare // 2
        return Text.assemble(" " * indent, line)

    def _message(self, entry: Entry) -> list[Span]:
        step = entry.step
        assert step is not None
        label = Text(step.message.type, _LABEL.get(step.message.type, "bold"))
        if entry.send is not None:
            label.append(" again", style.DOUBT)
        details = ladder_texts.details(self._conn, entry, self._several_files)
        inline = self._page.clean(", ".join(details))
        if self._wide and inline and label.cell_len + len(inline) + 10 <= self._room:
            label.append(f" {inline}", "not bold")
            details = []
        ignored = step.disposition == "ignored"
        vain = ignored or entry.lost
        arrow = self._arrow(step.sender, label, self._glyphs.lost_line if vain else self._glyphs.line, entry.arrived)
        if ignored:
            arrow.inner.stylize(style.QUIET)
        lines = self._page.filled(details, self._room - 4)
        return [arrow, *(self._span(Text.assemble("   ", line)) for line in lines)]

    def _arrow(self, sender: str, label: Text, shaft: str, arrived: bool = True) -> Span:
        """An arrow with its label near the sender, open where it may not have arrived; no head without a sender."""
        glyphs = self._glyphs
        left, right = (glyphs.left_head, glyphs.right_head) if arrived else (glyphs.left_open, glyphs.right_open)
        rest = self._room - label.cell_len - 4
        if sender == "passive":
            arrow = Text.assemble(left, shaft * rest, " ", label, " ", shaft)
            return Span(glyphs.lifeline, arrow, glyphs.right_tail)
        if sender == "active":
            arrow = Text.assemble(shaft, " ", label, " ", shaft * rest, right)
            return Span(glyphs.left_tail, arrow, glyphs.lifeline)
        half = (rest + 1) // 2
        return self._span(Text.assemble(shaft * half, " ", label, " ", shaft * (rest + 2 - half)))
