"""What stands between a run and its sinks: some records go to several, and not every record is wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ibcmtool.analysis import Finding, InputInfo, Severity
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event
from ibcmtool.reports.sink import Sink
from ibcmtool.views.filters import Filter, at_least

FLAGGED = 100_000  # connections remembered for which a wanted code was found


class Tee(Sink):
    """Hands everything to several sinks."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._following = [sink for sink in sinks if sink.follows]
        self.follows = bool(self._following)
        self.at_once = any(sink.at_once for sink in sinks)
        self.shows_hints = any(sink.shows_hints for sink in sinks)

    def received(self, received: Received) -> None:
        for sink in self._following:
            sink.received(received)

    def event(self, event: Event) -> None:
        for sink in self._following:
            sink.event(event)

    def finding(self, finding: Finding, event: Event | None) -> None:
        for sink in self._sinks:
            sink.finding(finding, event)

    def connection(self, connection: Connection) -> None:
        for sink in self._sinks:
            sink.connection(connection)

    def input(self, info: InputInfo) -> None:
        for sink in self._sinks:
            sink.input(info)

    def refresh(self, now: int | None) -> None:
        for sink in self._sinks:
            sink.refresh(now)

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


class Choice(Tee):
    """Hands on what a person chose: connections that fit the filter, findings about them that are bad enough.

    It remembers what the exit code depends on: the severities of all findings that were chosen, shown or not. `alarm`
    gets the chosen findings whatever their severity.
    """

    def __init__(self, sink: Sink, chosen: Filter, min_severity: Severity, alarm: Sink | None = None) -> None:
        super().__init__([sink])
        self._sink = sink
        self._chosen = chosen
        self._all_fit = not chosen
        self._min_severity = min_severity
        self._alarm = alarm
        self._flagged: set[int] = set()
        self.severities: Counter[Severity] = Counter()
        self.connections = 0  # that were chosen

    def event(self, event: Event) -> None:
        if self._all_fit or self._fits(event.connection):
            self._sink.event(event)

    def finding(self, finding: Finding, event: Event | None) -> None:
        chosen = self._chosen
        if chosen.code:
            if not chosen.asks_for(finding):
                return
            if finding.connection is not None and len(self._flagged) < FLAGGED:
                self._flagged.add(finding.connection)
        elif chosen and (event is None or not chosen.matches(event.connection)):
            return
        self.severities[finding.severity] += 1
        if at_least(finding.severity, self._min_severity):
            self._sink.finding(finding, event)
        if self._alarm is not None:
            self._alarm.finding(finding, event)

    def connection(self, connection: Connection) -> None:
        if self._all_fit or self._fits(connection):
            self.connections += 1
            self._sink.connection(connection)
        self._flagged.discard(connection.id)

    def _fits(self, connection: Connection) -> bool:
        chosen = self._chosen
        return chosen.matches(connection) and (not chosen.code or connection.id in self._flagged)
