"""The table of a breakdown: one row a pair, target or service, columns by the width at hand.

A column of noughts is left out. Narrow terminals lose what the notes under the rows tell as well, then put names on two
lines. The notes say why attempts were refused, what stayed unanswered, how long it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import SEVERITIES, By
from ibcmtool.model import Outcome
from ibcmtool.reports import attempts, columns, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page, Piece
from ibcmtool.views.rows import Breakdown, Party, Row, Service
from ibcmtool.views.tally import Tally
from ibcmtool.views.times import EXACT, Times

_NONE = "-"
MOST_REASONS = 6  # of refusals; the others are counted together
STORM = 100  # REQs in one second that are worth a word


class _Count(NamedTuple):
    """A column of numbers."""

    title: str
    number: Callable[[Row], int]
    style: str = ""
    text: Callable[[int], str] = formatting.number


def _outcome(outcome: Outcome) -> _Count:
    name = formatting.OUTCOMES[outcome]
    shown = "" if style.OUTCOME[outcome] == style.OUTCOME["closed"] else style.OUTCOME[outcome]
    return _Count(name, lambda row: row.tally.outcomes[outcome], shown)


_CONNECTED = _Count("connected", lambda row: row.tally.connected, style.OUTCOME["established"])
_ATTEMPTS = _Count("attempts", lambda row: row.tally.connections)
_PART = _Count("in part", lambda row: row.tally.outcomes["partial"], style.QUIET)
_FAILED = (_outcome("rejected"), _outcome("timed_out"), _outcome("stale"), _outcome("half_open"))
_OF_TARGETS = (
    _Count("clients", lambda row: row.clients),
    _ATTEMPTS,
    _CONNECTED,
    *_FAILED,
    _outcome("connecting"),
    _PART,
    _Count("p50", lambda row: row.tally.last_to_reply.percentile(50), text=formatting.duration),
    _Count("p99", lambda row: row.tally.last_to_reply.percentile(99), text=formatting.duration),
    _Count("max", lambda row: row.tally.last_to_reply.maximum, text=formatting.duration),
    _Count("REQs", lambda row: row.tally.requests),
    _Count("again", lambda row: row.tally.repeated),
    _Count("MRAs", lambda row: row.tally.mras),
    _Count("unanswered", lambda row: row.tally.unanswered, style.OUTCOME["timed_out"]),
)
_COUNTS: dict[By, tuple[_Count, ...]] = {
    "pair": (
        _Count("conns", lambda row: row.tally.connections),
        _CONNECTED,
        _Count("active closed", lambda row: row.tally.closed_by["active"]),
        _Count("passive closed", lambda row: row.tally.closed_by["passive"]),
        _Count("both closed", lambda row: row.tally.closed_by["both"]),
        _outcome("established")._replace(title="open"),
        *_FAILED,
        _outcome("connecting"),
        _outcome("resolved"),
        _PART,
    ),
    "target": _OF_TARGETS,
    "service": (_Count("targets", lambda row: row.targets), *_OF_TARGETS),
}
_ALWAYS = ("conns", "attempts", "connected")
# What leaves first when there is no room.
_LEAVING: dict[By, tuple[str, ...]] = {
    "pair": ("both closed", "connecting", "open", "in part", "passive closed", "active closed", "half open"),
    "target": ("MRAs", "again", "REQs", "unanswered", "in part", "clients", "half open", "stale", "p99", "max", "p50"),
    "service": ("MRAs", "again", "REQs", "unanswered", "in part", "half open", "stale", "p99", "max", "targets", "p50"),
}
_INLINE_LOSES = 3  # columns, before names go on two lines


def lines(page: Page, breakdown: Breakdown, rows: Sequence[Row]) -> Iterator[Text]:
    """The table; what is wrong with a row stands under it."""
    if rows:
        several = len(breakdown.inputs) > 1
        notes = [_notes(row, page.calendar, several_inputs=several) for row in rows]
        yield from columns.draw(page, _chosen(page, breakdown.by, rows), notes)


def _chosen(page: Page, by: By, rows: Sequence[Row]) -> list[Column]:
    inline, stacked = _names(page, by, rows, stacked=False), _names(page, by, rows, stacked=True)
    numbers = {
        count.title: _numbers(count, rows)
        for count in _COUNTS[by]
        if count.title in _ALWAYS or any(count.number(row) for row in rows)
    }
    leaving = [title for title in _LEAVING[by] if title in numbers]
    findings = _findings(rows)
    # Richest first.
    ways = [(inline, n) for n in range(min(_INLINE_LOSES, len(leaving)) + 1)]
    ways += [(stacked, n) for n in range(len(leaving) + 1)]
    tables = (
        [*names, *(column for title, column in numbers.items() if title not in leaving[:gone]), *findings]
        for names, gone in ways
    )
    return columns.richest(tables, page.width)


def _names(page: Page, by: By, rows: Sequence[Row], *, stacked: bool) -> list[Column]:
    """What a row is about: in one column or two, or in one on two lines."""
    arrow = page.glyphs.arrow
    if by == "service":
        return [Column("service", cells=[[page.text(_name(row.service))] for row in rows], least=16)]
    if by == "pair":
        parts = [(_name(row.active), f"{arrow} {_name(row.passive)}") for row in rows]
        cells = [[page.text(one), page.text(two)] if stacked else [page.text(f"{one} {two}")] for one, two in parts]
        return [Column(f"active {arrow} passive", cells=cells, least=20)]
    if stacked:
        cells = [[page.text(_name(row.passive)), page.text(f"  {_name(row.service)}", style.QUIET)] for row in rows]
        return [Column("target", cells=cells, least=20)]
    return [
        Column("target", cells=[[page.text(_name(row.passive))] for row in rows]),
        Column("service", cells=[[page.text(_name(row.service))] for row in rows], least=16),
    ]


def _name(of: Party | Service | None) -> str:
    return of.name if of else ""


def _numbers(count: _Count, rows: Sequence[Row]) -> Column:
    cells = []
    for row in rows:
        number = count.number(row)
        cells.append([Text(count.text(number), count.style) if number else Text(_NONE, style.QUIET)])
    return Column(count.title, "right", cells=cells)


def _findings(rows: Sequence[Row]) -> list[Column]:
    """Codes, worst first; no column where there is none."""
    if not any(row.tally.codes for row in rows):
        return []
    cells = []
    for row in rows:
        worst = sorted(row.tally.severities.items(), key=lambda found: (SEVERITIES.index(found[1]), found[0]))
        cells.append([Text(" ").join(Text(code, style.SEVERITY[severity]) for code, severity in worst)])
    return [Column("findings", cells=cells, least=11)]


def _notes(row: Row, calendar: Calendar, *, several_inputs: bool) -> Iterator[Piece]:
    """The notes of one row, each a sentence with its style."""
    tally = row.tally
    if tally.refusals:
        yield _refusals(tally), style.OUTCOME["rejected"]
    if tally.unanswered and (row.active is None or several_inputs):
        yield _unanswered(tally, several_inputs), style.OUTCOME["timed_out"]
    if tally.unseen:
        text = f"{formatting.count(tally.unseen, 'attempt')} given up (REJ 4) of which no REQ was seen"
        yield text, style.OUTCOME["timed_out"]
    if tally.gave_way:
        yield (
            f"{formatting.count(tally.gave_way, 'attempt')} gave way to one of the other side, sent at the same time",
            "",
        )
    if tally.unheard_releases:
        many = formatting.count(tally.unheard_releases, "connection")
        sent = attempts.dreqs(tally.dreqs, tally.dreqs_repeated)
        yield f"{many} whose DREQs nobody answered: {sent}", style.OUTCOME["half_open"]
    if row.active is not None:
        return
    if tally.repeated or tally.peak.number >= STORM:
        yield _requests(row, calendar), ""
    if tally.first_to_reply.maximum > tally.last_to_reply.maximum:
        yield f"from the first REQ to the REP: {_times(tally.first_to_reply)}", ""


def _refusals(tally: Tally) -> str:
    """ "12 × REJ 8 invalid service ID, 3 × REJ 28 consumer reject: NVMe: invalid queue ID"."""
    common = tally.refusals.most_common(MOST_REASONS)
    parts = [
        f"{number:,} × {attempts.refusal_words(refusal)}" + (f": {refusal.words}" if refusal.words else "")
        for refusal, number in common
    ]
    others = tally.refusals.total() - sum(number for _, number in common)
    return ", ".join([*parts, f"{others:,} with other reasons"] if others else parts)


def _unanswered(tally: Tally, several_inputs: bool) -> str:
    """How many attempts nobody answered, and whether their REQs were seen at the target."""
    text = f"{tally.unanswered:,} of {formatting.count(tally.connections, 'attempt')} without an answer"
    seen, missing = tally.arrivals["seen"], tally.arrivals["never seen"]
    if not seen and not missing:
        who = "these captures cannot" if several_inputs else "one capture cannot"
        return f"{text}; {who} tell whether the REQs seen here reached the target"
    unknown = tally.unanswered - seen - missing
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (seen, "with a REQ seen at the target's end"),
            (missing, "with no REQ seen there: lost on the way"),
            (unknown, "of which the captures cannot tell"),
        )
        if number
    ]
    return f"{text}: {', '.join(parts)}"


def _requests(row: Row, calendar: Calendar) -> str:
    """How many REQs came, of how many clients, and how many in the busiest second."""
    tally = row.tally
    text = f"{formatting.count(tally.requests, 'REQ')} of "
    text += f"{'' if row.complete else 'at least '}{formatting.count(row.clients, 'client')}"
    if tally.repeated:
        text += f", {tally.repeated:,} of them retransmissions"
    if tally.peak.number > 1:
        text += f"; at most {tally.peak.number:,} in one second ({calendar.time(tally.peak.time, 0)})"
    return text


def _times(times: Times) -> str:
    values = (("p50", times.percentile(50)), ("p99", times.percentile(99)), ("max", times.maximum))
    return ", ".join(f"{name} {formatting.duration(value)}" for name, value in values)


def legend(page: Page, breakdown: Breakdown) -> Iterator[Text]:
    """What p50, p99 and max are."""
    if breakdown.by == "pair" or not any(row.tally.last_to_reply.count for row in breakdown.rows):
        return
    text = "p50, p99, max: from the last REQ before a REP to that REP, the target's own time as the capture saw it"
    if any(not row.tally.last_to_reply.exact for row in breakdown.rows):
        text += f"; p50 and p99 of more than {EXACT:,} are within 0.8 %"
    yield from page.remark(f"{text}.")
