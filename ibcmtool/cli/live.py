"""`ibcmtool live`: connections while they happen."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer

from ibcmtool.cli.live_options import (
    CountOption,
    DurationOption,
    ExecOption,
    KeepOption,
    LinesOption,
    LiveFailOnOption,
    LiveFormatOption,
    MaxConnectionsOption,
    RotatedFilesOption,
    RotateOption,
    SourcesArgument,
    WriteOption,
    rotation_of,
)
from ibcmtool.cli.options import (
    ColorOption,
    LocalOption,
    PolicyOption,
    QuietOption,
    RedactOption,
    TimewaitModelOption,
    is_bad,
    with_filters,
)
from ibcmtool.cli.output import make_sink, settings_of, warn
from ibcmtool.formatting import SECOND
from ibcmtool.model import Severity
from ibcmtool.views.filters import Filter


@with_filters
def live(
    source: SourcesArgument,
    policy: PolicyOption = "relaxed",
    timewait_model: TimewaitModelOption = "auto",
    output_format: LiveFormatOption = "text",
    lines: LinesOption = False,
    write: WriteOption = None,
    rotate: RotateOption = None,
    files: RotatedFilesOption = 0,
    duration: DurationOption = None,
    count: CountOption = None,
    min_severity: Annotated[Severity, typer.Option("--min-severity", help="Show no finding below it.")] = "info",
    fail_on: LiveFailOnOption = "error",
    command: ExecOption = None,
    keep: KeepOption = 60.0,
    max_connections: MaxConnectionsOption = 100_000,
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
    from ibcmtool.cli.live_session import Limits, run, stop_request
    from ibcmtool.engine.live import Session
    from ibcmtool.reports.choice import Choice, Tee
    from ibcmtool.reports.hooks import Command
    from ibcmtool.reports.recording import Recording
    from ibcmtool.sources.live import source_of
    from ibcmtool.sources.live.reading import Reading

    rotation = rotation_of(rotate or [], files)
    sources = [source_of(text) for text in source]
    session = Session(sources, policy, timewait_model, most=max_connections, redact=redact)
    settings = settings_of(
        color,
        local,
        policy=policy,
        quiet=quiet,
        scrolling=lines,
        sources=session.sources,
        several_inputs=len(sources) > 1,
        keep=int(keep * SECOND),
    )
    runner = Command(command, "info" if fail_on == "never" else fail_on) if command is not None else None
    with stop_request() as stop, Reading(sources, session.engine.watched) as reading:
        recordings = [Recording(write, rotation, session.sources)] if write is not None else []
        shown = Choice(make_sink("live", output_format, settings), chosen, min_severity, runner)
        hints = not quiet and not shown.shows_hints
        error = run(session, reading, Tee([*recordings, shown]), stop, Limits(duration, count), hints=hints)
    if runner is not None:
        runner.close()
        if runner.passed_over:
            warn(f"--exec was passed over for {runner.passed_over:,} findings: too many at once")
    for note in chain.from_iterable(one.notes for one in sources):
        warn(note)
    if session.engine.evicted:
        evicted = f"{session.engine.evicted:,} connections were let go before their end"
        warn(f"{evicted} (--max-connections {max_connections:,})")
    if error is not None:
        raise error
    bad = is_bad(shown.severities, fail_on)
    raise typer.Exit(2 if any(one.damaged for one in sources) else int(bad))
