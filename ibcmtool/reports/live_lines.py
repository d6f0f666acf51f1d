"""What happens, one line each, for a terminal that scrolls, a pipe or a log: messages, endings, findings.

A line is a row of pieces with their styles: to colour them takes ten times as long as to make them, and a log needs
none.
"""

from __future__ import annotations

from functools import lru_cache

from ibcmtool import formatting, services
from ibcmtool.engine.sink import Received
from ibcmtool.model import CmMessage, Connection, Event, Finding, Step
from ibcmtool.reports import message_summary, style
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page

TYPE_WIDTH = 8  # SIDR_REQ
NUMBER_WIDTH = 6

Pieces = list[tuple[str, str]]  # text and style


class Lines:
    """Makes the lines."""

    def __init__(self, page: Page, clock: Clock, *, several_sources: bool) -> None:
        self._clean = page.clean
        self._arrow = page.glyphs.arrow
        self._clock = clock
        self._several = several_sources
        self._second = lru_cache(maxsize=4)(lambda second: clock.time(second * formatting.SECOND, 0))

    @staticmethod
    def tells(event: Event) -> bool:
        """Whether an event has a line: a message, the first data packet, an end. Findings tell the others better."""
        if event.step is not None:
            return event.kind == event.step.message.type
        return event.kind in ("ENDED", "DATA")

    def event(self, event: Event, received: Received | None) -> Pieces:
        """The line of an event; received: what was received last before it."""
        connection = event.connection
        if event.step is not None:
            return self._message(connection, event.step, received)
        if event.kind == "ENDED" or event.role is None:
            return self._ended(event.time, connection)
        text = f"data from {formatting.end_name(connection.end(event.role))}: its QP is up"
        return [*self._head(event.time, connection, "data", style.QUIET), (self._clean(text), "")]

    def finding(self, finding: Finding, time: int) -> Pieces:
        """A finding in one line; --format jsonl and the summary have its numbers."""
        certainty = "" if finding.confidence == "certain" else f" ({finding.confidence})"
        where = "" if finding.connection is None else f" #{finding.connection}"
        frames = formatting.frames(finding.frames, self._several)
        tail = f" [{frames}]" if frames else ""
        return [
            (f"{self._time(time)}  ", style.QUIET),
            (f" {finding.severity} ", style.SEVERITY_BADGE[finding.severity]),
            (f" {finding.code} {finding.name}", style.SEVERITY[finding.severity]),
            (self._clean(f"{certainty}{where}: {finding.message}{tail}"), ""),
        ]

    def _message(self, connection: Connection, step: Step, received: Received | None) -> Pieces:
        message = step.message
        kind = message.type
        ignored = step.disposition == "ignored"
        name = style.QUIET if ignored else style.BAD if kind == "REJ" else style.HEAD
        about = [self._from_to(message, connection, step.sender)]
        if kind in ("REQ", "SIDR_REQ"):
            about.append(services.connection_service(connection))
        about.append(message_summary.line(message_summary.telling(message, connection)))
        if step.retransmission_of is not None:
            about.append("(again)")
        elif ignored:
            about.append("(ignored)")
        about.append(_origin(message, received))
        return [*self._head(message.time, connection, kind, name), (self._clean("  ".join(filter(None, about))), "")]

    def _from_to(self, message: CmMessage, connection: Connection, sender: str) -> str:
        if sender == "active":
            return f"{formatting.end_name(connection.active)} {self._arrow} {formatting.end_name(connection.passive)}"
        if sender == "passive":
            return f"{formatting.end_name(connection.passive)} {self._arrow} {formatting.end_name(connection.active)}"
        return f"{formatting.address(message.source)} {self._arrow} {formatting.address(message.destination)}"

    def _ended(self, time: int, connection: Connection) -> Pieces:
        lasted = (connection.closed or time) - connection.opened
        return [
            *self._head(time, connection, "end", style.QUIET),
            (formatting.OUTCOMES[connection.outcome], style.OUTCOME[connection.outcome]),
            (self._clean(f" after {formatting.duration(lasted)}  {connection.history}"), ""),
        ]

    def _head(self, time: int, connection: Connection, label: str, name: str) -> Pieces:
        number = f"#{connection.id}"
        return [
            (f"{self._time(time)}  {number:<{NUMBER_WIDTH}} ", style.QUIET),
            (f"{label:<{TYPE_WIDTH}}  ", name),
        ]

    def _time(self, time: int) -> str:
        """The time of day with microseconds; many lines share their second."""
        return f"{self._second(time // formatting.SECOND)}.{time % formatting.SECOND // 1000:06d}"


def _origin(message: CmMessage, received: Received | None) -> str:
    """Direction and program, where the source knows them."""
    if received is None or received.number != message.frame:
        return ""
    inside = ", ".join(filter(None, (received.frame.direction, received.frame.process)))
    return f"[{inside}]" if inside else ""
