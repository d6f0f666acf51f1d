"""`ibcmtool timeline`: the ladder of each connection."""

from __future__ import annotations

import typer

from ibcmtool.cli.options import (
    ClockOffsetOption,
    ColorOption,
    FilesArgument,
    LocalOption,
    PolicyOption,
    QuietOption,
    RedactOption,
    TimewaitModelOption,
    clock_offsets_of,
    paths_of,
    with_filters,
)
from ibcmtool.cli.output import make_console, warn, warn_of_inputs
from ibcmtool.cli.progress import reading
from ibcmtool.views.filters import Filter, apply


@with_filters
def timeline(
    files: FilesArgument,
    policy: PolicyOption = "relaxed",
    timewait_model: TimewaitModelOption = "auto",
    clock_offset: ClockOffsetOption = None,
    color: ColorOption = "auto",
    local: LocalOption = False,
    redact: RedactOption = False,
    quiet: QuietOption = False,
    *,
    chosen: Filter,
) -> None:
    """Each connection as a ladder: messages with their telling fields, states, pauses, timewait and findings.

    Exit code: 0, or 2 when an input could not be read, or not to its end.
    """
    from ibcmtool.engine.files import analyze
    from ibcmtool.reports import ladder
    from ibcmtool.reports.clock import Clock

    paths = paths_of(files)
    offsets = clock_offsets_of(clock_offset, paths)
    with reading(quiet) as progress:
        analysis = analyze(paths, policy, progress, clock_offsets=offsets, timewait_model=timewait_model, redact=redact)
    selection = apply(chosen, analysis)
    if selection.connections:
        ladder.render(selection, make_console(color), clock=Clock("local" if local else "utc"))
    elif not quiet:
        warn("no connection fits the filters" if analysis.connections else "no CM messages, so no connections")
    raise typer.Exit(2 if warn_of_inputs(analysis.inputs) else 0)
