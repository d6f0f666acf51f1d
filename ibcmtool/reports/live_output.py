"""Who is told what: the records of a session go to the front, to a file, to a command, and into the summary."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from ibcmtool.engine.live import Session
from ibcmtool.engine.sink import Received, Sink
from ibcmtool.model import Connection, Event, Finding, InputInfo, Policy, Severity
from ibcmtool.reports.hooks import Command
from ibcmtool.reports.recording import Recording
from ibcmtool.views.digest import Digest
from ibcmtool.views.filters import Filter, at_least

FLAGGED = 100_000  # connections remembered for which a wanted code was found


class Renderer(Protocol):
    """What a person or a program sees while it happens (fronts.py)."""

    shows_hints: bool  # what a source says of itself needs no other place
    follows: bool  # whether `received` and `event` are to be called

    def received(self, received: Received) -> None: ...

    def event(self, event: Event) -> None: ...

    def finding(self, finding: Finding, time: int) -> None: ...

    def connection(self, connection: Connection) -> None: ...

    def refresh(self, now: int | None) -> None:
        """Called some times a second; now: the time of the packets."""

    def close(self, inputs: list[InputInfo], digest: Digest) -> None:
        """The end, with the summary."""


class Output(Sink):
    """A session's sink. What is not chosen is counted nowhere and shown nowhere, but recorded."""

    def __init__(
        self,
        front: Renderer,
        policy: Policy,
        chosen: Filter,
        min_severity: Severity,
        *,
        recording: Recording | None = None,
        command: Command | None = None,
        command_bar: Severity = "error",
    ) -> None:
        self._renderer = front
        self._chosen = chosen
        self._all_fit = not chosen
        self._min_severity = min_severity
        self._recording = recording
        self.follows = front.follows or recording is not None
        self._command = command
        self._command_bar = command_bar
        self._digest = Digest(policy)
        self._flagged: set[int] = set()
        self._inputs: list[InputInfo] = []
        self.severities: Counter[Severity] = Counter()  # of all chosen findings, shown or not

    def received(self, received: Received) -> None:
        self._renderer.received(received)
        if self._recording is not None:
            self._recording.received(received)

    def event(self, event: Event) -> None:
        if self._all_fit or self._fits(event.connection):
            self._renderer.event(event)

    def finding(self, finding: Finding, event: Event | None) -> None:
        if self._recording is not None:
            self._recording.finding(finding, event)
        if self._chosen.code:
            if not self._chosen.asks_for(finding):
                return
            if finding.connection is not None and len(self._flagged) < FLAGGED:
                self._flagged.add(finding.connection)
        elif self._chosen and (event is None or not self._chosen.matches(event.connection)):
            return
        self.severities[finding.severity] += 1
        if at_least(finding.severity, self._min_severity):
            self._digest.add(finding)
            self._renderer.finding(finding, event.time if event is not None else finding.time or 0)
        if self._command is not None and at_least(finding.severity, self._command_bar):
            from ibcmtool.reports.json import finding_object

            self._command.run(finding, finding_object(finding))

    def connection(self, connection: Connection) -> None:
        if self._all_fit or self._fits(connection):
            self._digest.add(connection)
            self._renderer.connection(connection)
        self._flagged.discard(connection.id)

    def input(self, info: InputInfo) -> None:
        self._inputs.append(info)
        self._digest.add(info)

    def refresh(self, now: int | None) -> None:
        if self._recording is not None:
            self._recording.flush()
        self._renderer.refresh(now)

    def close(self, session: Session) -> None:
        """The last records, and the summary."""
        session.finish()
        if self._recording is not None:
            self._recording.close(session.now() or 0)
        self._renderer.close(self._inputs, self._digest)

    def _fits(self, connection: Connection) -> bool:
        chosen = self._chosen
        return chosen.matches(connection) and (not chosen.code or connection.id in self._flagged)
