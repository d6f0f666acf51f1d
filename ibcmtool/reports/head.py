"""The head of the report: one line for each input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import InputInfo
from ibcmtool.reports import style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.page import Page
from ibcmtool.rules.facts.coverage import holes
from ibcmtool.wire.link_types import NAMES


def lines(page: Page, inputs: Sequence[InputInfo]) -> Iterator[Text]:
    """Path, format, frames, CM messages and time span of each input; what was cut or damaged below it, and holes."""
    for at, info in enumerate(inputs):
        mark = Text(f"[{at + 1}] " if len(inputs) > 1 else "", style.QUIET)
        head = Text.assemble(mark, page.text(info.path, style.HEAD), "  ")
        facts = page.text(", ".join(_facts(info, page.calendar)), style.QUIET)
        if page.width is not None and head.cell_len + facts.cell_len > page.width:
            yield from page.hanging(Text(), head)
            head = Text("    ")
        yield from page.hanging(head, facts, indent=4)
        for trouble in _troubles(info):
            yield from page.hanging(Text(f"    {page.glyphs.bad} ", style.DOUBT), page.text(trouble, style.DOUBT))
    for begin, end in holes(inputs):
        text = f"no frame in any input for {formatting.duration(end - begin)} from {page.calendar.full(begin, 0)} on"
        yield from page.hanging(Text(f"{page.glyphs.bad} ", style.DOUBT), page.text(text, style.DOUBT))


def _facts(info: InputInfo, calendar: Calendar) -> Iterator[str]:
    if info.format:
        yield info.format
    yield from (NAMES.get(number, f"link type {number}") for number in info.link_types)
    yield formatting.count(info.frames, "frame")
    yield formatting.count(info.cm_messages, "CM message")
    if info.first_time is not None and info.last_time is not None:
        yield f"{calendar.full(info.first_time, 0)} + {formatting.duration(info.last_time - info.first_time)}"
    if info.clock_given:
        way = "ahead" if info.clock_offset >= 0 else "behind"
        yield f"clock {formatting.exact(abs(info.clock_offset))} {way}, as given"
    if info.shared_packets:
        yield f"{formatting.count(info.shared_packets, 'packet')} also in an input before"


def _troubles(info: InputInfo) -> Iterator[str]:
    if info.truncated:
        yield info.damage or "ends in the middle of a record"
    if info.cut_frames:
        yield f"{formatting.count(info.cut_frames, 'frame')} cut short by the snap length"
    if info.timeless:
        yield "its frames have no times of their own: nothing is concluded from times"
    if info.dropped:
        yield f"{formatting.count(info.dropped, 'packet')} lost before they could be captured"
