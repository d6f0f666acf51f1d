"""The options of `live`: their types, texts and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ibcmtool.analysis import Severity
from ibcmtool.cli.options import (
    ColorOption,
    FailOn,
    LocalOption,
    PolicyOption,
    QuietOption,
    RedactOption,
    TimewaitModelOption,
    format_option,
)
from ibcmtool.formatting import SECOND
from ibcmtool.sources.live import SOURCES, usage

if TYPE_CHECKING:
    from ibcmtool.reports.recording import Rotation

UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def seconds_of(text: str | float) -> float:
    """A duration: 90, 90s, 10m, 2h, 1d. (Typer parses default values, too.)"""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?", str(text))
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration (90, 90s, 10m, 2h or 1d)")
    return float(found[1]) * UNITS[found[2] or ""]


def rotation_of(texts: list[str], keep: int) -> Rotation:
    """When a recording begins a new file: at a size (100MB), at an age (1h), or at either."""
    from ibcmtool.reports.recording import Rotation

    size = span = 0
    for text in texts:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]i?B)", text)
        if found is not None:
            size = int(float(found[1]) * SIZES[found[2]])
        else:
            try:
                span = int(seconds_of(text) * SECOND)
            except typer.BadParameter:
                raise typer.BadParameter(f"{text!r} is neither a size (100MB) nor a duration (1h)") from None
    return Rotation(size, span, keep)


def _limit(text: str) -> str:
    rotation_of([text], 0)
    return text


@dataclass(frozen=True)
class LiveOptions:
    """All options of `live` but the filters."""

    source: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help=usage(SOURCES, ", ") + ". `ibcmtool sources` says which of them this host has.",
        ),
    ]
    policy: PolicyOption = "relaxed"
    timewait_model: TimewaitModelOption = "auto"
    output_format: Annotated[
        str, format_option("live", about="text: a live view on a terminal, elsewhere a line an event.")
    ] = "text"
    lines: Annotated[bool, typer.Option("--lines", help="A line an event on a terminal, too.")] = False
    write: Annotated[
        str | None,
        typer.Option(
            "--write", "-w", metavar="FILE", help="Also write the CM packets as pcapng, findings as packet comments."
        ),
    ] = None
    rotate: Annotated[
        list[str] | None,
        typer.Option(
            "--rotate", metavar="LIMIT", parser=_limit, help="Begin a new file at this size (100MB) or age (1h)."
        ),
    ] = None
    files: Annotated[
        int, typer.Option("--files", min=0, metavar="N", help="Keep the newest N files of --rotate; 0 keeps all.")
    ] = 0
    duration: Annotated[
        float | None,
        typer.Option("--duration", metavar="TIME", parser=seconds_of, help="Stop after this time (90s, 2h)."),
    ] = None
    count: Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="Stop after N CM messages.")] = None
    min_severity: Annotated[Severity, typer.Option("--min-severity", help="Show no finding below it.")] = "info"
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on", help="Exit with 1 when there was a finding this bad or worse; --exec runs for those."
        ),
    ] = "error"
    command: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="CMD", help="Run a shell command at each finding as bad as --fail-on: JSON on its stdin."
        ),
    ] = None
    keep: Annotated[
        float,
        typer.Option("--keep", metavar="TIME", parser=seconds_of, help="How long the view shows ended connections."),
    ] = 60.0
    max_connections: Annotated[
        int,
        typer.Option(
            "--max-connections", min=1, metavar="N", help="Connections remembered at once; the oldest go first."
        ),
    ] = 100_000
    color: ColorOption = "auto"
    local: LocalOption = False
    redact: RedactOption = False
    quiet: QuietOption = False
