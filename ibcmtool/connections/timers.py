"""Timers of the CM: the 5-bit times, how long each side waits, and how long timewait lasts.

All results are nanoseconds. A field that the capture did not show is None; what was computed without it says so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ibcmtool.model import Role, Timewait, TimewaitModel

MILLISECOND = 1_000_000
SECOND = 1_000_000_000

# Stands in for a Primary Local ACK Timeout that was not captured: 4.3 s, what InfiniBand subnets with a packet life
# of 18 and Linux RoCE hosts stay below, so an assumed timewait errs on the long side (and is never "certain").
DEFAULT_ACK_TIMEOUT = 20
# Upstream Linux rdma_cm (CMA_CM_RESPONSE_TIMEOUT) and its Max CM Retries.
DEFAULT_RESPONSE_TIMEOUT = 20
DEFAULT_MAX_CM_RETRIES = 15
# So many waits for an answer a DREQ may take that is owed after REJ 10: MAD flow control holds it back in a storm.
DUTY_WAITS = 3


def exponent(n: int) -> int:
    """The nominal time of a 5-bit field: 4.096 us * 2^n (IBA 12.7)."""
    return 4096 << n


def linux(n: int) -> int:
    """The time that Linux makes of it (cm_convert_to_ms): powers of two in ms, 4.6 % short, at least 1 ms."""
    return (1 << max(n - 8, 0)) * MILLISECOND


def cm_ack_timeout(ca_ack_delay: int, packet_life: int) -> int:
    """The 5-bit sum of a CA ack delay and two packet life times, as Linux rounds it."""
    timeout = packet_life + 1
    if timeout >= ca_ack_delay:
        timeout += ca_ack_delay >= timeout - 1
    else:
        timeout = ca_ack_delay + (timeout >= ca_ack_delay - 1)
    return min(31, timeout)


def _field(message: Any, name: str) -> int | None:
    """A field of a REQ or REP that may not have been captured, or may be a SIDR message, which has no timers."""
    value: int | None = getattr(message, name, None)
    return value


def packet_life(request: Any) -> int | None:
    """The largest packet life (5-bit) that fits the REQ's Local ACK Timeout: ack delay + 2 * life <= timeout."""
    timeout = _field(request, "primary_local_ack_timeout")
    return None if timeout is None else max(timeout - 1, 0)


class Wait(NamedTuple):
    """How long a sender waits for its answer before it sends again."""

    minimum: int  # the answer time asked for, as Linux rounds it; no path time
    nominal: int  # with the path time that the REQ allows for
    assumed: bool  # a field was not captured; defaults stand in


def response_wait(request: Any, role: Role) -> Wait:
    """How long `role` waits for the answer to its REQ, REP or DREQ.

    The active side waits for the Remote CM Response Timeout and two packet lives, the passive side for the Local CM
    Response Timeout (Linux adds no path time there).
    """
    asked = _field(request, "remote_cm_response_timeout" if role == "active" else "local_cm_response_timeout")
    life = packet_life(request)
    known = asked is not None
    asked = DEFAULT_RESPONSE_TIMEOUT if asked is None else asked
    path = 2 * exponent(life) if role == "active" and life is not None else 0
    return Wait(linux(asked), exponent(asked) + path, not known)


def max_cm_retries(request: Any) -> int | None:
    """Max CM Retries of the REQ: how often a message may be sent again; None if not captured."""
    return _field(request, "max_cm_retries")


def retry_budget(request: Any, role: Role) -> int:
    """The longest time from a first REQ, REP or DREQ until its sender gives up (nominal)."""
    retries = max_cm_retries(request)
    return (1 + (DEFAULT_MAX_CM_RETRIES if retries is None else retries)) * response_wait(request, role).nominal


def timewait(start: int, request: Any, reply: Any, role: Role, model: TimewaitModel = "auto") -> Timewait:
    """The timewait of one end that lets go at `start`.

    It depends on the REQ's Local ACK Timeout, on the REP's Target ACK Delay, and on whose CM it is:

    * linux (since 2.6.19). Passive side: the Local ACK Timeout exactly. Active side: ack delay of the peer (Target ACK
      Delay) and twice its own packet life, which is not on the wire but at most Local ACK Timeout - 1. So the minimum
      holds for any packet life, and the likely value for equal ack delays on both sides.
    * linux-2.6 (up to 2.6.18): the Local ACK Timeout exactly, on both sides.
    * illumos: as linux, but the sum and the times are nominal, neither rounded up nor 4.6 % short.
    * iba: ack delay of the peer and twice the packet life, nominal (the specification's own number is not known to
      us). For the passive side this sum is what the Local ACK Timeout holds, rounded up to a power of two.
    * auto, for an end whose implementation is not known: minimum and likely value of linux, and a maximum one step
      above the larger of the two fields, which covers every implementation known.
    """
    minimum, likely, maximum, assumed = _durations(
        _field(request, "primary_local_ack_timeout"), _field(reply, "target_ack_delay"), role, model
    )
    return Timewait(start, start + minimum, start + likely, start + maximum, assumed, model)


@lru_cache(maxsize=1024)  # a handful of values serve all connections of a fabric
def _durations(
    ack_timeout: int | None, ack_delay: int | None, role: Role, model: TimewaitModel
) -> tuple[int, int, int, bool]:
    assumed = ack_timeout is None
    if ack_timeout is None:
        ack_timeout = DEFAULT_ACK_TIMEOUT
    delay = ack_delay or 0
    lives = (max(ack_timeout - 2, 0), max(ack_timeout - 1, 0))  # packet life: likely, at most
    if model == "linux-2.6":
        minimum = likely = maximum = linux(ack_timeout)
    elif model in ("illumos", "iba"):
        if role == "active":
            minimum = exponent(delay)
            likely, maximum = (exponent(delay) + 2 * exponent(life) for life in lives)
        else:
            minimum = likely = maximum = exponent(ack_timeout)
            if model == "iba":
                minimum = exponent(max(ack_timeout - 1, 0))
    else:
        if role == "passive":
            minimum = likely = maximum = linux(ack_timeout)
        else:
            minimum = linux(max(delay, 1))
            likely, maximum = (linux(cm_ack_timeout(delay, life)) for life in lives)
        if model == "auto":
            maximum = exponent(min(31, max(ack_timeout, delay) + 1))
    if assumed:
        minimum = 0
    likely = max(likely, minimum)
    return minimum, likely, max(maximum, likely), assumed
