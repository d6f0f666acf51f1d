"""The analysis as JSON: schema "ibcmtool.analysis/1" (analysis.schema.json beside this file).

Times are decimal strings of seconds since the epoch with nine digits (a double cannot hold them), durations decimal
strings of seconds; identifiers are text as Wireshark and the kernel write them. Connections are written one by one, so
that a large analysis needs no second copy in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ibcmtool import __version__, services, words
from ibcmtool.model import Analysis, Connection, End, Finding, InputInfo, Step
from ibcmtool.reports import values
from ibcmtool.reports.display_filter import DisplayFilters

SCHEMA = "ibcmtool.analysis/1"

Object = dict[str, Any]


def render(analysis: Analysis, out: TextIO) -> None:
    """Write the whole analysis as one JSON object, one connection and one finding a line."""
    filters = DisplayFilters(analysis.connections)
    head: Object = {
        "schema": SCHEMA,
        "tool": {"name": "ibcmtool", "version": __version__},
        "policy": analysis.policy,
        "inputs": [input_object(info) for info in analysis.inputs],
    }
    out.write("{\n")
    out.writelines(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    _list(out, "connections", (connection_object(conn, filters) for conn in analysis.connections))
    _list(out, "findings", map(finding_object, analysis.findings))
    out.write(f'"summary": {json.dumps(summary_object(analysis))}\n}}\n')


def _list(out: TextIO, name: str, objects: Iterable[Object]) -> None:
    out.write(f'"{name}": [')
    out.writelines(("," if at else "") + "\n" + json.dumps(made) for at, made in enumerate(objects))
    out.write("\n],\n")


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


def connection_object(conn: Connection, filters: DisplayFilters | None = None) -> Object:
    """One connection; `filters` knows the other connections, from which its display filter must tell it apart."""
    return {
        "id": conn.id,
        "outcome": conn.outcome,
        "history": conn.history,
        "service": {
            "id": None if conn.service_id is None else words.service_id(conn.service_id),
            "name": services.connection_service(conn),
        },
        "transport": conn.transport,
        "display_filter": (filters or DisplayFilters()).of(conn),
        "active": _end(conn, conn.active),
        "passive": _end(conn, conn.passive),
        "opened": words.seconds(conn.opened),
        "established": _time(conn.established),
        "closed": _time(conn.closed),
        "duration": None if conn.closed is None else words.seconds(conn.closed - conn.opened),
        "messages": list(_messages(conn)),
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


def fields_object(fields: Any) -> Object:
    """The fields of a message by name; None where the capture cut one off."""
    named: Object = fields._asdict() if fields is not None else {}
    return {name: values.plain(name, value) for name, value in named.items()}


def summary_object(analysis: Analysis) -> Object:
    """Counts; outcomes and codes that do not occur are left out."""
    return {
        "connections": len(analysis.connections),
        "by_outcome": dict(sorted(Counter(conn.outcome for conn in analysis.connections).items())),
        "by_code": dict(sorted(Counter(finding.code for finding in analysis.findings).items())),
    }


def _time(ns: int | None) -> str | None:
    return None if ns is None else words.seconds(ns)


def _end(conn: Connection, end: End) -> Object:
    return {
        "name": words.end_name(end),
        "ca_guid": None if end.ca_guid is None else words.guid(end.ca_guid),
        "gid": None if end.address.gid is None else words.gid(end.address.gid),
        "lid": end.address.lid,
        "qpn": None if end.qpn is None else words.qpn(end.qpn),
        "comm_id": None if end.comm_id is None else words.comm_id(end.comm_id),
        "state": end.state,
        "timewait_until": _time(end.timewait.likely if end.timewait is not None else None),
    }


def _messages(conn: Connection) -> Iterator[Object]:
    for step in conn.steps:
        message = step.message
        yield {
            "frame": message.frame,
            "file": message.file,
            "time": words.seconds(message.time),
            "type": message.type,
            "sender": step.sender,
            "retransmission_of": _first_frame(step),
            "fields": fields_object(message.fields),
        }


def _first_frame(step: Step) -> int | None:
    first = step.retransmission_of
    return None if first is None else first.message.frame


def _evidence(name: str, value: Any) -> tuple[str, Any]:
    """Nanoseconds (under a name that ends in `_ns`) become decimal seconds, under the name without that ending."""
    if not name.endswith("_ns"):
        return name, values.plain(name, value)
    if isinstance(value, (list, tuple)):
        return name[:-3], [words.seconds(one) for one in value]
    return name[:-3], _time(value)
