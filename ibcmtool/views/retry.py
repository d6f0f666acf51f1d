"""When is it safe to send a REQ again that was refused as stale?

The side that refused with REJ 10 holds an old connection to the QPN. It lets go when the DREQ on that connection is
answered, or when its retries are exhausted; then its timewait runs (IBA 12.4). A receiver that follows the relaxed
reading accepts the QPN from that moment on, one that follows the strict reading only after its timewait. So the time
given here is the end of the longest timewait known, which is safe with both.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import SLACK, deadlines, sends
from ibcmtool.connections.timers import response_wait
from ibcmtool.connections.timewait import timewait
from ibcmtool.model import PEER, Conflict, Connection, Role

Basis = Literal[
    "closed",  # the old connection was closed by a DREP, or by a REJ
    "exhausted",  # the DREQs on it stayed unanswered until the last one
    "retrying",  # a DREQ on it is unanswered so far: the time is when its retries end, if it stays so
    "no DREQ",  # no DREQ on it was seen: the refusing side may hold it for good
    "unknown",  # the capture does not show the old connection
]
# From the best founded to the worst: the answer for several connections is as good as its weakest part.
_BASES: tuple[Basis, ...] = ("closed", "exhausted", "retrying", "no DREQ", "unknown")


class Retry(NamedTuple):
    """The earliest time at which a REQ with the same QPN cannot be stale any more."""

    time: int | None  # ns; None: it cannot be known
    basis: Basis
    held: tuple[int, ...] = ()  # the ids of the old connections
    assumed: bool = False  # a timer was not captured, a default stands in


def safe_retry(conflicts: tuple[Conflict, ...], refused_at: int) -> Retry:
    """From the conflicts of a connection that got REJ 10, and the time of that REJ. Ask when the capture has ended."""
    standing = [conflict for conflict in conflicts if conflict.same_peer and _stood(conflict, refused_at)]
    # An open connection is reason enough; only without one can timewait be the reason (the strict reading).
    held = [conflict for conflict in standing if conflict.peer_state not in CLOSED_STATES] or standing
    if not held:
        return Retry(None, "unknown")
    parts = [_let_go(conflict.other, PEER[conflict.owner]) for conflict in held]
    basis = max((part.basis for part in parts), key=_BASES.index)
    times = [part.time for part in parts]
    latest = None if None in times else max(time for time in times if time is not None)
    assumed = any(part.assumed for part in parts)
    return Retry(latest, basis, tuple(sorted(conflict.other.id for conflict in held)), assumed)


def _stood(conflict: Conflict, time: int) -> bool:
    """Whether the refusing side may have held the old connection, or its timewait, at this time."""
    if conflict.peer_state not in CLOSED_STATES:
        return True
    holding = conflict.other.peer(conflict.owner).timewait
    return holding is not None and time < holding.maximum


def _let_go(old: Connection, holder: Role) -> Retry:
    """When `holder` is through with the old connection."""
    end = old.end(holder)
    if end.timewait is not None:
        lasts = end.timewait.maximum - end.timewait.start
        unanswered = _unanswered_until(old, holder)
        if unanswered is None:
            return Retry(end.timewait.maximum, "closed", assumed=end.timewait.assumed)
        return Retry(max(end.timewait.start, unanswered) + lasts, "exhausted", assumed=end.timewait.assumed)
    if end.state == "DREQ_SENT":
        for lapse in deadlines(old):
            if lapse.kind == "DREQ_EXHAUSTED" and lapse.role == holder:
                waits = timewait(lapse.time, old.request, old.reply, holder)
                return Retry(waits.maximum, "retrying", assumed=waits.assumed or old.request is None)
    if end.state in CLOSED_STATES and old.closed is not None:
        return Retry(old.closed, "closed")
    return Retry(None, "no DREQ")


def _unanswered_until(old: Connection, holder: Role) -> int | None:
    """The end of the wait after the last DREQ of `holder`, when no DREP or DREQ of the other end came; else None."""
    answers = "de" if holder == "active" else "DE"  # letters of the history (connections/outcomes.py)
    dreqs = sends(old, "DREQ", holder)
    if not dreqs or any(letter in old.history for letter in answers):
        return None
    wait = response_wait(old.request, holder).nominal
    return dreqs[-1].message.time + wait + wait // SLACK
