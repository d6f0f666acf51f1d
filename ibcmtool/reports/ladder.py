"""The report of `timeline`: each connection as a ladder of messages between its two ends, below a head.

The head says who connected to whom, for what, with which parameters, and what became of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter

from rich.text import Text

from ibcmtool import formatting, services
from ibcmtool.analysis import Finding, InputInfo, rank
from ibcmtool.model import Connection, Event, Role
from ibcmtool.reports import connections_table, message_summary, rejects, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.ladder_entries import entries
from ibcmtool.reports.ladder_rows import Drawing
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import Settings, Sink

_LABEL = 9


class Ladders(Sink):
    """Keeps everything, and at the end draws the connections in their order."""

    def __init__(self, settings: Settings) -> None:
        self._page = Page(settings.console(), settings.zone)
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
            concerning = found.get(conn.id, ())
            refusal = rejects.sentence(conn, several, concerning)
            page.write_lines(_head(page, conn, filters, refusal))
            page.write()
            made = entries(conn, concerning, capture_end)
            page.write_lines(Drawing(page, conn, made, several_files=several).lines())
        page.flush()


def _head(page: Page, conn: Connection, filters: DisplayFilters, refusal: str) -> Iterator[Text]:
    """Title, both ends, times, parameters, the reason of a rejection, and the filter for Wireshark."""
    arrow = f" {page.glyphs.arrow} "
    ends = formatting.end_name(conn.active) + arrow + formatting.end_name(conn.passive)
    title = Text("  ").join(
        [
            Text(f"Connection {conn.id}", style.HEAD),
            page.text(ends, style.HEAD),
            page.text(services.connection_service(conn)),
            Text(formatting.OUTCOMES[conn.outcome], f"bold {style.OUTCOME[conn.outcome]}"),
        ]
    )
    yield from page.hanging(Text(), title)
    yield Text(page.glyphs.rule * min(title.cell_len, page.width or title.cell_len), style.QUIET)
    yield from page.listing(_label("active"), list(_end(conn, "active")))
    yield from page.listing(_label("passive"), list(_end(conn, "passive")))
    yield from page.listing(_label("times"), list(_times(conn, page.calendar)))
    parameters = message_summary.parameters(conn.request, conn.reply)
    yield from page.listing(_label("timers"), [f"{label} {value}" for label, value in parameters])
    if refusal:
        yield from page.hanging(_label("refused"), page.text(refusal, "red"))
    terms = re.split(r"(?<=&&) |(?<=\|\|) ", filters.of(conn))
    yield from page.listing(_label("filter"), terms, separator="")


def _label(text: str) -> Text:
    return Text(f"  {text:<{_LABEL}}", style.QUIET)


def _end(conn: Connection, role: Role) -> Iterator[str]:
    end = conn.end(role)
    name, port = formatting.end_name(end), formatting.address(end.address)
    yield name if name.startswith(port) else f"{name} at {port}"
    if end.qpn is not None:
        yield f"QPN {formatting.qpn(end.qpn)}"
    if end.comm_id is not None:
        yield f"{'request' if conn.sidr else 'comm'} id {formatting.comm_id(end.comm_id)}"
    if end.ca_guid is not None:
        yield f"CA {formatting.guid(end.ca_guid)}"
    if end.implementation is not None:
        yield end.implementation.name


def _times(conn: Connection, calendar: Calendar) -> Iterator[str]:
    yield conn.transport
    yield f"opened {calendar.full(conn.opened)}"
    if conn.established is not None and conn.request is not None:
        yield f"set up in {formatting.duration(conn.established - conn.opened)}"
    lasted = conn.lasted()
    if lasted is not None:
        yield f"ended after {formatting.duration(lasted)}"
