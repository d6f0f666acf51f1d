"""`ibcmtool live`: connections while they happen."""

from __future__ import annotations

import typer

from ibcmtool.cli.live_options import LiveOptions, rotation_of
from ibcmtool.cli.options import Filters, is_bad, with_options
from ibcmtool.cli.output import make_sink, settings_of, warn
from ibcmtool.formatting import SECOND


@with_options
def live(options: LiveOptions, filters: Filters) -> None:
    """Every CM message as it happens, connections and findings at once; Ctrl-C ends it with the report of analyze.

    --quiet shows the final report only, for use under a service manager. Exit code as of analyze: 0 nothing as bad as
    --fail-on, 1 there was, 2 a source that this host does not have, or that was damaged.
    """
    from ibcmtool.cli.live_session import Limits, Notes, run, stop_request
    from ibcmtool.engine.live import Session
    from ibcmtool.reports.choice import Choice, Tee
    from ibcmtool.reports.hooks import Command
    from ibcmtool.reports.recording import Recording
    from ibcmtool.sources.live import source_of
    from ibcmtool.sources.live.reading import Reading

    rotation = rotation_of(options.rotate or [], options.files)
    sources = [source_of(text) for text in options.source]
    most, fail_on, command = options.max_connections, options.fail_on, options.command
    session = Session(sources, options.policy, options.timewait_model, most=most, redact=options.redact)
    settings = settings_of(
        options.color,
        options.local,
        policy=options.policy,
        quiet=options.quiet,
        scrolling=options.lines,
        sources=session.sources,
        several_inputs=len(sources) > 1,
        keep=int(options.keep * SECOND),
    )
    runner = Command(command, "info" if fail_on == "never" else fail_on) if command is not None else None
    with stop_request() as stop, Reading(sources, session.watched) as reading:
        recordings = [Recording(options.write, rotation, session.sources)] if options.write is not None else []
        sink = make_sink("live", options.output_format, settings)
        shown = Choice(sink, filters.chosen, options.min_severity, runner)
        hints = not options.quiet and not shown.shows_hints
        limits = Limits(options.duration, options.count)
        notes = Notes(sources, shown=shown.shows_hints)
        error = run(session, reading, Tee([*recordings, shown]), stop, limits, notes, hints=hints)
    if runner is not None:
        runner.close()
        if runner.passed_over:
            warn(f"--exec was passed over for {runner.passed_over:,} findings: too many at once")
    notes.tell(last=True)
    if session.engine.evicted:
        warn(f"{session.engine.evicted:,} connections were let go before their end (--max-connections {most:,})")
    if error is not None:
        raise error
    bad = is_bad(shown.severities, fail_on)
    raise typer.Exit(2 if any(one.damaged for one in sources) else int(bad))
