"""Whole JSON documents: schemas "ibcmtool.analysis/1" and "ibcmtool.views/1" (beside this file), and decoded messages.

Connections are written one by one, so that a large analysis needs no second copy in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple

from ibcmtool import __version__
from ibcmtool.analysis import Finding, InputInfo, Policy, rank
from ibcmtool.engine.sink import Received
from ibcmtool.model import Connection, Event
from ibcmtool.packets import CmMessage
from ibcmtool.reports.display_filter import DisplayFilters, frames_of, tids_of
from ibcmtool.reports.json_connection import connection_text
from ibcmtool.reports.json_objects import (
    Object,
    finding_object,
    frame_object,
    input_object,
    message_object,
    summary_object,
)
from ibcmtool.reports.json_rows import attempts_objects, breakdown_summary, row_object
from ibcmtool.reports.sink import Keeping, Settings, Sink
from ibcmtool.views.attempts import Grouping
from ibcmtool.views.rows import Rows

if TYPE_CHECKING:
    from ibcmtool.wire.detail import LayerDetail
from typing import TextIO

ANALYSIS, BREAKDOWN = "ibcmtool.analysis/1", "ibcmtool.views/1"

_FILTER_HERE = "\0"  # no JSON text holds it
_LINES = 16  # in one write; of a connection of five messages: 90 kB


class AnalysisDocument(Sink):
    """`analyze`: one object, connections by number, one connection and one finding a line.

    The texts of the connections wait in a temporary file, so that memory holds some hundred bytes of each.
    """

    def __init__(self, settings: Settings) -> None:
        from tempfile import TemporaryFile

        self._settings = settings
        self._spool: IO[bytes] = TemporaryFile()  # noqa: SIM115 (closed with the document)
        self._size = 0
        self._spooled: list[_Spooled] = []
        self._filters = DisplayFilters()
        self._outcomes: Counter[str] = Counter()
        self._findings: list[Finding] = []
        self._inputs: list[InputInfo] = []
        self._grouping = Grouping()

    def connection(self, connection: Connection) -> None:
        self._outcomes[connection.outcome] += 1
        self._grouping.add(connection)
        self._filters.register(connection)
        # Whether its filter needs frame numbers shows only when all connections are known.
        head, tail = connection_text(connection, _FILTER_HERE).split(_FILTER_HERE)
        frames = ",".join(map(str, frames_of(connection)))
        place = _Spooled(connection.id, self._size, len(head), len(tail), len(frames), tids_of(connection))
        self._spooled.append(place)
        self._size += self._spool.write((head + tail + frames).encode("ascii"))

    def finding(self, finding: Finding, event: Event | None) -> None:
        self._findings.append(finding)

    def input(self, info: InputInfo) -> None:
        self._inputs.append(info)

    def close(self) -> None:
        findings = sorted(self._findings, key=rank)
        codes = Counter(finding.code for finding in findings)
        attempts = attempts_objects(self._grouping.groups())
        pieces = Pieces(self._settings.out)
        _write_head(pieces, ANALYSIS, self._settings.policy, self._inputs)
        _write_list(pieces, "connections", map(self._connection_text, sorted(self._spooled)))
        _write_list(pieces, "findings", (json.dumps(finding_object(finding)) for finding in findings))
        pieces.write(f'"summary": {json.dumps(summary_object(self._outcomes, codes, attempts))}\n}}\n')
        pieces.flush()
        self._spool.close()

    def abort(self) -> None:
        self._spool.close()

    def _connection_text(self, place: _Spooled) -> str:
        self._spool.seek(place.offset)
        text = self._spool.read(place.head + place.tail + place.frames).decode("ascii")
        frames: list[str] = []
        if self._filters.is_shared(place.tids):
            frames = text[place.head + place.tail :].split(",")
        display_filter = self._filters.text(place.tids, map(int, frames))
        return text[: place.head] + display_filter + text[place.head : place.head + place.tail]


class _Spooled(NamedTuple):
    """Where a connection's text lies in the spool: what stands before and behind its filter, and its frames."""

    id: int
    offset: int
    head: int
    tail: int
    frames: int
    tids: tuple[int, ...]


class BreakdownDocument(Keeping):
    """`analyze --by`: one object, one row a line."""

    def __init__(self, settings: Settings) -> None:
        self._rows = Rows(settings.by, settings.policy, several_inputs=settings.several_inputs)
        super().__init__(self._rows)
        self._pieces = Pieces(settings.out)

    def close(self) -> None:
        breakdown, pieces = self._rows.breakdown(), self._pieces
        _write_head(pieces, BREAKDOWN, breakdown.policy, breakdown.inputs, by=breakdown.by)
        _write_list(pieces, "rows", (json.dumps(row_object(row)) for row in breakdown.rows))
        others = None if breakdown.others is None else row_object(breakdown.others)
        pieces.write(f'"others": {json.dumps(others)},\n"summary": {json.dumps(breakdown_summary(breakdown))}\n}}\n')
        pieces.flush()


class MessageDocument(Sink):
    """`decode`: a list of messages."""

    def __init__(self, settings: Settings) -> None:
        self._out = settings.out
        self._messages: list[Object] = []

    def received(self, received: Received) -> None:
        if isinstance(received.item, CmMessage):
            self._messages.append(message_object(received.item))

    def close(self) -> None:
        self._out.write(json.dumps(self._messages, indent=2) + "\n")


class FrameDocument(Sink):
    """`decode --frame`: one object."""

    indent: int | None = 2

    def __init__(self, settings: Settings) -> None:
        self._out = settings.out

    def layers(self, received: Received, layers: Sequence[LayerDetail]) -> None:
        if isinstance(received.item, CmMessage):
            value = frame_object(received.frame, received.item.type, layers)
            self._out.write(json.dumps(value, indent=self.indent) + "\n")


def _write_head(pieces: Pieces, schema: str, policy: Policy, inputs: Sequence[InputInfo], **more: str) -> None:
    """The beginning of a document: what it is, what made it, and from what."""
    head: Object = {
        "schema": schema,
        "tool": {"name": "ibcmtool", "version": __version__},
        "policy": policy,
        **more,
        "inputs": [input_object(info) for info in inputs],
    }
    pieces.write("{\n")
    for key, value in head.items():
        pieces.write(f"{json.dumps(key)}: {json.dumps(value)},\n")


def _write_list(pieces: Pieces, name: str, texts: Iterable[str]) -> None:
    pieces.write(f'"{name}": [')
    before = "\n"
    for text in texts:
        pieces.write(before + text)
        before = ",\n"
    pieces.write("\n],\n")


class Pieces:
    """Writes many texts at once, but each on its own where somebody looks on (a terminal, or `at_once`)."""

    def __init__(self, out: TextIO, *, at_once: bool = False) -> None:
        self._out = out
        self._most = 1 if at_once or out.isatty() else _LINES
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Everything written so far comes out. Call it at the end, also when an error or an interrupt ends the work."""
        piece = "".join(self._texts)
        self._texts.clear()
        self._out.write(piece)
        self._out.flush()
