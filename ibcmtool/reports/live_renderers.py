"""The faces of a live analysis: the screen of a terminal, lines that scroll, JSON lines, silence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ibcmtool.engine.live import SourceStatus
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event, Finding, InputInfo
from ibcmtool.reports import text
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.live_json import JsonLines
from ibcmtool.reports.live_lines import Lines, Pieces
from ibcmtool.reports.live_view import LiveView
from ibcmtool.reports.page import Page
from ibcmtool.views.digest import Digest
from ibcmtool.views.live_state import LiveState


class Quiet:
    """Nothing but the summary at the end: for services, whose findings go to --exec and --write."""

    def __init__(self, page: Page, clock: Clock) -> None:
        self._page = page
        self._clock = clock

    shows_hints = False
    follows = False

    def received(self, received: Received) -> None:
        pass

    def event(self, event: Event) -> None:
        pass

    def finding(self, finding: Finding, time: int) -> None:
        pass

    def connection(self, connection: Connection) -> None:
        pass

    def refresh(self, now: int | None) -> None:
        pass

    def close(self, inputs: list[InputInfo], digest: Digest) -> None:
        analysis, attempts = digest.analysis(), digest.attempts()
        text.render(analysis, self._page.console, all_connections=False, clock=self._clock, attempts=attempts)


class _Telling(Quiet):
    """What the two have in common that tell of messages."""

    follows = True
    _received: Received | None = None

    def received(self, received: Received) -> None:
        """The next event with a step is of this message."""
        self._received = received


class Scrolling(_Telling):
    """One line an event, written at once."""

    def __init__(self, page: Page, clock: Clock, *, several_sources: bool) -> None:
        super().__init__(page, clock)
        self._lines = Lines(page, clock, several_sources=several_sources)
        self._coloured = page.console.color_system is not None
        self._out = page.console.file

    def event(self, event: Event) -> None:
        if self._lines.tells(event):
            self._write(self._lines.event(event, self._received))

    def finding(self, finding: Finding, time: int) -> None:
        self._write(self._lines.finding(finding, time))

    def refresh(self, now: int | None) -> None:
        self._page.flush()
        self._out.flush()

    def close(self, inputs: list[InputInfo], digest: Digest) -> None:
        self._page.flush()
        self._out.write("\n")
        super().close(inputs, digest)

    def _write(self, pieces: Pieces) -> None:
        if self._coloured:
            self._page.write(Text.assemble(*pieces))
        else:
            self._out.write("".join([text for text, _ in pieces]).rstrip() + "\n")


class Screen(_Telling):
    """The live view; when it ends, the summary stands where the shell's prompt will be."""

    shows_hints = True

    def __init__(self, page: Page, clock: Clock, sources: Sequence[SourceStatus], keep: int) -> None:
        super().__init__(page, clock)
        self._lines = Lines(page, clock, several_sources=len(sources) > 1)
        self._live_state = LiveState(keep)
        self._view = LiveView(page, clock, self._live_state, sources, self._lines)
        self._view.open()

    def event(self, event: Event) -> None:
        self._live_state.event(event)
        if self._lines.tells(event):
            self._view.event(event, self._received)

    def finding(self, finding: Finding, time: int) -> None:
        self._live_state.finding(finding)
        self._view.line(Text.assemble(*self._lines.finding(finding, time)))

    def refresh(self, now: int | None) -> None:
        self._view.draw(now)

    def close(self, inputs: list[InputInfo], digest: Digest) -> None:
        self._view.close()
        super().close(inputs, digest)


class Json:
    """JSON lines, written at once."""

    shows_hints = False
    follows = True

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines
        self.received = lines.received
        self.event = lines.event
        self.connection = lines.connection

    def finding(self, finding: Finding, time: int) -> None:
        self._lines.finding(finding)

    def refresh(self, now: int | None) -> None:
        self._lines.flush()

    def close(self, inputs: list[InputInfo], digest: Digest) -> None:
        for info in inputs:
            self._lines.input(info)
        self._lines.summary()
        self._lines.flush()
