"""What happens live, one line each, for a terminal that scrolls, a pipe or a log: messages, endings, findings."""

from __future__ import annotations

from functools import lru_cache

from ibcmtool import formatting, services
from ibcmtool.analysis import Finding
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event, Step
from ibcmtool.packets import CmMessage
from ibcmtool.reports import message_summary, style
from ibcmtool.reports.page import Page, Pieces
from ibcmtool.reports.sink import Settings, Sink
from ibcmtool.reports.text import TextReport

TYPE_WIDTH = 8  # SIDR_REQ
NUMBER_WIDTH = 6


def live_text(settings: Settings) -> Sink:
    """The text of `live`: the report at its end; before it a live view on a terminal, elsewhere a line an event."""
    if settings.quiet:
        return TextReport(settings)
    if Page(settings.console()).width is None or settings.scrolling:
        return LiveLines(settings)
    from ibcmtool.reports.live_view import LiveView

    return LiveView(settings)


class LiveText(TextReport):
    """What shows events while they come: it knows what was received last before each."""

    follows = True
    at_once = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._lines = LineMaker(self._page, several_sources=len(settings.sources) > 1)
        self._received: Received | None = None

    def received(self, received: Received) -> None:
        self._received = received


class LiveLines(LiveText):
    """Writes each line at once."""

    def event(self, event: Event) -> None:
        if has_line(event):
            self._page.write_pieces(self._lines.event(event, self._received))

    def finding(self, finding: Finding, event: Event | None) -> None:
        super().finding(finding, event)
        self._page.write_pieces(self._lines.finding(finding, event))

    def refresh(self, now: int | None) -> None:
        self._page.flush()

    def close(self) -> None:
        self._page.write()
        super().close()


def has_line(event: Event) -> bool:
    """Whether an event has a line: a message, the first data packet, an end. Findings say the others better."""
    if event.step is not None:
        return event.kind == event.step.message.type
    return event.kind in ("ENDED", "DATA")


class LineMaker:
    """Makes the lines."""

    def __init__(self, page: Page, *, several_sources: bool) -> None:
        self._clean = page.clean
        self._arrow = page.glyphs.arrow
        self._several = several_sources
        self._second = lru_cache(maxsize=4)(lambda second: page.calendar.time(second * formatting.SECOND, 0))

    def event(self, event: Event, received: Received | None) -> Pieces:
        """The line of an event; received: what was received last before it."""
        connection = event.connection
        if event.step is not None:
            return self._message(connection, event.step, received)
        if event.kind == "ENDED" or event.role is None:
            return self._ended(event.time, connection)
        text = f"data from {formatting.end_name(connection.end(event.role))}: its QP is up"
        return [*self._head(event.time, connection, "data", style.QUIET), (self._clean(text), "")]

    def finding(self, finding: Finding, event: Event | None) -> Pieces:
        """A finding in one line; --format jsonl and the summary have its numbers."""
        time = event.time if event is not None else finding.time or 0
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
        about.append(message_summary.line(message_summary.telling_fields(message, connection)))
        if step.retransmission_of is not None:
            about.append("(again)")
        elif ignored:
            about.append("(ignored)")
        about.append(_origin(message, received))
        return [*self._head(message.time, connection, kind, name), (self._clean("  ".join(filter(None, about))), "")]

    def _from_to(self, message: CmMessage, connection: Connection, sender: str) -> str:
        ends = [formatting.end_name(connection.active), formatting.end_name(connection.passive)]
        if sender == "unknown":
            ends = [formatting.address(message.source), formatting.address(message.destination)]
        return f" {self._arrow} ".join(reversed(ends) if sender == "passive" else ends)

    def _ended(self, time: int, connection: Connection) -> Pieces:
        lasted = (connection.closed or time) - connection.opened
        after = f" after {formatting.duration(lasted)}" if lasted >= 0 else ""  # a clock was set back in between
        return [
            *self._head(time, connection, "end", style.QUIET),
            (formatting.OUTCOMES[connection.outcome], style.OUTCOME[connection.outcome]),
            (self._clean(f"{after}  {connection.history}"), ""),
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
