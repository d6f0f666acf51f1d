"""Options that several commands share: their types, texts and the way they combine into a Filter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from ibcmtool.connections.timewait_models import MODELS
from ibcmtool.model import Outcome, Policy, Severity, TimewaitModel
from ibcmtool.reports.sink import choices
from ibcmtool.views.filters import Filter, at_least

ColorChoice = Literal["auto", "always", "never"]
FailOn = Literal["error", "warning", "info", "never"]

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="Captures (pcap, pcapng, ERF; also gzip or zstd); - is standard input. "
        "Several are one analysis, merged by time.",
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="A capture; - is standard input.")
]
PolicyOption = Annotated[
    Policy,
    typer.Option(
        "--policy",
        help="Reading of the spec for a REQ whose QPN is in the receiver's timewait: "
        "accept it (relaxed, Linux since 2.6.19) or refuse it as stale (strict).",
    ),
]
if TYPE_CHECKING:
    ModelName = TimewaitModel
else:
    ModelName = Literal[tuple(MODELS)]  # the choices that Typer offers
TimewaitModelOption = Annotated[
    ModelName,
    typer.Option(
        "--timewait-model",
        help=f"How long timewait lasts: {'; '.join(f'{model.name}: {model.meaning}' for model in MODELS.values())}.",
    ),
]
ColorOption = Annotated[
    ColorChoice,
    typer.Option("--color", help="Colour; auto heeds NO_COLOR, FORCE_COLOR and pipes."),
]
LocalOption = Annotated[bool, typer.Option("--local/--utc", help="Zone of absolute times.")]
ThoroughOption = Annotated[
    bool,
    typer.Option(
        "--thorough", help="Decode every frame, not only those that can hold a CM message; slow, same result."
    ),
]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Replace addresses, GUIDs and private data, each by the same thing everywhere, for public eyes.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no hints on stderr, errors only.")]

ClockOffsetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--clock-offset",
        metavar="FILE=SECONDS",
        show_default=False,
        help="How far the clock of a FILE is ahead, instead of what shared packets tell; negative if it is behind.",
    ),
]

MOST_SECONDS = 10**10  # no clock is off by more than the epoch is long

OUTCOMES = get_args(Outcome)
FILTERS = "Filters (a connection must pass each; values of one option are alternatives)"


def format_option(*shown: str, about: str = "Output format.") -> Any:
    """--format, with the formats registered for what a command shows (reports/sink.py)."""
    words = choices(*shown)

    def known(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, words))}.")
        return text

    return typer.Option(
        "--format", "-f", metavar=f"<{'|'.join(words)}>", parser=known, autocompletion=lambda: words, help=about
    )


def is_bad(severities: Iterable[Severity], fail_on: FailOn) -> bool:
    """Whether one of these severities makes a command fail."""
    return fail_on != "never" and any(at_least(severity, fail_on) for severity in severities)


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number (decimal, or hex as 0x11)") from None


def _outcome(text: str) -> str:
    # Typer takes no list of Literal.
    if text not in OUTCOMES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(OUTCOMES)}")
    return text


_by = functools.partial(typer.Option, rich_help_panel=FILTERS)
# By the names of the criteria of Filter.
FILTER_OPTIONS: dict[str, Any] = {
    "connection": Annotated[list[int] | None, _by("--connection", "-c", metavar="ID", help="By id.")],
    "peer": Annotated[
        list[str] | None, _by("--peer", metavar="TEXT", help="By part of a name, IP address, GID or GUID.")
    ],
    "service": Annotated[
        list[str] | None, _by("--service", metavar="TEXT", help="By part of the service's name, or its id.")
    ],
    "qpn": Annotated[list[int] | None, _by("--qpn", metavar="QPN", parser=_number, help="By QPN of either end.")],
    "outcome": Annotated[
        list[str] | None,
        _by(
            "--outcome",
            metavar="OUTCOME",
            parser=_outcome,
            autocompletion=lambda: list(OUTCOMES),
            help=f"By outcome: {', '.join(OUTCOMES)}.",
        ),
    ],
    "code": Annotated[list[str] | None, _by("--code", metavar="CODE", help="By a finding that concerns it.")],
}


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the filter options; it receives them as one Filter, its keyword argument `chosen`."""
    parameters = [
        *(each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "chosen"),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in FILTER_OPTIONS.items()
        ),
    ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        chosen = Filter(**{name: tuple(values.pop(name) or ()) for name in FILTER_OPTIONS})
        command(**values, chosen=chosen)

    # Typer asks for both; wraps() alone would lead it to the signature of the command itself.
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def clock_offsets_of(given: list[str] | None, paths: list[str]) -> dict[str, int]:
    """The offsets in ns by path; each must name one of the inputs."""
    if not given:
        return {}
    from decimal import Decimal, InvalidOperation

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


def paths_of(files: list[Path]) -> list[str]:
    """The inputs as text; standard input can be read only once."""
    paths = [str(file) for file in files]
    if paths.count("-") > 1:
        raise typer.BadParameter("standard input (-) can be named only once", param_hint="FILE...")
    return paths
