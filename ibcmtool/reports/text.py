"""The report of `analyze` for people: inputs, connections, findings, verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from rich.console import Console
from rich.text import Text

from ibcmtool import words
from ibcmtool.model import Analysis, Connection, Finding
from ibcmtool.reports import connections_table, findings, head, overview, style, verdict
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page

MANY = 50  # connections; above, the table gives way to counts and the connections with problems
CAP = 40  # rows of that list
# Outcomes that need no second look.
_CLEAN = frozenset({"closed", "established", "resolved"})


def render(analysis: Analysis, console: Console, *, all_connections: bool, clock: Clock) -> None:
    """Write the report; `all_connections` lists every connection and every finding, however many there are."""
    page = Page(console)
    several = len(analysis.inputs) > 1
    found = connections_table.findings_by_connection(analysis.findings)
    summarised = len(analysis.connections) > MANY and not all_connections
    sections = [
        head.lines(page, analysis.inputs, clock),
        _summary(page, analysis, found, clock, several)
        if summarised
        else connections_table.lines(page, analysis.connections, found, clock=clock, several_files=several),
        findings.lines(
            page,
            analysis.findings,
            policy=analysis.policy,
            clock=clock,
            several_files=several,
            summarised=summarised,
            everything=all_connections,
        ),
    ]
    for section in sections:
        last = None
        for line in section:
            page.write(line)
            last = line
        if last is not None and last.plain:
            page.write()
    for line in chain(verdict.lines(page, analysis), _hint(page, analysis)):
        page.write(line)
    page.flush()


def _summary(
    page: Page, analysis: Analysis, found: Mapping[int, Sequence[Finding]], clock: Clock, several: bool
) -> Iterator[Text]:
    yield from overview.lines(page, analysis.connections, analysis.findings)
    chosen = sorted(
        (conn for conn in analysis.connections if _noteworthy(conn, found)), key=lambda conn: _rank(conn, found)
    )
    if not chosen:
        yield from page.hanging(
            Text(), page.text("Every connection ended cleanly and without a warning; --all lists them.", style.QUIET)
        )
        return
    yield from connections_table.lines(page, chosen[:CAP], found, clock=clock, several_files=several)
    more = len(chosen) - CAP
    hidden = f"{more:,} more like these and " if more > 0 else ""
    clean = len(analysis.connections) - len(chosen)
    hint = (
        f"{hidden}{words.count(clean, 'connection')} without a problem not shown: --all lists every one, "
        "--outcome, --code, --peer and --service choose."
    )
    yield from page.hanging(Text(), page.text(hint, style.QUIET))


def _noteworthy(conn: Connection, found: Mapping[int, Sequence[Finding]]) -> bool:
    return conn.outcome not in _CLEAN or any(one.severity != "info" for one in found.get(conn.id, ()))


def _rank(conn: Connection, found: Mapping[int, Sequence[Finding]]) -> tuple[int, int, int]:
    """Problems first: by the worst finding, then by outcome, then in order."""
    severities = {one.severity for one in found.get(conn.id, ())}
    worst = 0 if "error" in severities else 1 if "warning" in severities else 2
    return worst, words.OUTCOME_ORDER.index(conn.outcome), conn.id


def _hint(page: Page, analysis: Analysis) -> Iterator[Text]:
    codes = list(dict.fromkeys(finding.code for finding in analysis.findings))
    if codes:
        hint = f"ibcmtool explain {codes[0]} says more; ibcmtool timeline draws the ladders."
        yield page.text(f"  {hint}", style.QUIET)
