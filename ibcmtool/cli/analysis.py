"""One analysis of files, from the options that commands share to the sink that writes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.cli.options import PolicyOption, TimewaitModelOption
from ibcmtool.cli.progress import reading
from ibcmtool.model import Connection
from ibcmtool.reports.sink import Sink, emit
from ibcmtool.views.filters import Filter, apply, apply_to_stream

MOST_SECONDS = 10**10  # no clock is off by more than the epoch is long


@dataclass
class Analysed:
    """What is to be analysed, and how."""

    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Captures (pcap, pcapng, ERF; also compressed); - is standard input. "
            "Several are one analysis, merged by time.",
        ),
    ]
    policy: PolicyOption = "relaxed"
    timewait_model: TimewaitModelOption = "auto"
    clock_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--clock-offset",
            metavar="FILE=SECONDS",
            show_default=False,
            help="How far the clock of a FILE is ahead, instead of what shared packets tell; negative if it is behind.",
        ),
    ] = None

    def __post_init__(self) -> None:
        self.paths = [str(file) for file in self.files]
        if self.paths.count("-") > 1:
            raise typer.BadParameter("standard input (-) can be named only once", param_hint="FILE...")
        self.clock_offsets = clock_offsets_of(self.clock_offset or [], self.paths)


def run(
    analysed: Analysed, chosen: Filter, sink: Sink, *, redact: bool, quiet: bool, thorough: bool = False
) -> list[InputInfo]:
    """Hand the chosen records to the sink, which stays open. Returns the inputs."""
    from ibcmtool.engine.files import analyze, stream

    given: dict[str, Any] = {
        "thorough": thorough,
        "clock_offsets": analysed.clock_offsets,
        "timewait_model": analysed.timewait_model,
        "redact": redact,
    }
    inputs: list[InputInfo] = []
    with reading(quiet or sink.at_once) as progress:
        records: Iterable[InputInfo | Connection | Finding]
        if chosen.code:  # whether a connection is chosen shows only when all findings are there
            analysis = apply(chosen, analyze(analysed.paths, analysed.policy, progress, **given))
            records = [*analysis.connections, *analysis.findings, *analysis.inputs]
        else:
            records = apply_to_stream(chosen, stream(analysed.paths, analysed.policy, progress, **given))
        for record in records:
            if isinstance(record, InputInfo):
                inputs.append(record)
            emit(record, sink)
    return inputs


def clock_offsets_of(given: list[str], paths: list[str]) -> dict[str, int]:
    """The offsets in ns by path; each must name one of the inputs."""
    offsets: dict[str, int] = {}
    for text in given:
        name, equals, seconds = text.rpartition("=")
        if not equals:
            raise _bad_offset(f"{text!r} is not FILE=SECONDS")
        path = str(Path(name))
        if path not in paths:
            raise _bad_offset(f"{path!r} is none of the inputs ({', '.join(paths)})")
        if path in offsets:
            raise _bad_offset(f"{path!r} is named twice")
        try:
            value = Decimal(seconds.strip())
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite() or abs(value) > MOST_SECONDS:
            raise _bad_offset(f"{seconds!r} is no number of seconds (such as 3600, -0.25 or 1.000000001)")
        offsets[path] = round(value * 1_000_000_000)
    return offsets


def _bad_offset(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="--clock-offset")
