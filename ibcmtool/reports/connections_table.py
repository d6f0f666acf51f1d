"""The table of connections: one row each, or for a group of attempts; columns by the width at hand.

What matters stays at any width: id, both ends, service, outcome, findings. Narrow terminals lose, in this order, the
opening time, the set-up time and the duration; then the ends go on two lines; then the history goes, and services are
shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.text import Text

from ibcmtool import formatting, services
from ibcmtool.model import SEVERITIES, Connection, Finding, Outcome
from ibcmtool.reports import attempts, columns, rejects, style
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.views.attempts import Attempts

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
MOST_IDS = 10  # letters that the ids of a group may take


class Row(NamedTuple):
    """What the table shows of a connection, or of a group of attempts."""

    ids: str
    active: str
    passive: str
    service: str
    outcome: Outcome
    reason: int | None
    history: str
    opened: int
    established: int | None
    closed: int | None
    codes: dict[str, str]  # with the style of its severity
    note: str = ""  # a sentence under the row


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


def connection_row(conn: Connection, found: Mapping[int, Sequence[Finding]], clock: Clock, several_files: bool) -> Row:
    """A connection by itself."""
    rejected = conn.outcome == "rejected"
    note = rejects.sentence(conn, several_files) if rejected else ""
    retry = attempts.retry_of(conn)
    if note and retry is not None and retry.time is not None:
        note += f"; {attempts.retry_words(retry, clock, conn.opened)}"
    return Row(
        str(conn.id),
        formatting.end_name(conn.active),
        formatting.end_name(conn.passive),
        services.connection_service(conn),
        conn.outcome,
        rejects.reason(conn) if rejected else None,
        conn.history,
        conn.opened,
        None if conn.outcome == "partial" else conn.established,
        conn.closed,
        _codes(found.get(conn.id, ())),
        note,
    )


def attempts_row(group: Attempts, found: Mapping[int, Sequence[Finding]], clock: Clock) -> Row:
    """A group of attempts; its duration is that of them all."""
    clients, refusal = len(group.clients), group.ending.refusal
    active = group.active_name or formatting.address(next(iter(group.clients)))
    return Row(
        _ids(group),
        formatting.count(clients, "client") if clients > 1 else active,
        group.passive_name or formatting.address(group.key.passive),
        group.key.service,
        group.ending.outcome,
        None if refusal is None or refusal.sidr else refusal.reason,
        group.history,
        group.opened,
        None,
        group.over,
        _codes([finding for number in group.ids for finding in found.get(number, ())]),
        attempts.sentence(group, clock),
    )


def _ids(group: Attempts) -> str:
    text = formatting.numbers(group.ids)
    last = group.ids[-1] if len(group.ids) == group.count else ""
    return text if len(text) <= MOST_IDS and last else f"{group.ids[0]}..{last}"


def _codes(findings: Sequence[Finding]) -> dict[str, str]:
    codes: dict[str, str] = {}
    for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        codes.setdefault(finding.code, style.SEVERITY[finding.severity])
    return codes


def lines(page: Page, rows: Sequence[Row], clock: Clock) -> Iterator[Text]:
    """The table; under a row that was rejected, why."""
    if not rows:
        return
    row_end = 0
    for row, line in columns.draw(page, _chosen(page, rows, clock)):
        if row > row_end:
            yield from _note(page, rows[row_end])
        row_end = max(row, row_end)
        yield line
    yield from _note(page, rows[row_end])


def _chosen(page: Page, rows: Sequence[Row], clock: Clock) -> list[Column]:
    made: dict[str, Column] = {}
    tables: list[list[Column]] = []
    for names in _CHOICES_FOR_FEW if len(rows) <= FEW else _CHOICES_FOR_MANY:
        for name in names:
            if name not in made:
                made[name] = _COLUMNS[name](page, rows, clock)
        table = [made[name] for name in names]
        if columns.fits(table, page.width):
            return table
        tables.append(table)
    # Nothing fits uncut: cut what may be cut, in the richest table that bears it.
    return next((table for table in tables if columns.fits(table, page.width, cut=True)), tables[-1])


def _note(page: Page, row: Row) -> Iterator[Text]:
    if row.note:
        yield from page.hanging(Text(f"     {page.glyphs.corner} ", style.QUIET), page.text(row.note, "red"))


def _id_column(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    return Column("id", "right", cells=[[Text(row.ids, "bold")] for row in rows])


def _ends(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    arrow = f" {page.glyphs.arrow} "
    return Column(f"active{arrow}passive", cells=[[page.text(row.active + arrow + row.passive)] for row in rows])


def _stacked_ends(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    arrow = page.glyphs.arrow
    cells = [[page.text(row.active), page.text(f"{arrow} {row.passive}")] for row in rows]
    return Column(f"active {arrow} passive", cells=cells, least=20)


def _services(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    return Column("service", cells=[[page.text(row.service)] for row in rows], least=16)


def _outcomes(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    cells = []
    for row in rows:
        text = formatting.OUTCOMES[row.outcome] + (f" {row.reason}" if row.reason is not None else "")
        cells.append([Text(text, style.OUTCOME[row.outcome])])
    return Column("outcome", cells=cells)


def _histories(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    return Column("history", cells=[[page.text(row.history)] for row in rows], least=13, enough=13)


def _opened(page: Page, rows: Sequence[Row], clock: Clock) -> Column:
    days = {clock.date(rows[0].opened), clock.date(rows[-1].opened)}
    cells = []
    for row in rows:
        day = clock.date(row.opened) + " " if len(days) > 1 else ""
        cells.append([Text(day + clock.time(row.opened, 3), style.QUIET)])
    return Column("opened", cells=cells)


def _set_up(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    return Column("set-up", "right", cells=[[_span(row.opened, row.established)] for row in rows])


def _durations(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    return Column("duration", "right", cells=[[_span(row.opened, row.closed)] for row in rows])


def _span(start: int, end: int | None) -> Text:
    return Text("-", style.QUIET) if end is None else Text(formatting.duration(end - start))


def _findings(page: Page, rows: Sequence[Row], _: Clock) -> Column:
    cells = [[Text(" ").join(Text(code, name) for code, name in row.codes.items())] for row in rows]
    return Column("findings", cells=cells, least=11)


_COLUMNS: dict[str, Callable[[Page, Sequence[Row], Clock], Column]] = {
    "id": _id_column,
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
