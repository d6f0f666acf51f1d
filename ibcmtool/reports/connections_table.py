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
from ibcmtool.model import SEVERITIES, Connection, Finding, Outcome
from ibcmtool.reports import attempts, columns, rejects, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.views.attempts import Attempts
from ibcmtool.views.digest import Brief, brief
from ibcmtool.views.filters import concerns

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


class ConnectionLine(NamedTuple):
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
    if isinstance(conn, Brief):
        about = conn
    else:
        about = brief(conn)
        if conn.outcome == "rejected":
            reason, note = rejects.reason(conn), rejects.sentence(conn, several_files)
            retry = attempts.retry_of(conn)
            if note and retry is not None and retry.time is not None:
                note += f"; {attempts.retry_words(retry, calendar, conn.opened)}"
    return ConnectionLine(
        str(about.id),
        about.active,
        about.passive,
        about.service,
        about.outcome,
        reason,
        about.history,
        about.opened,
        None if about.outcome == "partial" else about.established,
        about.closed,
        _codes(found.get(about.id, ())),
        note,
    )


def attempts_line(group: Attempts, found: Mapping[int, Sequence[Finding]], calendar: Calendar) -> ConnectionLine:
    """A group of attempts; its duration is that of them all."""
    clients, refusal = len(group.clients), group.failure.refusal
    active = group.active_name or formatting.address(next(iter(group.clients)))
    return ConnectionLine(
        _ids(group),
        formatting.count(clients, "client") if clients > 1 else active,
        group.passive_name or formatting.address(group.key.passive),
        group.key.service,
        group.failure.outcome,
        None if refusal is None or refusal.sidr else refusal.reason,
        group.history,
        group.opened,
        None,
        group.over,
        _codes([finding for number in group.ids for finding in found.get(number, ())]),
        attempts.sentence(group, calendar),
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


def lines(page: Page, rows: Sequence[ConnectionLine], calendar: Calendar) -> Iterator[Text]:
    """The table; under a row that was rejected, why."""
    if rows:
        yield from columns.draw_with_notes(page, _chosen(page, rows, calendar), lambda row: _note(page, rows[row]))


def _note(page: Page, row: ConnectionLine) -> Iterator[Text]:
    if row.note:
        yield from page.hanging(Text(f"     {page.glyphs.corner} ", style.QUIET), page.text(row.note, "red"))


def _chosen(page: Page, rows: Sequence[ConnectionLine], calendar: Calendar) -> list[Column]:
    """The richest table that fits."""
    arrow = page.glyphs.arrow
    days = {calendar.date(rows[0].opened), calendar.date(rows[-1].opened)}

    def opened(row: ConnectionLine) -> Text:
        day = calendar.date(row.opened) + " " if len(days) > 1 else ""
        return Text(day + calendar.time(row.opened, 3), style.QUIET)

    def stacked(row: ConnectionLine) -> list[Text]:
        return [page.text(row.active), page.text(f"{arrow} {row.passive}")]

    def one_line(cell: Callable[[ConnectionLine], Text]) -> list[list[Text]]:
        return [[cell(row)] for row in rows]

    ends = f"active {arrow} passive"
    made: dict[str, Callable[[], Column]] = {
        "id": lambda: Column("id", "right", cells=one_line(lambda row: Text(row.ids, "bold"))),
        "ends": lambda: Column(ends, cells=one_line(lambda row: page.text(f"{row.active} {arrow} {row.passive}"))),
        "stacked ends": lambda: Column(ends, cells=[stacked(row) for row in rows], least=20),
        "service": lambda: Column("service", cells=one_line(lambda row: page.text(row.service)), least=16),
        "outcome": lambda: Column("outcome", cells=one_line(_outcome)),
        "history": lambda: Column("history", cells=one_line(lambda row: page.text(row.history)), least=13, enough=13),
        "opened": lambda: Column("opened", cells=one_line(opened)),
        "set-up": lambda: Column("set-up", "right", cells=one_line(lambda row: _span(row.opened, row.established))),
        "duration": lambda: Column("duration", "right", cells=one_line(lambda row: _span(row.opened, row.closed))),
        "findings": lambda: Column("findings", cells=one_line(_findings), least=11),
    }
    column = cache(lambda name: made[name]())
    choices = _CHOICES_FOR_FEW if len(rows) <= FEW else _CHOICES_FOR_MANY
    return columns.richest(([column(name) for name in names] for names in choices), page.width)


def _outcome(row: ConnectionLine) -> Text:
    reason = f" {row.reason}" if row.reason is not None else ""
    return Text(formatting.OUTCOMES[row.outcome] + reason, style.OUTCOME[row.outcome])


def _span(start: int, end: int | None) -> Text:
    return Text("-", style.QUIET) if end is None else Text(formatting.duration(end - start))


def _findings(row: ConnectionLine) -> Text:
    return Text(" ").join(Text(code, name) for code, name in row.codes.items())
