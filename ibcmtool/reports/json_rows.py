"""The JSON of what shows only when many connections are counted together: rows of totals, and groups of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibcmtool import formatting
from ibcmtool.reports.json_objects import Object, counts, service_object, summary_object, time
from ibcmtool.views.attempts import Attempts
from ibcmtool.views.rows import Breakdown, Party, Row
from ibcmtool.views.tally import Refusal

if TYPE_CHECKING:
    from ibcmtool.views.tally import Tally
    from ibcmtool.views.times import Times

MOST_GROUPS = 100  # of attempts, the largest


def attempts_objects(groups: Sequence[Attempts]) -> list[Object]:
    """The largest groups, in the order of their first attempts."""
    largest = sorted(groups, key=lambda group: -group.count)[:MOST_GROUPS]
    return [_attempts_object(group) for group in sorted(largest, key=lambda group: group.opened)]


def _attempts_object(group: Attempts) -> Object:
    refusal, retry = group.failure.refusal, group.retry()
    clients = len(group.clients)
    sent: Object = {"sent": group.requests, "retransmissions": group.repeated}
    released = group.failure.released_by is not None
    return {
        "attempts": group.count,
        "connections": group.ids,
        "clients": clients,
        "active": group.active_name or (formatting.address(next(iter(group.clients))) if clients == 1 else None),
        "passive": group.passive_name or formatting.address(group.key.passive),
        "service": service_object(group.service_id, group.key.service),
        "outcome": group.failure.outcome,
        "reason": None if refusal is None else refusal.reason,
        "words": (refusal.words or None) if refusal is not None else None,
        "first": time(group.opened),
        "last": time(group.last_opened),
        "requests": {"sent": 0, "retransmissions": 0} if released else sent,
        **({"dreqs": sent} if released else {}),
        "earliest_safe_retry": None if retry is None else time(retry.time),
        "retry_basis": None if retry is None else retry.basis,
    }


def row_object(row: Row) -> Object:
    """What the row is about, then its totals."""
    about: Object = {}
    if row.active is not None:
        about["active"] = _party(row.active)
    if row.passive is not None:
        about["passive"] = _party(row.passive)
    if row.service is not None:
        about["service"] = service_object(row.service.id, row.service.name)
    parties = {"clients": row.clients, "targets": row.targets, "parties_complete": row.complete}
    return about | _tally(row.tally, parties)


def breakdown_summary(breakdown: Breakdown) -> Object:
    """Counts over everything, also over what has no row."""
    totals = breakdown.totals
    return summary_object(totals.outcomes, totals.by_code())


def _tally(tally: Tally, parties: Object) -> Object:
    arrivals, peak = tally.arrivals, tally.peak
    return {
        "connections": tally.connections,
        "by_outcome": counts(tally.outcomes),
        "connected": tally.connected,
        "closed_by": counts(tally.closed_by),
        "rejects": [{"number": number, **refusal_object(refusal)} for refusal, number in tally.refusals.most_common()],
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
        "unanswered_dreqs": {
            "connections": tally.unheard_releases,
            "sent": tally.dreqs,
            "retransmissions": tally.dreqs_repeated,
        },
        "peak": {"second": time(peak.time), "requests": peak.number} if peak.number else None,
        "reply_after_first_request": _times(tally.first_to_reply),
        "reply_after_last_request": _times(tally.last_to_reply),
        "by_code": counts(tally.codes),
        "worst": tally.worst,
        "first": time(tally.first),
        "last": time(tally.last),
    }


def _party(party: Party) -> Object:
    gid = party.address.gid
    return {"name": party.name, "gid": None if gid is None else formatting.gid(gid), "lid": party.address.lid}


def refusal_object(refusal: Refusal) -> Object:
    """A REJ, or a SIDR_REP that refuses."""
    return {
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
        "p50": time(times.percentile(50)),
        "p99": time(times.percentile(99)),
        "max": time(times.maximum),
        "exact": times.exact,
    }
