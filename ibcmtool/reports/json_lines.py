"""JSON lines: one object a line, as they come, each with its kind. The objects are those of the documents."""

from __future__ import annotations

import json
from collections import Counter

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event
from ibcmtool.packets import CmMessage
from ibcmtool.reports.display_filter import DisplayFilters
from ibcmtool.reports.json_connection import connection_text
from ibcmtool.reports.json_document import BreakdownDocument, FrameDocument, Pieces
from ibcmtool.reports.json_objects import (
    Object,
    event_object,
    finding_object,
    input_object,
    message_object,
    summary_object,
)
from ibcmtool.reports.json_rows import attempts_objects, breakdown_summary, row_object
from ibcmtool.reports.sink import Settings, Sink
from ibcmtool.views.attempts import Grouping


class _Lines(Sink):
    """Writes lines."""

    at_once = True

    def __init__(self, settings: Settings) -> None:
        self._pieces = Pieces(settings.out)
        self._outcomes: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._filters = DisplayFilters()

    def connection(self, connection: Connection) -> None:
        self._outcomes[connection.outcome] += 1
        text = connection_text(connection, self._filters.of(connection))
        self._pieces.write(f'{{"kind": "connection", {text[1:]}\n')

    def finding(self, finding: Finding, event: Event | None) -> None:
        self._codes[finding.code] += 1
        self._write("finding", finding_object(finding))

    def input(self, info: InputInfo) -> None:
        self._write("input", input_object(info))

    def abort(self) -> None:
        self._pieces.flush()

    def _write(self, kind: str, value: Object) -> None:
        self._pieces.write(json.dumps({"kind": kind, **value}) + "\n")


class AnalysisLines(_Lines):
    """`analyze`: connections as they end, so that memory stays bounded; attempts that failed alike in the summary."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._grouping = Grouping()

    def connection(self, connection: Connection) -> None:
        self._grouping.add(connection)
        super().connection(connection)

    def close(self) -> None:
        attempts = attempts_objects(self._grouping.groups())
        self._write("summary", summary_object(self._outcomes, self._codes, attempts))
        self._pieces.flush()


class LiveJsonLines(_Lines):
    """`live`: also an "event" for each message, and what a source lost."""

    follows = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._received: Received | None = None

    def received(self, received: Received) -> None:
        self._received = received

    def event(self, event: Event) -> None:
        value = event_object(event, self._received)
        if value is not None:
            self._write("event", value)

    def input(self, info: InputInfo) -> None:
        self._write("input", {**input_object(info), "dropped": info.dropped})

    def refresh(self, now: int | None) -> None:
        self._pieces.flush()

    def close(self) -> None:
        self._write("summary", summary_object(self._outcomes, self._codes))
        self._pieces.flush()


class BreakdownLines(BreakdownDocument):
    """`analyze --by`: input, a line a row, others, summary."""

    def close(self) -> None:
        breakdown = self._rows.breakdown()
        objects: list[tuple[str, Object]] = [("input", input_object(info)) for info in breakdown.inputs]
        objects += [(breakdown.by, row_object(row)) for row in breakdown.rows]
        if breakdown.others is not None:
            objects.append(("others", row_object(breakdown.others)))
        objects.append(("summary", breakdown_summary(breakdown)))
        for kind, value in objects:
            self._pieces.write(json.dumps({"kind": kind, **value}) + "\n")
        self._pieces.flush()


class DecodedLines(Sink):
    """`decode`: a message a line, without a kind, as all are of one."""

    at_once = True

    def __init__(self, settings: Settings) -> None:
        self._pieces = Pieces(settings.out, at_once=settings.at_once)

    def received(self, received: Received) -> None:
        if isinstance(received.item, CmMessage):
            self._pieces.write(json.dumps(message_object(received.item)) + "\n")

    def close(self) -> None:
        self._pieces.flush()

    def abort(self) -> None:
        self._pieces.flush()


class FrameLine(FrameDocument):
    """`decode --frame`: the object of the document in one line."""

    indent: int | None = None
