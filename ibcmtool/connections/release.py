"""When is it safe to send a REQ again that was refused as stale?

The side that refused with REJ 10 holds an old connection to the QPN. It lets go when the DREQ on that connection is
answered, or when its retries are exhausted, or when it restarts; then its timewait runs (IBA 12.4). A receiver that
follows the relaxed reading accepts the QPN from the moment on when it lets go, one that follows the strict reading only
after its timewait. So the safe time is the end of the longest timewait known. Whoever tells these times has them from
here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import SLACK, deadlines, sends
from ibcmtool.connections.matching import rej_reason
from ibcmtool.connections.timers import response_wait
from ibcmtool.connections.timewait import timewait
from ibcmtool.model import PEER, Conflict, Connection, Role

Basis = Literal[
    "closed",  # the old connection was closed by a DREP, or by a REJ
    "restarted",  # the machine that held it has restarted
    "exhausted",  # the DREQs on it stayed unanswered until the last one
    "retrying",  # a DREQ on it is unanswered so far: the time is when its retries end, if it stays so
    "no DREQ",  # no DREQ on it was seen: the refusing side may hold it for good
    "unknown",  # the capture does not show the old connection
]
# From the best founded to the worst: the answer for several connections is as good as its weakest part.
_BASES: Final[tuple[Basis, ...]] = ("closed", "restarted", "exhausted", "retrying", "no DREQ", "unknown")


class Retry(NamedTuple):
    """The earliest time at which a REQ with the same QPN cannot be stale any more."""

    time: int | None  # ns; None: it cannot be known
    basis: Basis
    held: tuple[int, ...] = ()  # the ids of the old connections
    assumed: bool = False  # a timer was not captured, a default stands in
    released: int | None = None  # ns; when the holder lets go: by the relaxed reading the QPN is accepted from then on


def retry_of(connection: Connection) -> Retry | None:
    """When the consumer of an attempt can safely try again; None where no REJ 10 tells it to wait."""
    step = connection.reject
    if connection.outcome != "rejected" or step is None or rej_reason(step.message) != STALE_CONNECTION:
        return None
    conflicts = connection.reply_conflicts if step.sender == "active" else connection.request_conflicts
    return safe_retry(conflicts, step.message.time)


def safe_retry(conflicts: tuple[Conflict, ...], refused_at: int) -> Retry:
    """From the conflicts of a connection that got REJ 10, and the time of that REJ. Ask when the capture has ended."""
    standing = [conflict for conflict in conflicts if conflict.same_peer and _stood(conflict, refused_at)]
    # An open connection is reason enough; only without one can timewait be the reason (the strict reading).
    held = [conflict for conflict in standing if conflict.peer_state not in CLOSED_STATES] or standing
    if not held:
        return Retry(None, "unknown")
    parts = [_let_go(conflict.other, PEER[conflict.owner]) for conflict in held]
    basis = max((part.basis for part in parts), key=_BASES.index)
    assumed = any(part.assumed for part in parts)
    held_by = tuple(sorted(conflict.other.id for conflict in held))
    return Retry(
        _latest([part.time for part in parts]), basis, held_by, assumed, _latest([part.released for part in parts])
    )


def _latest(times: Sequence[int | None]) -> int | None:
    """None where one of them is not known."""
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def _stood(conflict: Conflict, time: int) -> bool:
    """Whether the refusing side may have held the old connection, or its timewait, at this time."""
    if conflict.peer_state not in CLOSED_STATES:
        return True
    holding = conflict.other.peer(conflict.owner).timewait
    return holding is not None and time < holding.maximum


def _let_go(old: Connection, holder: Role) -> Retry:
    """When `holder` is through with the old connection."""
    end = old.end(holder)
    if end.restarted is not None:
        return Retry(end.restarted, "restarted", released=end.restarted)
    if end.timewait is not None:
        start, lasts, assumed = end.timewait.start, end.timewait.maximum - end.timewait.start, end.timewait.assumed
        unanswered = _unanswered_until(old, holder)
        if unanswered is None:
            return Retry(end.timewait.maximum, "closed", assumed=assumed, released=start)
        released = max(start, unanswered)
        return Retry(released + lasts, "exhausted", assumed=assumed, released=released)
    if end.state == "DREQ_SENT":
        for lapse in deadlines(old):
            if lapse.kind == "DREQ_EXHAUSTED" and lapse.role == holder:
                waits, assumed = timewait(lapse.time, old.request, old.reply, holder), old.request is None
                return Retry(waits.maximum, "retrying", assumed=waits.assumed or assumed, released=lapse.time)
    if end.state in CLOSED_STATES and old.closed is not None:
        return Retry(old.closed, "closed", released=old.closed)
    return Retry(None, "no DREQ")


def _unanswered_until(old: Connection, holder: Role) -> int | None:
    """The end of the wait after the last DREQ of `holder`, when no DREP or DREQ of the other end came; else None."""
    answers = "de" if holder == "active" else "DE"  # letters of the history (connections/outcomes.py)
    dreqs = sends(old, "DREQ", holder)
    if not dreqs or any(letter in old.history for letter in answers):
        return None
    wait = response_wait(old.request, holder).nominal
    return dreqs[-1].message.time + wait + wait // SLACK
