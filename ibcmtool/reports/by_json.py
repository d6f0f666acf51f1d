"""A view over many connections as JSON: schema "ibcmtool.views/1" (views.schema.json beside this file).

Times and durations are decimal strings with nine digits, as in the report of connections.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

from ibcmtool import formatting
from ibcmtool.model import Outcome
from ibcmtool.reports.json import input_object, write_head, write_list
from ibcmtool.reports.pieces import in_pieces
from ibcmtool.views.refusals import Refusal
from ibcmtool.views.rows import Party, Row, View

if TYPE_CHECKING:
    from collections import Counter

    from ibcmtool.views.tally import Tally
    from ibcmtool.views.times import Times

SCHEMA = "ibcmtool.views/1"

Object = dict[str, Any]


def write(view: View, out: TextIO) -> None:
    """The whole view as one JSON object, one row a line."""
    with in_pieces(out) as put:
        write_head(put, SCHEMA, view.policy, view.inputs, by=view.by)
        write_list(put, "rows", (json.dumps(row_object(row)) for row in view.rows))
        others = None if view.others is None else row_object(view.others)
        put(f'"others": {json.dumps(others)},\n"summary": {json.dumps(summary_object(view))}\n}}\n')


def write_lines(view: View, out: TextIO) -> None:
    """The same objects one a line, each with its kind: input | pair, target or service | others | summary."""
    objects: list[tuple[str, Object]] = [("input", input_object(info)) for info in view.inputs]
    objects += [(view.by, row_object(row)) for row in view.rows]
    if view.others is not None:
        objects.append(("others", row_object(view.others)))
    objects.append(("summary", summary_object(view)))
    with in_pieces(out) as put:
        for kind, value in objects:
            put(json.dumps({"kind": kind, **value}) + "\n")


def row_object(row: Row) -> Object:
    """What the row is about, then its totals."""
    about: Object = {}
    if row.active is not None:
        about["active"] = _party(row.active)
    if row.passive is not None:
        about["passive"] = _party(row.passive)
    if row.service is not None:
        service_id = row.service.id
        about["service"] = {
            "id": None if service_id is None else formatting.service_id(service_id),
            "name": row.service.name,
        }
    parties = {"clients": row.clients, "targets": row.targets, "parties_complete": row.complete}
    return about | _tally(row.tally, parties)


def summary_object(view: View) -> Object:
    """Counts over everything, also over what has no row."""
    codes: dict[str, int] = {}
    for (code, _, _), number in sorted(view.totals.findings.items()):
        codes[code] = codes.get(code, 0) + number
    return {
        "connections": view.totals.connections,
        "by_outcome": _outcomes(view.totals.outcomes),
        "by_code": codes,
    }


def _tally(tally: Tally, parties: Object) -> Object:
    arrivals = tally.arrivals
    return {
        "connections": tally.connections,
        "by_outcome": _outcomes(tally.outcomes),
        "connected": tally.connected,
        "closed_by": dict(sorted(tally.closed_by.items())),
        "rejects": [_refusal(refusal, number) for refusal, number in tally.refusals.most_common()],
        **parties,
        "requests": {"sent": tally.requests, "retransmissions": tally.repeated},
        "mras": tally.mras,
        "unanswered": {
            "attempts": tally.unanswered,
            "seen_at_target": arrivals["seen"],
            "never_seen_at_target": arrivals["never seen"],
            "unknown": tally.unanswered - arrivals["seen"] - arrivals["never seen"],
            "given_up_unseen": tally.unseen,
        },
        "peak": {"second": formatting.seconds(tally.peak.time), "requests": tally.peak.number}
        if tally.peak.number
        else None,
        "reply_after_first_request": _times(tally.first_to_reply),
        "reply_after_last_request": _times(tally.last_to_reply),
        "by_code": dict(sorted(tally.codes.items())),
        "worst": tally.worst,
        "first": None if tally.first is None else formatting.seconds(tally.first),
        "last": None if tally.last is None else formatting.seconds(tally.last),
    }


def _party(party: Party) -> Object:
    gid = party.address.gid
    return {"name": party.name, "gid": None if gid is None else formatting.gid(gid), "lid": party.address.lid}


def _outcomes(outcomes: Counter[Outcome]) -> dict[str, int]:
    return {outcome: number for outcome, number in sorted(outcomes.items()) if number}


def _refusal(refusal: Refusal, number: int) -> Object:
    return {
        "number": number,
        "sidr": refusal.sidr,
        "reason": refusal.reason,
        "words": refusal.words or None,
        "by": refusal.by,
    }


def _times(times: Times) -> Object | None:
    """None without any reply."""
    if not times.count:
        return None
    return {
        "count": times.count,
        "p50": formatting.seconds(times.percentile(50)),
        "p99": formatting.seconds(times.percentile(99)),
        "max": formatting.seconds(times.maximum),
        "exact": times.exact,
    }
