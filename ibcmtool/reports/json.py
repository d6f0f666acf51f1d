"""The analysis as JSON: schema "ibcmtool.analysis/1" (analysis.schema.json beside this file).

Times are decimal strings of seconds since the epoch with nine digits (a double cannot hold them), durations decimal
strings of seconds; identifiers are text as Wireshark and the kernel write them. Connections are written one by one, so
that a large analysis needs no second copy in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TextIO

from ibcmtool import __version__, formatting
from ibcmtool.model import Analysis, Connection, Finding, InputInfo, Policy, rank
from ibcmtool.reports import attempts, values
from ibcmtool.reports.connection_json import connection_text
from ibcmtool.reports.display_filter import DisplayFilters, frames_of, tids_of
from ibcmtool.reports.pieces import in_pieces
from ibcmtool.views.attempts import Attempts, Grouping

SCHEMA = "ibcmtool.analysis/1"

Object = dict[str, Any]

_FILTER_HERE = "\0"  # no JSON text holds it


class Document:
    """Takes the records of a stream and writes them as one JSON object, connections by number.

    The texts of the connections wait in a temporary file, so that memory holds some hundred bytes of each. Use it as a
    context manager.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        from tempfile import TemporaryFile  # the lines of jsonl need none

        self._spool = TemporaryFile()  # noqa: SIM115 (closed with the document)
        self._size = 0
        self._rows: list[_Row] = []
        self._filters = DisplayFilters()
        self._outcomes: Counter[str] = Counter()
        self._findings: list[Finding] = []
        self._inputs: list[InputInfo] = []
        self._grouping = Grouping()

    def add(self, record: InputInfo | Connection | Finding) -> None:
        """One record of analysis.stream."""
        if isinstance(record, Finding):
            self._findings.append(record)
        elif isinstance(record, InputInfo):
            self._inputs.append(record)
        else:
            self._outcomes[record.outcome] += 1
            self._grouping.add(record)
            self._filters.register(record)
            # Whether its filter needs frame numbers shows only when all connections are known.
            head, tail = connection_text(record, _FILTER_HERE).split(_FILTER_HERE)
            frames = ",".join(map(str, frames_of(record)))
            self._rows.append(_Row(record.id, self._size, len(head), len(tail), len(frames), tids_of(record)))
            self._size += self._spool.write((head + tail + frames).encode("ascii"))

    def write(self, out: TextIO) -> None:
        """The whole document, one connection and one finding a line."""
        findings = sorted(self._findings, key=rank)
        with in_pieces(out) as write:
            write_head(write, SCHEMA, self._policy, self._inputs)
            write_list(write, "connections", map(self._connection, sorted(self._rows)))
            write_list(write, "findings", (json.dumps(finding_object(finding)) for finding in findings))
            codes = Counter(finding.code for finding in findings)
            summary = summary_object(self._outcomes, codes, self._grouping.groups())
            write(f'"summary": {json.dumps(summary)}\n}}\n')

    def __enter__(self) -> Document:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def _connection(self, row: _Row) -> str:
        self._spool.seek(row.offset)
        text = self._spool.read(row.head + row.tail + row.frames).decode("ascii")
        frames: list[str] = []
        if self._filters.is_shared(row.tids):
            frames = text[row.head + row.tail :].split(",")
        display_filter = self._filters.text(row.tids, map(int, frames))
        return text[: row.head] + display_filter + text[row.head : row.head + row.tail]


class _Row(NamedTuple):
    """Where a connection's text lies in the spool: what stands before and behind its filter, and its frames."""

    id: int
    offset: int
    head: int
    tail: int
    frames: int
    tids: tuple[int, ...]


def render(analysis: Analysis, out: TextIO) -> None:
    """Write a whole analysis as one JSON object."""
    records: Iterable[InputInfo | Connection | Finding]
    records = (*analysis.connections, *analysis.findings, *analysis.inputs)
    with Document(analysis.policy) as document:
        for record in records:
            document.add(record)
        document.write(out)


def line(kind: str, text: str) -> str:
    """A line of JSON lines: the text of an object, with its kind in front."""
    return f'{{"kind": "{kind}", {text[1:]}\n'


def write_head(
    write: Callable[[str], None], schema: str, policy: Policy, inputs: Sequence[InputInfo], **more: str
) -> None:
    """The beginning of a document: what it is, what made it, and from what."""
    head: Object = {
        "schema": schema,
        "tool": {"name": "ibcmtool", "version": __version__},
        "policy": policy,
        **more,
        "inputs": [input_object(info) for info in inputs],
    }
    write("{\n")
    for key, value in head.items():
        write(f"{json.dumps(key)}: {json.dumps(value)},\n")


def write_list(write: Callable[[str], None], name: str, texts: Iterable[str]) -> None:
    write(f'"{name}": [')
    before = "\n"
    for text in texts:
        write(before + text)
        before = ",\n"
    write("\n],\n")


def input_object(info: InputInfo) -> Object:
    return {
        "path": info.path,
        "format": info.format,
        "link_types": list(info.link_types),
        "frames": info.frames,
        "cm_messages": info.cm_messages,
        "first_time": _time(info.first_time),
        "last_time": _time(info.last_time),
        "truncated": info.truncated,
    }


def finding_object(finding: Finding) -> Object:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "policy": finding.policy,
        "connection": finding.connection,
        "related": list(finding.related),
        "frames": [{"file": file, "frame": frame} for file, frame in finding.frames],
        "message": finding.message,
        "advice": finding.advice,
        "evidence": dict(_evidence(name, value) for name, value in finding.evidence.items()),
    }


def summary_object(outcomes: Counter[str], codes: Counter[str], groups: Sequence[Attempts]) -> Object:
    """Counts, and the attempts that failed alike; what does not occur is left out."""
    summary: Object = {
        "connections": outcomes.total(),
        "by_outcome": dict(sorted(outcomes.items())),
        "by_code": dict(sorted(codes.items())),
    }
    if groups:
        summary["attempts"] = attempts.json_objects(groups)
    return summary


def _time(ns: int | None) -> str | None:
    return None if ns is None else formatting.seconds(ns)


def _evidence(name: str, value: Any) -> tuple[str, Any]:
    """Nanoseconds (under a name that ends in `_ns`) become decimal seconds, under the name without that ending."""
    if not name.endswith("_ns"):
        return name, values.plain(name, values.evidence(value))
    if isinstance(value, (list, tuple)):
        return name[:-3], [formatting.seconds(one) for one in value]
    return name[:-3], _time(value)
