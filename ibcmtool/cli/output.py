"""Where results and messages go: consoles, the progress line, warnings. stdout carries the result, stderr the rest."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from ibcmtool.formatting import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ibcmtool.analysis import InputInfo
    from ibcmtool.cli.options import ColorChoice
    from ibcmtool.reports.sink import Settings, Sink

# What is not a terminal gets lines as long as they are: grep, less and colleagues' editors wrap them themselves.
UNBOUNDED = 10_000


def make_console(color: ColorChoice = "auto") -> Console:
    """A console on stdout: as wide as the terminal, unbounded elsewhere; no colour where none is wanted."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    if color == "auto":
        # no-color.org and force-color.org: set and not empty is what counts.
        wanted = not os.environ.get("NO_COLOR") and (os.environ.get("FORCE_COLOR") or terminal)
        color = "always" if wanted else "never"
    settings: dict[str, Any] = {"file": sys.stdout, "highlight": False, "emoji": False, "markup": False}
    if color == "never":
        settings["color_system"] = None
    elif not terminal or os.environ.get("TERM") in ("dumb", "unknown"):
        settings["color_system"] = "standard"
    return Console(force_terminal=color == "always", width=None if terminal else UNBOUNDED, **settings)


def settings_of(color: ColorChoice, local: bool, **more: Any) -> Settings:
    """What sinks may ask, from the options that all commands have, and more by its name."""
    from ibcmtool.reports.sink import Settings

    return Settings(out=sys.stdout, console=partial(make_console, color), zone="local" if local else "utc", **more)


def make_sink(shown: str, output_format: str, settings: Settings) -> Sink:
    """The sink of a command; a usage error where what it shows has no such format."""
    from ibcmtool.reports.sink import UnknownFormatError, make

    try:
        return make(shown, output_format, settings)
    except UnknownFormatError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from None


def warn(line: str) -> None:
    """One line on stderr."""
    print(f"ibcmtool: {line}", file=sys.stderr)


def warn_of_inputs(inputs: Sequence[InputInfo]) -> bool:
    """One line for each input whose clock was far off, or that could not be read to its end (then True)."""
    for info in inputs:
        apart = info.clock_offset - inputs[0].clock_offset
        if abs(apart) >= SECOND and not info.clock_given:
            way = "ahead of" if apart > 0 else "behind"
            seconds = abs(apart) / SECOND
            warn(f"{info.path}: clock {seconds:.6f} s {way} that of {inputs[0].path}; taken off its times")
    damaged = [info for info in inputs if info.truncated]
    for info in damaged:
        warn(f"{info.path}: {info.damage}")
    return bool(damaged)
