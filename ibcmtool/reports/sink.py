"""Where records go: a sink takes them as they come, and writes them in one output format.

Every output format is registered in FORMATS, by the command (and what it shows) and the word that --format takes: the
choices of the option and its help are made from that. So a new format is one file, with a subclass of `Sink`, and one
line here. A sink's module is loaded when the sink is made, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from mypy_extensions import mypyc_attr

from ibcmtool.analysis import By, Finding, InputInfo, Policy
from ibcmtool.engine.sink import Received
from ibcmtool.engine.sink import Sink as EngineSink
from ibcmtool.model import Connection, Event

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from ibcmtool.engine.live import SourceStatus
    from ibcmtool.reports.calendar import Zone
    from ibcmtool.views.digest import Digest
    from ibcmtool.views.rows import Rows
    from ibcmtool.wire.detail import LayerDetail

# By what is shown, then by format: a module of this package, and the class in it (or function) that makes the sink.
FORMATS: dict[str, dict[str, str]] = {
    "analyze": {
        "text": "text:TextReport",
        "json": "json_document:AnalysisDocument",
        "jsonl": "json_lines:AnalysisLines",
    },
    "analyze --by": {
        "text": "by_text:BreakdownText",
        "json": "json_document:BreakdownDocument",
        "jsonl": "json_lines:BreakdownLines",
    },
    "timeline": {"text": "ladder:Ladders"},
    "decode": {
        "text": "decode_text:MessageLines",
        "json": "json_document:MessageDocument",
        "jsonl": "json_lines:DecodedLines",
    },
    "decode --frame": {
        "text": "decode_text:FrameTree",
        "json": "json_document:FrameDocument",
        "jsonl": "json_lines:FrameLine",
    },
    "live": {"text": "live_lines:live_text", "jsonl": "json_lines:LiveJsonLines"},
}


class UnknownFormatError(LookupError):
    """What is to be shown has no such format; the message says which it has."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink(EngineSink):
    """Takes the records of one run, in this order: what was received, its events, what each of them brought.

    A subclass takes what its format shows. Use it as a context manager: it is closed at the end of a run that succeeds.
    """

    follows = False  # whether it wants what was received and each event, not only what came of them
    at_once = False  # it writes while records come, so nothing else may write to the terminal
    shows_hints = False  # what a live source has to say needs no other place

    def layers(self, received: Received, layers: Sequence[LayerDetail]) -> None:
        """A message with all the layers of its frame."""

    def refresh(self, now: int | None) -> None:
        """Some time went by: what was written can be brought out. now: the time of live packets (ns), if known."""

    def close(self) -> None:
        """No more records: what is left to be written."""

    def abort(self) -> None:
        """An error or an interrupt ended the run: let go, and write nothing but what was due already."""

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Keeping(Sink):
    """Hands everything to a view, which keeps of it what a report at the end can show."""

    def __init__(self, view: Digest | Rows) -> None:
        self._view = view

    def connection(self, connection: Connection) -> None:
        self._view.add_connection(connection)

    def finding(self, finding: Finding, event: Event | None) -> None:
        self._view.add_finding(finding)

    def input(self, info: InputInfo) -> None:
        self._view.inputs.append(info)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the sinks of a run may ask; each takes what it needs."""

    out: TextIO  # for formats that a program reads
    console: Callable[[], Console]  # for text; called once
    policy: Policy = "relaxed"
    zone: Zone = "utc"
    several_inputs: bool = False
    everything: bool = False  # every connection or row, however many there are
    quiet: bool = False  # of what is live, the end only
    scrolling: bool = False  # lines, on a terminal, too
    by: By = "pair"
    show_hex: bool = False
    at_once: bool = False  # somebody waits for each line
    sources: Sequence[SourceStatus] = ()  # live ones
    keep: int = 0  # ns that a live view shows ended connections


def choices(*shown: str) -> list[str]:
    """The formats that any of these has, as --format offers them."""
    return list(dict.fromkeys(word for one in shown for word in FORMATS[one]))


def make(shown: str, word: str, settings: Settings) -> Sink:
    """The sink for what is shown, in a format. Raises UnknownFormatError."""
    formats = FORMATS[shown]
    if word not in formats:
        raise UnknownFormatError(f"{shown} has no format {word!r}, but {', '.join(formats)}")
    module, name = formats[word].split(":")
    factory: Callable[[Settings], Sink] = getattr(import_module(f"ibcmtool.reports.{module}"), name)
    return factory(settings)


def emit(record: InputInfo | Connection | Finding, sink: Sink) -> None:
    """Hand one record of a stream to a sink."""
    if isinstance(record, Connection):
        sink.connection(record)
    elif isinstance(record, Finding):
        sink.finding(record, None)
    else:
        sink.input(record)
