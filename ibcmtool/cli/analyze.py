"""`ibcmtool analyze`: the main job."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ibcmtool.cli.jsonl import LineWriter
from ibcmtool.cli.options import (
    ColorChoice,
    ColorOption,
    FilesArgument,
    FormatOption,
    LocalOption,
    PolicyOption,
    QuietOption,
    ThoroughOption,
    paths_of,
    with_filters,
)
from ibcmtool.cli.output import make_console, warn_of_inputs
from ibcmtool.cli.progress import reading
from ibcmtool.digest import Digest
from ibcmtool.filters import Filter, apply, apply_to_stream, at_least
from ibcmtool.model import Finding, InputInfo, Policy, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibcmtool.model import Analysis, Connection

FailOn = Literal["error", "warning", "info", "never"]


@with_filters
def analyze(
    files: FilesArgument,
    policy: PolicyOption = "relaxed",
    output_format: FormatOption = "text",
    show_all: Annotated[
        bool, typer.Option("--all", "-a", help="Show every connection, however many there are.")
    ] = False,
    min_severity: Annotated[
        Severity, typer.Option("--min-severity", help="Leave findings below it out of the report.")
    ] = "info",
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit with 1 when there is a finding this bad or worse.")
    ] = "error",
    color: ColorOption = "auto",
    local: LocalOption = False,
    thorough: ThoroughOption = False,
    quiet: QuietOption = False,
    *,
    chosen: Filter,
) -> None:
    """Connections, what happened to each, who was wrong, on which frames, and what to do.

    Exit code: 0 nothing as bad as --fail-on, 1 there is, 2 an input could not be read, or not to its end
    (what was read is reported all the same). --fail-on judges the chosen connections, whatever --min-severity hides.
    """
    paths = paths_of(files)
    severities: Iterable[Severity]
    inputs: list[InputInfo]
    if output_format == "jsonl":
        writer = LineWriter(sys.stdout, min_severity)
        writer.write(_objects(paths, policy, chosen, thorough))
        inputs, severities = writer.inputs, writer.severities
    else:
        from ibcmtool.reports.json import Document

        inputs, severities = [], set[Severity]()
        keep: AbstractContextManager[Document | Digest]
        keep = Document(policy) if output_format == "json" else nullcontext(Digest(policy, everything=show_all))
        with keep as kept:
            with reading(quiet) as progress:
                for record in _objects(paths, policy, chosen, thorough, progress):
                    if isinstance(record, Finding):
                        severities.add(record.severity)
                        if not at_least(record.severity, min_severity):
                            continue
                    elif isinstance(record, InputInfo):
                        inputs.append(record)
                    kept.add(record)
            if isinstance(kept, Document):
                kept.write(sys.stdout)
            else:
                _render(kept.analysis(), color, show_all, local)
    damaged = warn_of_inputs(inputs)
    bad = fail_on != "never" and any(at_least(severity, fail_on) for severity in severities)
    raise typer.Exit(2 if damaged else int(bad))


def _objects(
    paths: list[str],
    policy: Policy,
    chosen: Filter,
    thorough: bool,
    progress: Callable[[int], None] | None = None,
) -> Iterable[InputInfo | Connection | Finding]:
    """The chosen records: a stream, unless the choice needs all findings first."""
    from ibcmtool.analysis import analyze as analyze_files
    from ibcmtool.analysis import stream

    if not chosen.code:
        return apply_to_stream(chosen, stream(paths, policy, progress, thorough=thorough))
    analysis = apply(chosen, analyze_files(paths, policy, progress, thorough=thorough))
    return [*analysis.connections, *analysis.findings, *analysis.inputs]


def _render(analysis: Analysis, color: ColorChoice, show_all: bool, local: bool) -> None:
    from ibcmtool.reports import text
    from ibcmtool.reports.clock import Clock

    clock = Clock("local" if local else "utc")
    text.render(analysis, make_console(color), all_connections=show_all, clock=clock)
