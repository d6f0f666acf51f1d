"""Options that several commands share: their types and texts, and how some of them reach a command as one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from ibcmtool.analysis import Policy, Severity
from ibcmtool.connections.timewait_models import MODELS
from ibcmtool.model import Outcome, TimewaitModel
from ibcmtool.reports.sink import choices
from ibcmtool.views.filters import Filter, at_least

ColorChoice = Literal["auto", "always", "never"]
TextOrJson = Literal["text", "json"]
FailOn = Literal["error", "warning", "info", "never"]

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
RedactOption = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Replace addresses, GUIDs and private data, each by the same thing everywhere, for public eyes.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no hints on stderr, errors only.")]

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


@dataclass(frozen=True)
class Filters:
    """The criteria of a Filter."""

    connection: Annotated[list[int] | None, _by("--connection", "-c", metavar="ID", help="By id.")] = None
    peer: Annotated[
        list[str] | None, _by("--peer", metavar="TEXT", help="By part of a name, IP address, GID or GUID.")
    ] = None
    service: Annotated[
        list[str] | None, _by("--service", metavar="TEXT", help="By part of the service's name, or its id.")
    ] = None
    qpn: Annotated[list[int] | None, _by("--qpn", metavar="QPN", parser=_number, help="By QPN of either end.")] = None
    outcome: Annotated[
        list[str] | None,
        _by(
            "--outcome",
            metavar="OUTCOME",
            parser=_outcome,
            autocompletion=lambda: list(OUTCOMES),
            help=f"By outcome: {', '.join(OUTCOMES)}.",
        ),
    ] = None
    code: Annotated[list[str] | None, _by("--code", metavar="CODE", help="By a finding that concerns it.")] = None

    @property
    def chosen(self) -> Filter:
        return Filter(**{name: tuple(values or ()) for name, values in vars(self).items()})


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A parameter of the command whose type is a dataclass becomes an option for each field; it gets them as one."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(each.annotation):
            groups[each.name] = each.annotation
            parameters += inspect.signature(groups[each.name], eval_str=True).parameters.values()
        else:
            parameters.append(each)
    # Options with and without a default come in any order.
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    # Typer asks for both; wraps() alone would lead it to the signature of the command itself.
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper
