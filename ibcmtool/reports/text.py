"""The report of `analyze` for people: inputs, connections, findings, conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import Connection, Finding
from ibcmtool.reports import conclusion, connections_table, findings, head, overview, style
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
        self._page = Page(settings.console())
        self._calendar = Calendar(settings.zone)
        self._everything = settings.everything

    def close(self) -> None:
        page, calendar, summary = self._page, self._calendar, self._digest.summary()
        several = len(summary.inputs) > 1
        connections = [one for one in summary.connections if isinstance(one, Connection)]
        groups = membership(connections, summary.attempts)
        made = _LineMaker(groups, connections_table.findings_by_connection(summary.findings), calendar, several)
        page.write_sections(
            head.lines(page, summary.inputs, calendar),
            connections_table.lines(page, list(made.lines(summary.connections)), calendar)
            if summary.listed
            else _overview(page, summary, made, calendar),
            findings.lines(
                page,
                summary.findings,
                summary.totals,
                policy=summary.policy,
                calendar=calendar,
                several_files=several,
                groups=groups,
                summarised=not summary.listed,
                everything=self._everything,
            ),
        )
        depends = any(finding.policy != "both" for finding in summary.findings)
        for line in conclusion.lines(page, summary.policy, summary.inputs, summary.totals, depends=depends):
            page.write(line)
        for line in _hint(page, summary.findings):
            page.write(line)
        page.flush()


class _LineMaker:
    """Makes the lines of the table: one for a group of attempts, where its first one stands, else one a connection."""

    def __init__(
        self, groups: Mapping[int, Attempts], found: Mapping[int, Sequence[Finding]], calendar: Calendar, several: bool
    ) -> None:
        self._groups = groups
        self._found = found
        self._calendar = calendar
        self._several = several
        self.shown = 0  # connections that the lines stand for

    def lines(self, connections: Iterable[Connection | Brief]) -> Iterator[ConnectionLine]:
        done: set[int] = set()
        for conn in connections:
            group = self._groups.get(conn.id)
            if group is None:
                self.shown += 1
                yield connections_table.connection_line(conn, self._found, self._calendar, self._several)
            elif id(group) not in done:
                done.add(id(group))
                self.shown += group.count
                yield connections_table.attempts_line(group, self._found, self._calendar)


def _overview(page: Page, summary: Summary, made: _LineMaker, calendar: Calendar) -> Iterator[Text]:
    yield from overview.lines(page, summary.totals)
    worst = worst_findings(summary.findings)
    chosen = sorted(
        (conn for conn in summary.connections if noteworthy(conn, worst)), key=lambda conn: rank(conn, worst)
    )
    if not chosen:
        yield from page.hanging(
            Text(), page.text("Every connection ended cleanly and without a warning; --all lists them.", style.QUIET)
        )
        return
    yield from connections_table.lines(page, list(islice(made.lines(chosen), CAP)), calendar)
    hint = (
        f"{made.shown:,} of {formatting.count(summary.totals.connections, 'connection')} shown, problems first: --all "
        "lists every one, --outcome, --code, --peer and --service choose."
    )
    yield from page.hanging(Text(), page.text(hint, style.QUIET))


def _hint(page: Page, found: Sequence[Finding]) -> Iterator[Text]:
    if found:
        hint = f"ibcmtool explain {found[0].code} says more; timeline has ladders and Wireshark filters."
        yield from page.hanging(Text("  "), page.text(hint, style.QUIET))
