"""`ibcmtool analyze`: the main job."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ibcmtool.cli.jsonl import LineWriter
from ibcmtool.cli.options import (
    ByOption,
    ClockOffsetOption,
    ColorChoice,
    ColorOption,
    FailOn,
    FilesArgument,
    Format,
    FormatOption,
    LocalOption,
    PolicyOption,
    QuietOption,
    RedactOption,
    ThoroughOption,
    TimewaitModelOption,
    clock_offsets_of,
    paths_of,
    with_filters,
)
from ibcmtool.cli.output import make_console, warn_of_inputs
from ibcmtool.cli.progress import reading
from ibcmtool.model import Finding, InputInfo, Policy, Severity
from ibcmtool.views.filters import Filter, apply, apply_to_stream, at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibcmtool.model import Connection
    from ibcmtool.reports.json import Document
    from ibcmtool.views.digest import Digest
    from ibcmtool.views.rows import Rows


@with_filters
def analyze(
    files: FilesArgument,
    policy: PolicyOption = "relaxed",
    timewait_model: TimewaitModelOption = "auto",
    clock_offset: ClockOffsetOption = None,
    output_format: FormatOption = "text",
    by: ByOption = None,
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
    thorough: ThoroughOption = False,
    redact: RedactOption = False,
    quiet: QuietOption = False,
    *,
    chosen: Filter,
) -> None:
    """Connections, what happened to each, who was wrong, on which frames, and what to do.

    Exit code: 0 nothing as bad as --fail-on, 1 there is, 2 an input could not be read, or not to its end
    (what was read is reported all the same). --fail-on judges the chosen connections, whatever --min-severity hides.
    """
    paths = paths_of(files)
    options: dict[str, Any] = {
        "thorough": thorough,
        "clock_offsets": clock_offsets_of(clock_offset, paths),
        "timewait_model": timewait_model,
        "redact": redact,
    }
    severities: Iterable[Severity]
    inputs: list[InputInfo]
    if output_format == "jsonl" and by is None:
        writer = LineWriter(sys.stdout, min_severity)
        writer.write(_objects(paths, policy, chosen, options))
        inputs, severities = writer.inputs, writer.severities
    else:
        inputs, severities = [], set[Severity]()
        with _keeper(output_format, policy, by, show_all, len(paths)) as kept:
            with reading(quiet) as progress:
                for record in _objects(paths, policy, chosen, options, progress):
                    if isinstance(record, Finding):
                        severities.add(record.severity)
                        if not at_least(record.severity, min_severity):
                            continue
                    elif isinstance(record, InputInfo):
                        inputs.append(record)
                    kept.add(record)
            _report(kept, output_format, color, show_all, local)
    damaged = warn_of_inputs(inputs)
    bad = fail_on != "never" and any(at_least(severity, fail_on) for severity in severities)
    raise typer.Exit(2 if damaged else int(bad))


def _objects(
    paths: list[str],
    policy: Policy,
    chosen: Filter,
    options: dict[str, Any],
    progress: Callable[[int], None] | None = None,
) -> Iterable[InputInfo | Connection | Finding]:
    """The chosen records: a stream, unless the choice needs all findings first. `options` are those of both."""
    from ibcmtool.engine.files import analyze as analyze_files
    from ibcmtool.engine.files import stream

    if not chosen.code:
        return apply_to_stream(chosen, stream(paths, policy, progress, **options))
    analysis = apply(chosen, analyze_files(paths, policy, progress, **options))
    return [*analysis.connections, *analysis.findings, *analysis.inputs]


def _keeper(
    output_format: Format, policy: Policy, by: ByOption, show_all: bool, inputs: int
) -> AbstractContextManager[Document | Digest | Rows]:
    """What takes the records and keeps of them what the report shows."""
    if by is not None:
        from ibcmtool.views.rows import Rows

        return nullcontext(Rows(by, policy, several_inputs=inputs > 1))
    if output_format == "json":
        from ibcmtool.reports.json import Document

        return Document(policy)
    from ibcmtool.views.digest import Digest

    return nullcontext(Digest(policy, everything=show_all))


def _report(
    kept: Document | Digest | Rows, output_format: Format, color: ColorChoice, show_all: bool, local: bool
) -> None:
    from ibcmtool.reports.clock import Clock
    from ibcmtool.views.digest import Digest

    clock = Clock("local" if local else "utc")
    if isinstance(kept, Digest):
        from ibcmtool.reports import text

        console, attempts = make_console(color), kept.attempts()
        text.render(kept.analysis(), console, all_connections=show_all, clock=clock, attempts=attempts)
        return
    from ibcmtool.reports import by_json, by_text
    from ibcmtool.reports.json import Document

    if isinstance(kept, Document):
        kept.write(sys.stdout)
    elif output_format == "text":
        by_text.render(kept.view(), make_console(color), all_rows=show_all, clock=clock)
    elif output_format == "json":
        by_json.write(kept.view(), sys.stdout)
    else:
        by_json.write_lines(kept.view(), sys.stdout)
