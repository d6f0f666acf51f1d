"""The timewait of one end, by the fields of REQ and REP and by a model (timewait_models.py)."""

from __future__ import annotations

from functools import lru_cache

from ibcmtool.connections.timers import DEFAULT_ACK_TIMEOUT
from ibcmtool.connections.timewait_models import MODELS, Interval
from ibcmtool.messages import Rep, Reply, Req, Request
from ibcmtool.model import Role, Timewait, TimewaitModel


def timewait(
    start: int, request: Request | None, reply: Reply | None, role: Role, model: TimewaitModel = "auto"
) -> Timewait:
    """The timewait of one end that lets go at `start`."""
    ack_timeout = request.primary_local_ack_timeout if isinstance(request, Req) else None
    delay = reply.target_ack_delay if isinstance(reply, Rep) else None
    minimum, likely, maximum = _interval(ack_timeout, delay, role, model)
    return Timewait(start, start + minimum, start + likely, start + maximum, ack_timeout is None, model)


@lru_cache(maxsize=1024)  # a handful of values serve all connections of a fabric
def _interval(ack_timeout: int | None, delay: int | None, role: Role, model: TimewaitModel) -> Interval:
    interval = MODELS[model].interval
    if ack_timeout is None:  # it may have been anything
        minimum, likely, maximum = interval(DEFAULT_ACK_TIMEOUT, delay or 0, role)
        return Interval(0, likely, max(maximum, likely))
    minimum, likely, maximum = interval(ack_timeout, delay or 0, role)
    likely = max(likely, minimum)
    return Interval(minimum, likely, max(maximum, likely))
