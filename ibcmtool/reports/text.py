"""The report of `analyze` for people: inputs, connections, findings, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from rich.console import Console
from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import Analysis, Connection, Finding, Totals
from ibcmtool.reports import conclusion, connections_table, findings, head, overview, style
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.connections_table import Row
from ibcmtool.reports.page import Page
from ibcmtool.views.attempts import Attempts, attempts_of, membership
from ibcmtool.views.digest import MANY, noteworthy, rank, totals_of, worst_findings

CAP = 40  # rows of the list of connections with problems


def render(
    analysis: Analysis,
    console: Console,
    *,
    all_connections: bool,
    clock: Clock,
    attempts: Sequence[Attempts] | None = None,
) -> None:
    """Write the report; `all_connections` lists every connection and every finding, however many there are.

    `attempts` are the groups of attempts that failed alike, found among the connections if they are not given.
    """
    page = Page(console)
    several = len(analysis.inputs) > 1
    totals = totals_of(analysis)
    summarised = totals.connections > MANY and not all_connections
    if all_connections:
        attempts = ()
    elif attempts is None:
        attempts = attempts_of(analysis.connections)
    groups = membership(analysis.connections, attempts)
    made = _RowMaker(groups, connections_table.findings_by_connection(analysis.findings), clock, several)
    sections = [
        head.lines(page, analysis.inputs, clock),
        _summary(page, analysis, totals, made, clock)
        if summarised
        else connections_table.lines(page, list(made.rows(analysis.connections)), clock),
        findings.lines(
            page,
            analysis.findings,
            totals,
            policy=analysis.policy,
            clock=clock,
            several_files=several,
            groups=groups,
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
    for line in chain(conclusion.lines(page, analysis, totals), _hint(page, analysis)):
        page.write(line)
    page.flush()


class _RowMaker:
    """Makes the rows of the table: one for a group of attempts, where its first one stands, else one a connection."""

    def __init__(
        self, groups: Mapping[int, Attempts], found: Mapping[int, Sequence[Finding]], clock: Clock, several: bool
    ) -> None:
        self._groups = groups
        self._found = found
        self._clock = clock
        self._several = several
        self.shown = 0  # connections that the rows stand for

    def rows(self, connections: Iterable[Connection]) -> Iterator[Row]:
        done: set[int] = set()
        for conn in connections:
            group = self._groups.get(conn.id)
            if group is None:
                self.shown += 1
                yield connections_table.connection_row(conn, self._found, self._clock, self._several)
            elif id(group) not in done:
                done.add(id(group))
                self.shown += group.count
                yield connections_table.attempts_row(group, self._found, self._clock)


def _summary(page: Page, analysis: Analysis, totals: Totals, made: _RowMaker, clock: Clock) -> Iterator[Text]:
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
    yield from connections_table.lines(page, list(islice(made.rows(chosen), CAP)), clock)
    hint = (
        f"{made.shown:,} of {formatting.count(totals.connections, 'connection')} shown, problems first: --all lists "
        "every one, --outcome, --code, --peer and --service choose."
    )
    yield from page.hanging(Text(), page.text(hint, style.QUIET))


def _hint(page: Page, analysis: Analysis) -> Iterator[Text]:
    codes = list(dict.fromkeys(finding.code for finding in analysis.findings))
    if codes:
        hint = f"ibcmtool explain {codes[0]} says more; timeline has ladders and Wireshark filters."
        yield from page.hanging(Text("  "), page.text(hint, style.QUIET))
