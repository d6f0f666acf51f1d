"""The report of `timeline`: each connection as a ladder of messages between its two ends."""

from __future__ import annotations

from operator import attrgetter

from ibcmtool.model import Connection, Event, Finding, InputInfo, rank
from ibcmtool.reports import connections_table, ladder_header
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.ladder_entries import entries
from ibcmtool.reports.ladder_rows import Drawing
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import Settings, Sink


class Ladders(Sink):
    """Keeps everything, and at the end draws the connections in their order."""

    def __init__(self, settings: Settings) -> None:
        self._page = Page(settings.console())
        self._calendar = Calendar(settings.zone)
        self._connections: list[Connection] = []
        self._findings: list[Finding] = []
        self._inputs: list[InputInfo] = []

    def connection(self, connection: Connection) -> None:
        self._connections.append(connection)

    def finding(self, finding: Finding, event: Event | None) -> None:
        self._findings.append(finding)

    def input(self, info: InputInfo) -> None:
        self._inputs.append(info)

    def close(self) -> None:
        page = self._page
        connections = sorted(self._connections, key=attrgetter("id"))
        found = connections_table.findings_by_connection(sorted(self._findings, key=rank))
        ends = (info.last_time - info.clock_offset for info in self._inputs if info.last_time is not None)
        capture_end = max(ends, default=None)
        filters = DisplayFilters(connections)
        several = len(self._inputs) > 1
        for at, conn in enumerate(connections):
            if at:
                page.write()
                page.write()
            for line in ladder_header.lines(page, conn, filters, calendar=self._calendar, several_files=several):
                page.write(line)
            page.write()
            made = entries(conn, found.get(conn.id, ()), capture_end)
            for line in Drawing(page, conn, made, calendar=self._calendar, several_files=several).lines():
                page.write(line)
        page.flush()
