"""`ibcmtool timeline`: the ladder of each connection."""

from __future__ import annotations

import typer

from ibcmtool.cli.analysis import Analysed, run
from ibcmtool.cli.options import ColorOption, Filters, LocalOption, QuietOption, RedactOption, with_options
from ibcmtool.cli.output import make_sink, settings_of, warn, warn_of_inputs
from ibcmtool.reports.choice import Choice
from ibcmtool.views.filters import Filter


@with_options
def timeline(
    analysed: Analysed,
    color: ColorOption = "auto",
    local: LocalOption = False,
    redact: RedactOption = False,
    quiet: QuietOption = False,
    *,
    filters: Filters,
) -> None:
    """Each connection as a ladder: messages with their telling fields, states, pauses, timewait and findings.

    Exit code: 0, or 2 when an input could not be read, or not to its end.
    """
    chosen = filters.chosen
    with make_sink("timeline", "text", settings_of(color, local, policy=analysed.policy)) as sink:
        counted = Choice(sink, Filter(), "info")
        inputs = run(analysed, chosen, counted, redact=redact, quiet=quiet)
    if not counted.connections and not quiet:
        hidden = chosen and any(info.cm_messages for info in inputs)
        warn("no connection fits the filters" if hidden else "no CM messages, so no connections")
    raise typer.Exit(2 if warn_of_inputs(inputs) else 0)
