"""When a rule is worth asking: what a connection's history, or one look at the event, rules out.

Most messages of most captures break nothing, and a million of them must cost little. So every rule says as closely as
it can when it may have something to say (api.Rule): by `history`, a test of the connection's history, and by
`when`, a test of a connection and the step that it has just made. Here are those that several rules share. What a rule
has said there it need not check again.

A history is one letter for each message (connections/outcomes.py): a capital for the active side's, "^" before a
retransmission. In the event of a message the last letter is that message. Histories may be long: tests look through
them once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ibcmtool import services
from ibcmtool.connections import matching
from ibcmtool.connections.codes import STALE_CONNECTION, TIMEOUT
from ibcmtool.connections.timers import SECOND, exponent
from ibcmtool.messages import Req
from ibcmtool.model import Connection, Role, Step

ANSWER_TIMES: Final = tuple(exponent(n) for n in range(32))  # by the 5-bit field

# -- of the history ----------------------------------------------------------------------------------------------------


def first(history: str) -> bool:
    """This message is no retransmission."""
    return history[-2:-1] != "^"


def again(history: str) -> bool:
    """This message is a retransmission."""
    return history[-2:-1] == "^"


def anew(history: str) -> bool:
    """This message is no retransmission, but its sender sent one of its type before."""
    return history[-2:-1] != "^" and history[-1:] in history[:-1]


def matches(pattern: str) -> Callable[[str], bool]:
    """A test whether all of the history matches this regular expression.

    Histories may be long, so no pattern may need more than one pass: what stands before a letter excludes it. There
    are dozens, of which most captures ask a few: each is compiled when it is asked first.
    """
    compiled: re.Pattern[str] | None = None

    def test(history: str) -> bool:
        nonlocal compiled
        if compiled is None:
            compiled = re.compile(pattern)
        return compiled.fullmatch(history) is not None

    return test


with_mra: Final = matches("[^mM]*[mM].*")
rejected: Final = matches("[^jJ]*[jJ].*")
over: Final = matches("[^eEjJ]*[eEjJ].*")  # a DREP or a REJ was seen
silent: Final = matches(r"Q[\^QJ]*")  # the active side sent REQs, and perhaps a REJ; the passive side was not heard


# -- of a step ---------------------------------------------------------------------------------------------------------


def entangled(connection: Connection, step: Step) -> bool:
    """Whether an earlier connection has a claim to the QPNs, the Communication ID or the very REQ of this one."""
    if connection.request_conflicts or connection.reply_conflicts or connection.comm_id_conflict is not None:
        return True
    return connection.late_duplicate_of is not None or connection.proxied_copy_of is not None


def slow(connection: Connection, step: Step) -> bool:
    """Whether this answer of the passive side comes after more than half of the time that its REQ gives for it.

    It is counted from the first REQ.
    """
    allowed = answer_time(connection, "passive")
    return allowed is not None and 2 * (step.message.time - connection.opened) > allowed


def late(connection: Connection, step: Step) -> bool:
    """Whether it comes after a REJ, or after all of that time."""
    if connection.reject is not None:
        return connection.request is not None
    allowed = answer_time(connection, "passive")
    return allowed is not None and step.message.time - connection.opened > allowed


def answer_time(connection: Connection, role: Role) -> int | None:
    """How long (ns) the REQ gives this side for its answers, without the path; None where that was not captured."""
    request = connection.request
    if not isinstance(request, Req):
        return None
    timeout = request.remote_cm_response_timeout if role == "passive" else request.local_cm_response_timeout
    return None if timeout is None else ANSWER_TIMES[timeout]


def rej_reason(step: Step) -> int | None:
    """The reason of a REJ; None where the capture cut it off, and for other messages."""
    return matching.rej_reason(step.message)


def rejects_for(reason: int) -> Callable[[Connection, Step], bool]:
    """A test whether this message is a REJ with this reason."""

    def test(connection: Connection, step: Step) -> bool:
        return rej_reason(step) == reason

    return test


refused_as_stale: Final = rejects_for(STALE_CONNECTION)
timed_out: Final = rejects_for(TIMEOUT)


# -- of a connection ---------------------------------------------------------------------------------------------------


def over_ipoib(connection: Connection) -> bool:
    """Whether it serves IPoIB connected mode, whose requests are unlike others on purpose."""
    return services.name(connection.service_id or 0).startswith("IPoIB")


NVME_LIMIT: Final = 3 * SECOND  # of nvme-rdma before Linux 6.0, from the look-up of the address on


def at_own_limit(connection: Connection, waited: int) -> bool:
    """Whether a program that gave up after so long (ns) did so by a limit that programs of its service have."""
    near = abs(waited - NVME_LIMIT) * 10 <= NVME_LIMIT
    return near and services.connection_service(connection).startswith("NVMe")
