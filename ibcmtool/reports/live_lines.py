"""What happens, one line each, for a terminal that scrolls, a pipe or a log: messages, endings, findings."""

from __future__ import annotations

from rich.text import Text

from ibcmtool import services, words
from ibcmtool.live.session import Heard
from ibcmtool.model import CmMessage, Connection, Event, Finding, Step
from ibcmtool.reports import style, telling
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page

TYPE_WIDTH = 8  # SIDR_REQ
NUMBER_WIDTH = 6


class Lines:
    """Makes the lines."""

    def __init__(self, page: Page, clock: Clock, *, several_sources: bool) -> None:
        self._page = page
        self._clock = clock
        self._several = several_sources

    @staticmethod
    def tells(event: Event) -> bool:
        """Whether an event has a line: a message, the first data packet, an end. Findings tell the others better."""
        if event.step is not None:
            return event.kind == event.step.message.type
        return event.kind in ("ENDED", "DATA")

    def event(self, event: Event, heard: Heard | None) -> Text:
        """The line of an event; heard: what was heard last before it."""
        connection = event.connection
        if event.step is not None:
            return self._message(connection, event.step, heard)
        if event.kind == "ENDED" or event.role is None:
            return self._ended(event.time, connection)
        text = f"data from {words.end_name(connection.end(event.role))}: its QP is up"
        return self._line(event.time, connection, Text(f"{'data':<{TYPE_WIDTH}}", style.QUIET), text)

    def finding(self, finding: Finding, time: int) -> Text:
        """A finding in one line; --format jsonl and the summary have its numbers."""
        name = style.SEVERITY[finding.severity]
        head = Text.assemble(
            Text(f"{self._clock.time(time)}  ", style.QUIET),
            Text(f" {finding.severity} ", style.SEVERITY_BADGE[finding.severity]),
            " ",
            Text(f"{finding.code} {finding.name}", name),
        )
        certainty = "" if finding.confidence == "certain" else f" ({finding.confidence})"
        where = "" if finding.connection is None else f" #{finding.connection}"
        frames = words.frames(finding.frames, self._several)
        tail = f" [{frames}]" if frames else ""
        return Text.assemble(head, self._page.text(f"{certainty}{where}: {finding.message}{tail}"))

    def _message(self, connection: Connection, step: Step, heard: Heard | None) -> Text:
        message = step.message
        again = step.retransmission_of is not None
        name = style.QUIET if step.disposition == "ignored" else style.BAD if message.type == "REJ" else style.HEAD
        label = Text(f"{message.type:<{TYPE_WIDTH}}", name)
        says = telling.line(telling.telling(message, connection))
        about = [self._from_to(message, connection, step.sender)]
        if message.type in ("REQ", "SIDR_REQ"):
            about.append(services.connection_service(connection))
        about.append(says)
        about.append("(again)" if again else "(ignored)" if step.disposition == "ignored" else "")
        about.append(_origin(message, heard))
        return self._line(message.time, connection, label, "  ".join(filter(None, about)))

    def _from_to(self, message: CmMessage, connection: Connection, sender: str) -> str:
        names = {"active": words.end_name(connection.active), "passive": words.end_name(connection.passive)}
        arrow = self._page.glyphs.arrow
        if sender == "active":
            return f"{names['active']} {arrow} {names['passive']}"
        if sender == "passive":
            return f"{names['passive']} {arrow} {names['active']}"
        return f"{words.address(message.source)} {arrow} {words.address(message.destination)}"

    def _ended(self, time: int, connection: Connection) -> Text:
        label = Text(f"{'end':<{TYPE_WIDTH}}", style.QUIET)
        outcome = Text(words.OUTCOMES[connection.outcome], style.OUTCOME[connection.outcome])
        lasted = connection.closed or time
        rest = f" after {words.duration(lasted - connection.opened)}  {connection.history}"
        return self._line(time, connection, label, Text.assemble(outcome, self._page.text(rest)))

    def _line(self, time: int, connection: Connection, label: Text, rest: str | Text) -> Text:
        body = rest if isinstance(rest, Text) else self._page.text(rest)
        return Text.assemble(
            Text(f"{self._clock.time(time)}  ", style.QUIET),
            Text(f"{'#' + str(connection.id):<{NUMBER_WIDTH}}", style.QUIET),
            " ",
            label,
            "  ",
            body,
        )


def _origin(message: CmMessage, heard: Heard | None) -> str:
    """Direction and program, where the source knows them."""
    if heard is None or heard.number != message.frame:
        return ""
    inside = ", ".join(filter(None, (heard.arrival.direction, heard.arrival.process)))
    return f"[{inside}]" if inside else ""
