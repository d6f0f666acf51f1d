"""Sinks for tests: what a command would write of records, without the command."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from ibcmtool.analysis import Analysis
from ibcmtool.reports.sink import Settings, Sink, emit, make


def settings(console: Console | None = None, **given: Any) -> Settings:
    """For text on this console, and anything else into memory."""
    console = console or Console(file=io.StringIO())
    return Settings(**{"out": io.StringIO(), "console": lambda: console, **given})


def emit_all(records: Analysis | Iterable[Any], sink: Sink) -> None:
    """Hand a whole analysis, in the order of a stream, or records in this order to a sink, and close it."""
    if isinstance(records, Analysis):
        records = (*records.findings, *records.connections, *records.inputs)
    with sink:
        for record in records:
            emit(record, sink)


def report(shown: str, word: str, records: Analysis | Iterable[Any], **given: Any) -> str:
    """What is written of a whole analysis, or of records in this order."""
    made = settings(**given)
    emit_all(records, make(shown, word, made))
    return made.out.getvalue()  # type: ignore[attr-defined, no-any-return]
