"""`ibcmtool live`: connections while they happen."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ibcmtool.cli.options import (
    ColorOption,
    FailOn,
    LocalOption,
    PolicyOption,
    QuietOption,
    RedactOption,
    TimewaitModelOption,
    with_filters,
)
from ibcmtool.cli.output import make_console, warn
from ibcmtool.formatting import SECOND
from ibcmtool.model import Severity
from ibcmtool.sources.live import SOURCES, usage
from ibcmtool.views.filters import Filter, at_least

if TYPE_CHECKING:
    from ibcmtool.cli.options import ColorChoice
    from ibcmtool.engine.live import Session
    from ibcmtool.reports.live_output import Output, Renderer
    from ibcmtool.reports.recording import Rotation
    from ibcmtool.sources.live.reading import Reading

LiveFormat = Literal["text", "jsonl"]

WAIT = 0.1  # seconds between two looks at the clock while nothing arrives
TICK = 0.2  # seconds after which time passes for the tracker, and the output is brought up to date
STORM = 100  # packets at once; fewer are shown at once, more with the next tick
HINT_AFTER = 5.0  # seconds of silence
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _seconds(text: str | float) -> float:
    """A duration: 90, 90s, 10m, 2h, 1d. (Typer parses default values, too.)"""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?", str(text))
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration (90, 90s, 10m, 2h or 1d)")
    return float(found[1]) * UNITS[found[2] or ""]


def _limit(text: str) -> str:
    _rotation([text], 0)
    return text


def _rotation(texts: list[str], keep: int) -> Rotation:
    from ibcmtool.reports.recording import Rotation

    size = span = 0
    for text in texts:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]i?B)", text)
        if found is not None:
            size = int(float(found[1]) * SIZES[found[2]])
        else:
            try:
                span = int(_seconds(text) * SECOND)
            except typer.BadParameter:
                raise typer.BadParameter(f"{text!r} is neither a size (100MB) nor a duration (1h)") from None
    return Rotation(size, span, keep)


@with_filters
def live(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help=usage(SOURCES, ", ") + ". `ibcmtool sources` says which of them this host has.",
        ),
    ],
    policy: PolicyOption = "relaxed",
    timewait_model: TimewaitModelOption = "auto",
    output_format: Annotated[
        LiveFormat, typer.Option("--format", "-f", help="text: a live view on a terminal, elsewhere a line an event.")
    ] = "text",
    lines: Annotated[bool, typer.Option("--lines", help="A line an event on a terminal, too.")] = False,
    write: Annotated[
        str | None,
        typer.Option(
            "--write", "-w", metavar="FILE", help="Also write the CM packets as pcapng, findings as packet comments."
        ),
    ] = None,
    rotate: Annotated[
        list[str] | None,
        typer.Option(
            "--rotate", metavar="LIMIT", parser=_limit, help="Begin a new file at this size (100MB) or age (1h)."
        ),
    ] = None,
    files: Annotated[
        int, typer.Option("--files", min=0, metavar="N", help="Keep the newest N files of --rotate; 0 keeps all.")
    ] = 0,
    duration: Annotated[
        float | None,
        typer.Option("--duration", metavar="TIME", parser=_seconds, help="Stop after this time (90s, 2h)."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="Stop after N CM messages.")] = None,
    min_severity: Annotated[Severity, typer.Option("--min-severity", help="Show no finding below it.")] = "info",
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on", help="Exit with 1 when there was a finding this bad or worse; --exec runs for those."
        ),
    ] = "error",
    command: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="CMD", help="Run a shell command at each finding as bad as --fail-on: JSON on its stdin."
        ),
    ] = None,
    keep: Annotated[
        float,
        typer.Option("--keep", metavar="TIME", parser=_seconds, help="How long the view shows ended connections."),
    ] = 60.0,
    max_connections: Annotated[
        int,
        typer.Option(
            "--max-connections", min=1, metavar="N", help="Connections remembered at once; the oldest go first."
        ),
    ] = 100_000,
    color: ColorOption = "auto",
    local: LocalOption = False,
    redact: RedactOption = False,
    quiet: QuietOption = False,
    *,
    chosen: Filter,
) -> None:
    """Every CM message as it happens, connections and findings at once; Ctrl-C ends it with the report of analyze.

    --quiet shows the final report only, for use under a service manager. Exit code as of analyze: 0 nothing as bad as
    --fail-on, 1 there was, 2 a source that this host does not have, or that was damaged.
    """
    from ibcmtool.engine.live import Session
    from ibcmtool.reports.hooks import Command, notify
    from ibcmtool.reports.live_output import Output
    from ibcmtool.reports.recording import Recording
    from ibcmtool.sources.live import source_of
    from ibcmtool.sources.live.reading import Reading

    rotation = _rotation(rotate or [], files)
    sources = [source_of(text) for text in source]
    session = Session(sources, policy, timewait_model, most=max_connections, redact=redact)
    with _ending() as ending, Reading(sources, session.engine.watched) as reading:
        recording = Recording(write, rotation, session.sources) if write is not None else None
        runner = Command(command) if command is not None else None
        front = _front(output_format, session, color, local, lines=lines, quiet=quiet, keep=keep)
        session.engine.sink = output = Output(
            front,
            policy,
            chosen,
            min_severity,
            recording=recording,
            command=runner,
            command_bar="info" if fail_on == "never" else fail_on,
        )
        notify("READY=1")
        try:
            error = _watch(session, reading, output, ending, duration, count, quiet=quiet or front.shows_hints)
        finally:
            # However it ends, what was found so far is told.
            reading.stop()
            for batch in reading.rest():
                session.take(batch.source, batch.frames)
            notify("STOPPING=1")
            output.close(session)
    if runner is not None:
        runner.wait(5.0)
        if runner.passed_over:
            warn(f"--exec was passed over for {runner.passed_over:,} findings: too many at once")
    for one in sources:
        for note in one.notes:
            warn(note)
    evicted = session.engine.evicted
    if evicted:
        warn(f"{evicted:,} connections were let go before their end (--max-connections {max_connections:,})")
    if error is not None:
        raise error
    bad = fail_on != "never" and any(at_least(severity, fail_on) for severity in output.severities)
    raise typer.Exit(2 if any(one.damaged for one in sources) else int(bad))


def _front(
    output_format: LiveFormat,
    session: Session,
    color: ColorChoice,
    local: bool,
    *,
    lines: bool,
    quiet: bool,
    keep: float,
) -> Renderer:
    from ibcmtool.reports import live_renderers
    from ibcmtool.reports.clock import Clock

    if output_format == "jsonl":
        from ibcmtool.reports.live_json import JsonLines

        return live_renderers.Json(JsonLines(sys.stdout))
    from ibcmtool.reports.page import Page

    page, clock = Page(make_console(color)), Clock("local" if local else "utc")
    if quiet:
        return live_renderers.Quiet(page, clock)
    if page.width is not None and not lines:
        return live_renderers.Screen(page, clock, session.sources, int(keep * SECOND))
    return live_renderers.Scrolling(page, clock, several_sources=len(session.sources) > 1)


class Ending:
    """Set by the first signal that asks us to end; the second one ends us at once."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, number: int, _frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def _ending() -> Iterator[Ending]:
    """Signals that end a program become a flag, so that sources can put everything back in order.

    A reader of our output that goes away must not kill us either: the write fails instead.
    """
    ending = Ending()
    before = {number: signal.signal(number, ending.ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(
    session: Session,
    reading: Reading,
    output: Output,
    ending: Ending,
    duration: float | None,
    count: int | None,
    *,
    quiet: bool,
) -> BaseException | None:
    """Until a signal, a limit, or the end of all sources. Returns why a source failed, if one did."""
    begun = ticked = time.monotonic()
    hinted = quiet
    while not ending.asked:
        now = time.monotonic()
        if duration is not None and now - begun >= duration:
            return None
        batch = reading.next(WAIT)
        if batch is not None:
            session.take(batch.source, batch.frames)
            if len(batch.frames) < STORM:
                output.refresh(session.now())
            if batch.ended:
                session.end(batch.source)
                if batch.error is not None:
                    return batch.error
                if all(status.ended for status in session.sources):
                    return None
            if count is not None and sum(status.info.cm_messages for status in session.sources) >= count:
                return None
        if now - ticked >= TICK:
            ticked = now
            session.pass_time()
            output.refresh(session.now())
        if not hinted and now - begun > HINT_AFTER:
            hinted = True
            for status in session.sources:
                if status.last is None and status.source.silence:
                    warn(f"{status.source.name}: nothing yet; {status.source.silence}")
    return None
