"""`ibcmtool analyze`: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from ibcmtool.analysis import By, Severity
from ibcmtool.cli.analysis import Analysed, run
from ibcmtool.cli.options import (
    ColorOption,
    FailOn,
    Filters,
    LocalOption,
    QuietOption,
    RedactOption,
    format_option,
    is_bad,
    with_options,
)
from ibcmtool.cli.output import make_sink, settings_of, warn_of_inputs
from ibcmtool.reports.choice import Choice
from ibcmtool.views.filters import Filter


@with_options
def analyze(
    analysed: Analysed,
    output_format: Annotated[str, format_option("analyze", "analyze --by")] = "text",
    by: Annotated[
        By | None,
        typer.Option(
            "--by", help="Totals over the connections of each pair of nodes, target or service, instead of a list."
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", "-a", help="Show every connection (--by: every row), however many there are.")
    ] = False,
    min_severity: Annotated[
        Severity, typer.Option("--min-severity", help="Leave findings below it out of the report.")
    ] = "info",
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit with 1 when there is a finding this bad or worse.")
    ] = "error",
    color: ColorOption = "auto",
    local: LocalOption = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Decode every frame, not only those that can hold a CM message; slow, same result."
        ),
    ] = False,
    redact: RedactOption = False,
    quiet: QuietOption = False,
    *,
    filters: Filters,
) -> None:
    """Connections, what happened to each, who was wrong, on which frames, and what to do.

    Exit code: 0 nothing as bad as --fail-on, 1 there is, 2 an input could not be read, or not to its end
    (what was read is reported all the same). --fail-on judges the chosen connections, whatever --min-severity hides.
    """
    settings = settings_of(
        color,
        local,
        policy=analysed.policy,
        several_inputs=len(analysed.paths) > 1,
        everything=show_all,
        by=by or "pair",
    )
    with make_sink("analyze" if by is None else "analyze --by", output_format, settings) as sink:
        counted = Choice(sink, Filter(), min_severity)
        inputs = run(analysed, filters.chosen, counted, redact=redact, quiet=quiet, thorough=thorough)
    damaged = warn_of_inputs(inputs)
    raise typer.Exit(2 if damaged else int(is_bad(counted.severities, fail_on)))
