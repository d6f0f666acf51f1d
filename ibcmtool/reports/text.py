"""The report of `analyze` for people: inputs, connections, findings, conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import Finding
from ibcmtool.model import Connection
from ibcmtool.reports import conclusion, connections_table, findings, head, overview
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.connections_table import ConnectionLine
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import Keeping, Settings
from ibcmtool.views.attempts import Attempts, membership
from ibcmtool.views.digest import Brief, Digest, Summary, noteworthy, rank, worst_findings

CAP = 40  # rows of the list of connections with problems


class TextReport(Keeping):
    """Keeps what the report can show, and writes it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._digest = Digest(settings.policy, everything=settings.everything)
        super().__init__(self._digest)
        self._page = Page(settings.console(), settings.zone)
        self._everything = settings.everything

    def close(self) -> None:
        page, summary = self._page, self._digest.summary()
        several = len(summary.inputs) > 1
        connections = [one for one in summary.connections if isinstance(one, Connection)]
        groups = membership(connections, summary.attempts)
        found = connections_table.findings_by_connection(summary.findings)
        chosen = summary.connections if summary.listed else _noteworthy(summary)
        rows = list(islice(_lines(chosen, groups, found, page.calendar, several), None if summary.listed else CAP))
        page.write_sections(
            head.lines(page, summary.inputs),
            () if summary.listed else overview.lines(page, summary.totals),
            _table(page, summary, rows),
            findings.lines(
                page,
                summary.findings,
                summary.totals,
                policy=summary.policy,
                several_files=several,
                groups=groups,
                summarised=not summary.listed,
                everything=self._everything,
            ),
        )
        depends = any(finding.policy != "both" for finding in summary.findings)
        page.write_lines(conclusion.lines(page, summary.policy, summary.inputs, summary.totals, depends=depends))
        if summary.findings:
            hint = f"ibcmtool explain {summary.findings[0].code} says more; timeline has ladders and Wireshark filters."
            page.write_lines(page.remark(hint, indent="  "))
        page.flush()


def _lines(
    connections: Iterable[Connection | Brief],
    groups: Mapping[int, Attempts],
    found: Mapping[int, Sequence[Finding]],
    calendar: Calendar,
    several_files: bool,
) -> Iterator[ConnectionLine]:
    """The lines of the table: one for a group of attempts, where its first one stands, else one a connection."""
    done: set[int] = set()
    for conn in connections:
        group = groups.get(conn.id)
        if group is None:
            yield connections_table.connection_line(conn, found, calendar, several_files)
        elif id(group) not in done:
            done.add(id(group))
            yield connections_table.attempts_line(group, found, calendar)


def _table(page: Page, summary: Summary, rows: Sequence[ConnectionLine]) -> Iterator[Text]:
    """These rows, and how many connections they are where they are not all."""
    yield from connections_table.lines(page, rows)
    if summary.listed:
        return
    remark = "Every connection ended cleanly and without a warning; --all lists them."
    if rows:
        number, whole = sum(row.number for row in rows), formatting.count(summary.totals.connections, "connection")
        remark = f"{number:,} of {whole} shown, problems first: --all "
        remark += "lists every one, --outcome, --code, --peer and --service choose."
    yield from page.remark(remark)


def _noteworthy(summary: Summary) -> list[Connection | Brief]:
    """The connections with problems, the worst first."""
    worst = worst_findings(summary.findings)
    found = (conn for conn in summary.connections if noteworthy(conn, worst))
    return sorted(found, key=lambda conn: rank(conn, worst))
