"""`ibcmtool timeline`: the ladder of each connection."""

from __future__ import annotations

import typer

from ibcmtool.cli.analysis import Request, run
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
from ibcmtool.cli.output import make_sink, settings_of, warn, warn_of_inputs
from ibcmtool.views.filters import Filter


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
    from ibcmtool.reports.choice import Choice

    paths = paths_of(files)
    request = Request(paths, policy, timewait_model, clock_offsets_of(clock_offset, paths), redact)
    settings = settings_of(color, local, policy=policy)
    with make_sink("timeline", "text", settings) as sink:
        counted = Choice(sink, Filter(), "info")
        inputs = run(request, chosen, counted, quiet=quiet)
    if not counted.connections and not quiet:
        hidden = chosen and any(info.cm_messages for info in inputs)
        warn("no connection fits the filters" if hidden else "no CM messages, so no connections")
    raise typer.Exit(2 if warn_of_inputs(inputs) else 0)
