"""The report of `analyze` for people: inputs, connections, findings, verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from rich.console import Console
from rich.text import Text

from ibcmtool import words
from ibcmtool.digest import MANY, noteworthy, rank, totals_of, worst_findings
from ibcmtool.model import Analysis, Finding, Totals
from ibcmtool.reports import connections_table, findings, head, overview, style, verdict
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page

CAP = 40  # rows of the list of connections with problems


def render(analysis: Analysis, console: Console, *, all_connections: bool, clock: Clock) -> None:
    """Write the report; `all_connections` lists every connection and every finding, however many there are."""
    page = Page(console)
    several = len(analysis.inputs) > 1
    found = connections_table.findings_by_connection(analysis.findings)
    totals = totals_of(analysis)
    summarised = totals.connections > MANY and not all_connections
    sections = [
        head.lines(page, analysis.inputs, clock),
        _summary(page, analysis, totals, found, clock, several)
        if summarised
        else connections_table.lines(page, analysis.connections, found, clock=clock, several_files=several),
        findings.lines(
            page,
            analysis.findings,
            totals,
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
    for line in chain(verdict.lines(page, analysis, totals), _hint(page, analysis)):
        page.write(line)
    page.flush()


def _summary(
    page: Page,
    analysis: Analysis,
    totals: Totals,
    found: Mapping[int, Sequence[Finding]],
    clock: Clock,
    several: bool,
) -> Iterator[Text]:
    yield from overview.lines(page, totals)
    worst = worst_findings(analysis.findings)
    chosen = sorted(
        (conn for conn in analysis.connections if noteworthy(conn, worst)), key=lambda conn: rank(conn, worst)
    )
    if not chosen:
        yield from page.hanging(
            Text(), page.text("Every connection ended cleanly and without a warning; --all lists them.", style.QUIET)
        )
        return
    yield from connections_table.lines(page, chosen[:CAP], found, clock=clock, several_files=several)
    shown = min(len(chosen), CAP)
    hint = (
        f"{shown:,} of {words.count(totals.connections, 'connection')} shown, problems first: --all lists every one, "
        "--outcome, --code, --peer and --service choose."
    )
    yield from page.hanging(Text(), page.text(hint, style.QUIET))


def _hint(page: Page, analysis: Analysis) -> Iterator[Text]:
    codes = list(dict.fromkeys(finding.code for finding in analysis.findings))
    if codes:
        hint = f"ibcmtool explain {codes[0]} says more; ibcmtool timeline draws the ladders."
        yield page.text(f"  {hint}", style.QUIET)
