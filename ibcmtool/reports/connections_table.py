"""The table of connections: one row each, columns by the width at hand.

What matters stays at any width: id, both ends, service, outcome, findings. Narrow terminals lose, in this order, the
opening time, the set-up time and the duration; then the ends go on two lines; then the history goes, and services are
shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.text import Text

from ibcmtool import services, words
from ibcmtool.model import SEVERITIES, Connection, Finding
from ibcmtool.reports import columns, rejects, style
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page

_ALL = ("id", "ends", "service", "outcome", "history", "opened", "set-up", "duration", "findings")
_STACKED = ("id", "stacked ends", *_ALL[2:])


def _without(names: tuple[str, ...], *left_out: str) -> tuple[str, ...]:
    return tuple(name for name in names if name not in left_out)


_INLINE = (_ALL, _without(_ALL, "opened"), _without(_ALL, "opened", "set-up"))
_INLINE_SHORT = (_without(_ALL, "opened", "set-up", "duration"),)
_ON_TWO_LINES = (
    _STACKED,
    _without(_STACKED, "opened"),
    _without(_STACKED, "opened", "set-up"),
    _without(_STACKED, "opened", "set-up", "duration"),
    _without(_STACKED, "opened", "set-up", "duration", "history"),
)
# Richest first. A long list is easier to read on one line each, a short one may take two to say more.
_CHOICES_FOR_FEW = (*_INLINE, *_ON_TWO_LINES[:3], *_INLINE_SHORT, *_ON_TWO_LINES[3:])
_CHOICES_FOR_MANY = (*_INLINE, *_INLINE_SHORT, *_ON_TWO_LINES)
FEW = 10


def findings_by_connection(findings: Sequence[Finding]) -> dict[int, list[Finding]]:
    """The findings that concern each connection, worst first."""
    found: dict[int, list[Finding]] = {}
    for finding in findings:
        for number in {finding.connection, *finding.related} - {None}:
            assert number is not None
            found.setdefault(number, []).append(finding)
    for concerned in found.values():
        concerned.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return found


def lines(
    page: Page,
    connections: Sequence[Connection],
    found: Mapping[int, Sequence[Finding]],
    *,
    clock: Clock,
    several_files: bool,
) -> Iterator[Text]:
    """The table; under a row that was rejected, why."""
    if not connections:
        return
    table = _chosen(page, connections, found, clock)
    row_end = 0
    for row, line in columns.draw(page, table):
        if row > row_end:
            yield from _notes(page, connections[row_end], several_files)
        row_end = max(row, row_end)
        yield line
    yield from _notes(page, connections[row_end], several_files)


def _chosen(
    page: Page, connections: Sequence[Connection], found: Mapping[int, Sequence[Finding]], clock: Clock
) -> list[Column]:
    made: dict[str, Column] = {}
    tables: list[list[Column]] = []
    for names in _CHOICES_FOR_FEW if len(connections) <= FEW else _CHOICES_FOR_MANY:
        for name in names:
            if name not in made:
                made[name] = _COLUMNS[name](page, connections, found, clock)
        table = [made[name] for name in names]
        if columns.fits(table, page.width):
            return table
        tables.append(table)
    # Nothing fits uncut: cut what may be cut, in the richest table that bears it.
    return next((table for table in tables if columns.fits(table, page.width, cut=True)), tables[-1])


def _notes(page: Page, conn: Connection, several_files: bool) -> Iterator[Text]:
    if conn.outcome == "rejected" and (sentence := rejects.sentence(conn, several_files)):
        head = Text(f"     {page.glyphs.corner} ", style.QUIET)
        yield from page.hanging(head, page.text(sentence, "red"))


def _ids(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    return Column("id", "right", cells=[[Text(str(conn.id), "bold")] for conn in connections])


def _ends(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    arrow = f" {page.glyphs.arrow} "
    cells = [[page.text(words.end_name(c.active) + arrow + words.end_name(c.passive))] for c in connections]
    return Column(f"active{arrow}passive", cells=cells)


def _stacked_ends(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    arrow = page.glyphs.arrow
    cells = [
        [page.text(words.end_name(conn.active)), page.text(f"{arrow} {words.end_name(conn.passive)}")]
        for conn in connections
    ]
    return Column(f"active {arrow} passive", cells=cells, least=20)


def _services(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    return Column("service", cells=[[page.text(services.connection_service(conn))] for conn in connections], least=16)


def _outcomes(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    cells = []
    for conn in connections:
        code = rejects.reason(conn) if conn.outcome == "rejected" else None
        text = words.OUTCOMES[conn.outcome] + (f" {code}" if code is not None else "")
        cells.append([Text(text, style.OUTCOME[conn.outcome])])
    return Column("outcome", cells=cells)


def _histories(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    return Column("history", cells=[[page.text(conn.history)] for conn in connections], least=13, enough=13)


def _opened(page: Page, connections: Sequence[Connection], _found: object, clock: Clock) -> Column:
    days = {clock.date(connections[0].opened), clock.date(connections[-1].opened)}
    cells = []
    for conn in connections:
        day = clock.date(conn.opened) + " " if len(days) > 1 else ""
        cells.append([Text(day + clock.time(conn.opened, 3), style.QUIET)])
    return Column("opened", cells=cells)


def _set_up(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    cells = [[_span(conn.opened, None if conn.outcome == "partial" else conn.established)] for conn in connections]
    return Column("set-up", "right", cells=cells)


def _durations(page: Page, connections: Sequence[Connection], *_: object) -> Column:
    return Column("duration", "right", cells=[[_span(conn.opened, conn.closed)] for conn in connections])


def _span(start: int, end: int | None) -> Text:
    return Text("-", style.QUIET) if end is None else Text(words.duration(end - start))


def _findings(
    page: Page, connections: Sequence[Connection], found: Mapping[int, Sequence[Finding]], _clock: Clock
) -> Column:
    cells = []
    for conn in connections:
        codes: dict[str, str] = {}
        for finding in found.get(conn.id, ()):
            codes.setdefault(finding.code, style.SEVERITY[finding.severity])
        cells.append([Text(" ").join(Text(code, name) for code, name in codes.items())])
    return Column("findings", cells=cells, least=11)


_COLUMNS: dict[str, Callable[[Page, Sequence[Connection], Mapping[int, Sequence[Finding]], Clock], Column]] = {
    "id": _ids,
    "ends": _ends,
    "stacked ends": _stacked_ends,
    "service": _services,
    "outcome": _outcomes,
    "history": _histories,
    "opened": _opened,
    "set-up": _set_up,
    "duration": _durations,
    "findings": _findings,
}
