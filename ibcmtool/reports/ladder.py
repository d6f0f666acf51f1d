"""The report of `timeline`: each connection as a ladder of messages between its two ends."""

from __future__ import annotations

from rich.console import Console

from ibcmtool.model import Analysis
from ibcmtool.reports import connections_table, ladder_header
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.ladder_entries import entries
from ibcmtool.reports.ladder_rows import Rows
from ibcmtool.reports.page import Page


def render(analysis: Analysis, console: Console, *, clock: Clock) -> None:
    """Write the ladder of every connection of the analysis, in their order."""
    page = Page(console)
    found = connections_table.findings_by_connection(analysis.findings)
    ends = (info.last_time - info.clock_offset for info in analysis.inputs if info.last_time is not None)
    capture_end = max(ends, default=None)
    filters = DisplayFilters(analysis.connections)
    several = len(analysis.inputs) > 1
    for at, conn in enumerate(analysis.connections):
        if at:
            page.write()
            page.write()
        for line in ladder_header.lines(page, conn, filters, clock=clock, several_files=several):
            page.write(line)
        page.write()
        made = entries(conn, found.get(conn.id, ()), capture_end)
        for line in Rows(page, conn, made, clock=clock, several_files=several).lines():
            page.write(line)
    page.flush()
