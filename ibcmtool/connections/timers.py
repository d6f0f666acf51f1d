"""Timers of the CM: the 5-bit times, and how long each side waits.

All results are nanoseconds. A field that the capture did not show is None; what was computed without it says so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibcmtool.messages import Req, Request
from ibcmtool.model import Role

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000

# Stands in for a Primary Local ACK Timeout that was not captured: 4.3 s, what InfiniBand subnets with a packet life
# of 18 and Linux RoCE hosts stay below, so an assumed timewait errs on the long side (and is never "certain").
DEFAULT_ACK_TIMEOUT: Final = 20
# Upstream Linux rdma_cm (CMA_CM_RESPONSE_TIMEOUT) and its Max CM Retries.
DEFAULT_RESPONSE_TIMEOUT: Final = 20
DEFAULT_MAX_CM_RETRIES: Final = 15
# So many waits for an answer a DREQ may take that is owed after REJ 10: MAD flow control holds it back in a storm.
DUTY_WAITS: Final = 3


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


def packet_life(ack_timeout: int | None) -> int | None:
    """The largest packet life (5-bit) that fits a Local ACK Timeout: ack delay + 2 * life <= timeout."""
    return None if ack_timeout is None else max(ack_timeout - 1, 0)


class Wait(NamedTuple):
    """How long a sender waits for its answer before it sends again."""

    minimum: int  # the answer time asked for, as Linux rounds it; no path time
    nominal: int  # with the path time that the REQ allows for
    assumed: bool  # a field was not captured; defaults stand in


def response_wait(request: Request | None, role: Role) -> Wait:
    """How long `role` waits for the answer to its REQ, REP or DREQ.

    The active side waits for the Remote CM Response Timeout and two packet lives, the passive side for the Local CM
    Response Timeout (Linux adds no path time there). A SIDR_REQ has no timers.
    """
    if not isinstance(request, Req):
        return wait_for(None, None, role)
    asked = request.remote_cm_response_timeout if role == "active" else request.local_cm_response_timeout
    return wait_for(asked, request.primary_local_ack_timeout, role)


def wait_for(asked: int | None, ack_timeout: int | None, role: Role) -> Wait:
    """The same by the answer time that is asked for, and by the Local ACK Timeout; None: not captured."""
    life = packet_life(ack_timeout)
    known = asked is not None
    asked = DEFAULT_RESPONSE_TIMEOUT if asked is None else asked
    path = 2 * exponent(life) if role == "active" and life is not None else 0
    return Wait(linux(asked), exponent(asked) + path, not known)


def max_cm_retries(request: Request | None) -> int | None:
    """Max CM Retries of the REQ: how often a message may be sent again; None if not captured."""
    return request.max_cm_retries if isinstance(request, Req) else None


def most_sends(request: Request | None) -> int:
    """How often a message may be sent; where Max CM Retries was not captured, the usual, which is the most it says."""
    retries = max_cm_retries(request)
    return 1 + (DEFAULT_MAX_CM_RETRIES if retries is None else retries)


def retry_budget(request: Request | None, role: Role) -> int:
    """The longest time from a first REQ, REP or DREQ until its sender gives up (nominal)."""
    return most_sends(request) * response_wait(request, role).nominal
