"""What must have happened by when: the deadlines of a connection.

Nothing on the wire says that a sender gave up, that timewait is over, or that a connection can be forgotten; only the
capture's time does. `deadlines` lists what is due next in a connection, from its steps and states alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ibcmtool.connections.timers import SECOND, Wait, exponent, most_sends, response_wait, retry_budget, wait_for
from ibcmtool.messages import Mra, Req
from ibcmtool.model import Connection, End, Role, Step

ROLES: Final[tuple[Role, Role]] = ("active", "passive")

# Senders lag behind their timers (MAD flow control, a busy host): a wait is over after a quarter more than nominal.
SLACK: Final = 4
# After both ends have let go, late repetitions and answers are still told apart from new connections for this long.
LINGER: Final = 60 * SECOND


class Deadline(NamedTuple):
    """`kind` is due at `time`; a kind of the model's EVENT_KINDS."""

    time: int
    kind: str
    role: Role | None = None


def sends(connection: Connection, message_type: str, sender: Role) -> list[Step]:
    """The newest message of this type from this end with all its repetitions, oldest first."""
    steps = [s for s in connection.steps if s.message.type == message_type and s.sender == sender]
    if not steps:
        return []
    newest = steps[-1].retransmission_of or steps[-1]
    return [s for s in steps if s is newest or s.retransmission_of is newest]


def last_sent(connection: Connection, message_type: str) -> Step | None:
    """The newest step of this type, from whichever end."""
    return next((s for s in reversed(connection.steps) if s.message.type == message_type), None)


def deadlines(connection: Connection) -> Iterator[Deadline]:
    """All deadlines that stand now, in no order; `ENDED` among them once both ends have let go."""
    active, passive = connection.active, connection.passive
    if active.state in ("REQ_SENT", "MRA_REQ_RCVD"):
        yield Deadline(_exhausted(connection, "REQ", "active"), "REQ_EXHAUSTED", "active")
    elif active.state == "SIDR_REQ_SENT":
        yield Deadline(_exhausted(connection, "SIDR_REQ", "active"), "REQ_EXHAUSTED", "active")
    if passive.state in ("REP_SENT", "MRA_REP_RCVD"):
        yield Deadline(_exhausted(connection, "REP", "passive"), "REP_EXHAUSTED", "passive")
    for role in ROLES:
        end = connection.end(role)
        if end.state == "DREQ_SENT":
            dreqs = sends(connection, "DREQ", role)
            if dreqs:
                wait = response_wait(connection.request, role).nominal
                yield Deadline(dreqs[-1].message.time + wait + wait // SLACK, "DREQ_LAPSED", role)
                yield Deadline(_exhausted(connection, "DREQ", role), "DREQ_EXHAUSTED", role)
    if is_over(connection):
        yield Deadline(forgettable(connection), "ENDED")


def is_over(connection: Connection) -> bool:
    """Whether both ends have let go: only timewait and late repetitions can still come.

    When a handshake has timed out, an end that the capture does not show to have let go never got what it would answer.
    """
    if connection.closed is None:
        return False
    if connection.outcome == "timed_out":
        return True
    return connection.active.state in OVER and connection.passive.state in OVER


OVER: Final = frozenset({"IDLE", "LISTEN", "UNKNOWN", "TIMEWAIT"})


def timewait_over(end: End, time: int) -> bool:
    """Whether this end is in no timewait at `time`, by any count."""
    return end.timewait is None or end.timewait.maximum <= time


def leave_timewait(connection: Connection, time: int) -> None:
    """Nothing on the wire ends a timewait: an end whose timewait is over at `time` (as Linux counts it) is IDLE."""
    for end in (connection.active, connection.passive):
        if end.state == "TIMEWAIT" and end.timewait is not None and end.timewait.likely <= time:
            end.state = "IDLE"


@lru_cache(maxsize=1024)
def _least_wait(remote: int | None, local: int | None, ack_timeout: int | None) -> int:
    return min(wait_for(remote, ack_timeout, "active").nominal, wait_for(local, ack_timeout, "passive").nominal)


def least_wait(connection: Connection) -> int:
    """No deadline of a connection comes sooner than this after the message that sets it."""
    request = connection.request
    if not isinstance(request, Req):
        return _least_wait(None, None, None)
    return _least_wait(
        request.remote_cm_response_timeout, request.local_cm_response_timeout, request.primary_local_ack_timeout
    )


def all_sent(connection: Connection, message_type: str, sender: Role) -> bool:
    """Whether every send that Max CM Retries allows was seen."""
    return len(sends(connection, message_type, sender)) >= most_sends(connection.request)


def patience(steps: Sequence[Step], usual: int) -> int:
    """How long to wait for more after these sends: the usual time, or twice the last pause where that was longer.

    The pauses of a sender may grow from one send to the next (back-off), or it may lag behind (MAD flow control).
    """
    pause = steps[-1].message.time - steps[-2].message.time if len(steps) > 1 else 0
    return 2 * pause if pause > usual else usual


def _exhausted(connection: Connection, message_type: str, sender: Role) -> int:
    """When the sender has given up: after the wait that follows its last allowed send."""
    steps = sends(connection, message_type, sender)
    if not steps:  # known by other evidence only; nothing to count from but the newest message
        return connection.steps[-1].message.time + retry_budget(connection.request, sender)
    nominal = _wait(connection, sender).nominal
    last = steps[-1].message.time + patience(steps, nominal + nominal // SLACK)
    if all_sent(connection, message_type, sender):
        return last
    budget = retry_budget(connection.request, sender)
    return max(last, steps[0].message.time + budget + budget // SLACK)


def _wait(connection: Connection, sender: Role) -> Wait:
    """The answer wait of `sender`, stretched by the newest MRA that it got."""
    wait = response_wait(connection.request, sender)
    state = connection.end(sender).state
    if state in ("MRA_REQ_RCVD", "MRA_REP_RCVD"):
        mra = last_sent(connection, "MRA")
        fields = None if mra is None else mra.message.fields
        if isinstance(fields, Mra) and fields.service_timeout is not None:
            return wait._replace(nominal=wait.nominal + exponent(fields.service_timeout))
    return wait


def forgettable(connection: Connection) -> int:
    """When neither timewait nor late repetitions of a connection that is over can matter any more."""
    over = max(connection.steps[-1].message.time, connection.closed or 0)
    for role in ROLES:
        timewait = connection.end(role).timewait
        if timewait is not None:
            over = max(over, timewait.maximum)
    return over + LINGER
