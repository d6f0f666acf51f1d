"""Sinks that keep what they are given, for a report that is written at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibcmtool.model import Connection, Event, Finding, InputInfo
from ibcmtool.reports.sink import Sink

if TYPE_CHECKING:
    from ibcmtool.views.digest import Digest
    from ibcmtool.views.rows import Rows


class Keeping(Sink):
    """Hands everything to a view, which keeps of it what a report can show."""

    def __init__(self, view: Digest | Rows) -> None:
        self._view = view

    def connection(self, connection: Connection) -> None:
        self._view.add_connection(connection)

    def finding(self, finding: Finding, event: Event | None) -> None:
        self._view.add_finding(finding)

    def input(self, info: InputInfo) -> None:
        self._view.inputs.append(info)
