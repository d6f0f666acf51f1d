"""The table of connections: one row each, or for a group of attempts; columns by the width at hand.

What matters stays at any width: id, both ends, service, outcome, findings. Narrow terminals lose, in this order, the
opening time, the set-up time and the duration; then the ends go on two lines; then the history goes, and services are
shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import SEVERITIES, Finding
from ibcmtool.connections.release import retry_of
from ibcmtool.model import Connection
from ibcmtool.reports import attempts, columns, rejects, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.views.attempts import Attempts
from ibcmtool.views.digest import Brief, brief
from ibcmtool.views.filters import concerns

_REST = ("service", "outcome", "history", "opened", "set-up", "duration", "findings")
_LEAVING = ("opened", "set-up", "duration", "history")
# How the ends stand, and how many columns have left, richest first. A long list is easier to read on one line each, a
# short one may take two to say more.
_FOR_MANY = (*(("ends", gone) for gone in range(4)), *(("stacked ends", gone) for gone in range(5)))
_FOR_FEW = (*_FOR_MANY[:3], *_FOR_MANY[4:7], _FOR_MANY[3], *_FOR_MANY[7:])
FEW = 10
MOST_IDS = 10  # letters that the ids of a group may take


class ConnectionLine(NamedTuple):
    """What the table shows of a connection, or of a group of attempts."""

    ids: str
    about: Brief
    reason: int | None
    codes: dict[str, str]  # with the style of its severity
    note: str  # a sentence under the row, if not empty
    number: int = 1  # of connections that it stands for


def findings_by_connection(findings: Sequence[Finding]) -> dict[int, list[Finding]]:
    """The findings that concern each connection, in their order: worst first."""
    found: dict[int, list[Finding]] = {}
    for finding in findings:
        for number in concerns(finding):
            found.setdefault(number, []).append(finding)
    return found


def connection_line(
    conn: Connection | Brief, found: Mapping[int, Sequence[Finding]], calendar: Calendar, several_files: bool
) -> ConnectionLine:
    """A connection by itself."""
    note, reason = "", None
    if isinstance(conn, Connection) and conn.outcome == "rejected":
        reason, note = rejects.reason(conn), rejects.sentence(conn, several_files, found.get(conn.id, ()))
        retry = retry_of(conn)
        if note and retry is not None and retry.time is not None:
            note += f"; {attempts.retry_words(retry, calendar, conn.opened)}"
    about = conn if isinstance(conn, Brief) else brief(conn)
    return ConnectionLine(str(about.id), about, reason, _codes(found.get(about.id, ())), note)


def attempts_line(group: Attempts, found: Mapping[int, Sequence[Finding]], calendar: Calendar) -> ConnectionLine:
    """A group of attempts; its duration is that of them all."""
    clients, refusal = len(group.clients), group.failure.refusal
    active = group.active_name or formatting.address(next(iter(group.clients)))
    about = Brief(
        group.ids[0],
        formatting.count(clients, "client") if clients > 1 else active,
        group.passive_name or formatting.address(group.key.passive),
        group.key.service,
        group.failure.outcome,
        group.history,
        group.opened,
        None,
        group.over,
    )
    reason = None if refusal is None or refusal.sidr else refusal.reason
    codes = _codes([finding for number in group.ids for finding in found.get(number, ())])
    ended = all(rejects.by_ended_program(found.get(number, ())) for number in group.ids)
    return ConnectionLine(_ids(group), about, reason, codes, attempts.sentence(group, calendar, ended), group.count)


def _ids(group: Attempts) -> str:
    text = formatting.numbers(group.ids)
    last = group.ids[-1] if len(group.ids) == group.count else ""
    return text if len(text) <= MOST_IDS and last else f"{group.ids[0]}..{last}"


def _codes(findings: Sequence[Finding]) -> dict[str, str]:
    codes: dict[str, str] = {}
    for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        codes.setdefault(finding.code, style.SEVERITY[finding.severity])
    return codes


def lines(page: Page, rows: Sequence[ConnectionLine]) -> Iterator[Text]:
    """The table; under a row that was rejected, why."""
    if rows:
        notes = [[(row.note, "red")] if row.note else [] for row in rows]
        yield from columns.draw(page, _chosen(page, rows), notes)


def _chosen(page: Page, rows: Sequence[ConnectionLine]) -> list[Column]:
    """The richest table that fits."""
    arrow, calendar = page.glyphs.arrow, page.calendar
    briefs = [row.about for row in rows]
    days = {calendar.date(briefs[0].opened), calendar.date(briefs[-1].opened)}

    def opened(one: Brief) -> Text:
        day = calendar.date(one.opened) + " " if len(days) > 1 else ""
        return Text(day + calendar.time(one.opened, 3), style.QUIET)

    def one_line(cell: Callable[[Brief], Text]) -> list[list[Text]]:
        return [[cell(one)] for one in briefs]

    ends = f"active {arrow} passive"
    made: dict[str, Callable[[], Column]] = {
        "id": lambda: Column("id", "right", cells=[[Text(row.ids, "bold")] for row in rows]),
        "ends": lambda: Column(ends, cells=one_line(lambda one: page.text(f"{one.active} {arrow} {one.passive}"))),
        "stacked ends": lambda: Column(
            ends, cells=[[page.text(one.active), page.text(f"{arrow} {one.passive}")] for one in briefs], least=20
        ),
        "service": lambda: Column("service", cells=one_line(lambda one: page.text(one.service)), least=16),
        "outcome": lambda: Column("outcome", cells=[[_outcome(row)] for row in rows]),
        "history": lambda: Column("history", cells=one_line(lambda one: page.text(one.history)), least=13, enough=13),
        "opened": lambda: Column("opened", cells=one_line(opened)),
        "set-up": lambda: Column("set-up", "right", cells=one_line(_set_up)),
        "duration": lambda: Column("duration", "right", cells=one_line(lambda one: _span(one.opened, one.closed))),
        "findings": lambda: Column("findings", cells=[[_findings(row)] for row in rows], least=11),
    }
    column = cache(lambda name: made[name]())
    tables = (
        [column("id"), column(names), *(column(name) for name in _REST if name not in _LEAVING[:gone])]
        for names, gone in (_FOR_FEW if len(rows) <= FEW else _FOR_MANY)
    )
    return columns.richest(tables, page.width)


def _outcome(row: ConnectionLine) -> Text:
    reason = f" {row.reason}" if row.reason is not None else ""
    outcome = row.about.outcome
    return Text(formatting.OUTCOMES[outcome] + reason, style.OUTCOME[outcome])


def _set_up(one: Brief) -> Text:
    return _span(one.opened, None if one.outcome == "partial" else one.established)


def _span(start: int, end: int | None) -> Text:
    if end is None or end < start:  # a clock was set back in between
        return Text("-", style.QUIET)
    return Text(formatting.duration(end - start))


def _findings(row: ConnectionLine) -> Text:
    return Text(" ").join(Text(code, name) for code, name in row.codes.items())
