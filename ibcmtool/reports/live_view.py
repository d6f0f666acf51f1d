"""The live view of a terminal: sources and rates, connections by state, findings pinned, the newest events below."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ibcmtool import formatting, services
from ibcmtool.analysis import Finding
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event
from ibcmtool.reports import columns, style
from ibcmtool.reports.columns import Column
from ibcmtool.reports.live_lines import LiveText, has_line
from ibcmtool.reports.sink import Settings
from ibcmtool.views.live_state import LiveState, Rate

A_SECOND = 4  # times that the screen is drawn
EVENTS = 200  # lines remembered
FEWEST = 3  # lines that findings, connections and events have at least


class LiveView(LiveText):
    """Draws on the whole screen until it is closed; then the report stands where the shell's prompt will be."""

    shows_hints = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._console: Console = self._page.console
        self._sources = settings.sources
        self._live_state = LiveState(settings.keep)
        self._rates = [Rate() for _ in settings.sources]
        # The line of an event is made only if it comes to be drawn: in a storm few do.
        self._events: deque[Text | tuple[Event, Received | None]] = deque(maxlen=EVENTS)
        self._began = time.monotonic()
        self._drawn = 0.0
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._live.start()

    def event(self, event: Event) -> None:
        self._live_state.event(event)
        if has_line(event):
            self._events.append((event, self._received))

    def finding(self, finding: Finding, event: Event | None) -> None:
        super().finding(finding, event)
        self._live_state.finding(finding)
        self._events.append(Text.assemble(*self._lines.finding(finding, event)))

    def refresh(self, now: int | None) -> None:
        """The screen anew, if it is time."""
        moment = time.monotonic()
        if moment - self._drawn >= 1 / A_SECOND:
            self._drawn = moment
            self._live.update(Group(*self._screen(moment, now)), refresh=True)

    def close(self) -> None:
        self._live.stop()  # the screen is what it was before
        super().close()

    def abort(self) -> None:
        self._live.stop()

    def _screen(self, moment: float, now: int | None) -> list[Text]:
        height, width = self._console.height, self._console.width
        top = [*self._head(moment, now), *self._states()]
        room = max(height - len(top) - 3, 3 * FEWEST)  # three headings
        findings = [self._finding(finding) for finding in self._live_state.pinned(max(FEWEST, room // 4))]
        rows = self._live_state.connections(max(FEWEST, room // 3), now or 0)
        table = list(columns.draw(self._page, self._columns(rows, now or 0))) if rows else []
        lines = top
        if findings:
            lines += [self._heading("findings"), *findings]
        if table:
            lines += [self._heading("connections"), *table]
        lines.append(self._heading("events"))
        left = max(height - len(lines), FEWEST)
        for one in list(self._events)[-left:]:
            lines.append(one if isinstance(one, Text) else Text.assemble(*self._lines.event(*one)))
        return [self._cut(line, width) for line in lines[:height]]

    def _head(self, moment: float, now: int | None) -> Iterator[Text]:
        running = formatting.duration(int(moment - self._began) * formatting.SECOND)
        at = f"  {self._page.calendar.full(now, 0)}" if now is not None else ""
        yield Text.assemble(("ibcmtool live", style.HEAD), self._page.text(f"{at}  running {running}", style.QUIET))
        for status, rate in zip(self._sources, self._rates, strict=True):
            info, source = status.info, status.source
            facts = [
                formatting.count(info.cm_messages, "CM message"),
                f"{rate.at(moment, info.cm_messages):,.1f}/s",
            ]
            if info.frames != info.cm_messages:
                facts.insert(0, formatting.count(info.frames, "packet"))
            line = Text.assemble("  ", self._page.text(source.name, style.HEAD), "  ", ", ".join(facts))
            if source.dropped:
                line.append(f"  {source.dropped:,} lost", style.BAD)
            if status.ended:
                line.append("  ended", style.DOUBT)
            elif status.last is None:
                line.append(f"  nothing yet: {self._page.clean(source.silence)}", style.QUIET)
            yield line
            for note in source.notes[-2:]:
                yield self._page.text(f"    {note}", style.DOUBT)

    def _states(self) -> Iterator[Text]:
        for title, counts in (("open", self._live_state.now), ("ended", self._live_state.past)):
            parts = [
                Text.assemble(f"{counts[outcome]:,} ", Text(formatting.OUTCOMES[outcome], style.OUTCOME[outcome]))
                for outcome in formatting.OUTCOME_ORDER
                if counts[outcome]
            ]
            if parts:
                yield Text.assemble((f"  {title:<7}", style.QUIET), Text("   ").join(parts))

    def _finding(self, finding: Finding) -> Text:
        name = style.SEVERITY[finding.severity]
        where = "" if finding.connection is None else f" #{finding.connection}"
        return Text.assemble(
            "  ",
            Text(f" {finding.severity} ", style.SEVERITY_BADGE[finding.severity]),
            " ",
            Text(finding.code, name),
            self._page.text(f"{where}  {finding.message}"),
        )

    def _columns(self, rows: Sequence[Connection], now: int) -> list[Column]:
        text, arrow = self._page.text, f" {self._page.glyphs.arrow} "
        ends = [formatting.end_name(one.active) + arrow + formatting.end_name(one.passive) for one in rows]
        states = [Text(formatting.OUTCOMES[one.outcome], style.OUTCOME[one.outcome]) for one in rows]
        table = [
            Column("id", "right", cells=[[Text(str(one.id), "bold")] for one in rows]),
            Column(f"active{arrow}passive", cells=[[text(names)] for names in ends], least=20),
            Column("service", cells=[[text(services.connection_service(one))] for one in rows], least=12),
            Column("state", cells=[[state] for state in states]),
            Column("for", "right", cells=[[Text(_since(one, now))] for one in rows]),
            Column("history", cells=[[text(one.history[-24:])] for one in rows], least=6, enough=12),
        ]
        return table if columns.fits(table, self._console.width, cut=True) else table[:4]

    def _heading(self, title: str) -> Text:
        rule = self._page.glyphs.rule
        return Text(f"{rule * 2} {title} {rule * max(0, self._console.width - len(title) - 4)}", style.QUIET)

    def _cut(self, line: Text, width: int) -> Text:
        line = self._page.elided(line, width)
        line.no_wrap, line.overflow = True, "crop"
        return line


def _since(connection: Connection, now: int) -> str:
    """How long it has been what it is."""
    start = connection.closed or connection.established or connection.opened
    return formatting.duration((max(now - start, 0) // formatting.SECOND) * formatting.SECOND)
