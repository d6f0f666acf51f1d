"""H24: a program ended, and the kernel refused and closed for it (Linux ucma_close, ib_destroy_cm_id).

The kernel destroys the Communication IDs of a process that ends one after the other: each connection is closed by one
DREQ, each pending request refused by a REJ 28 without private data, all within some milliseconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibcmtool import services
from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.connections.timers import MILLISECOND
from ibcmtool.evidence import one_clock, unopposed
from ibcmtool.formatting import address, count, duration
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.rules.steps import between, fields_of
from ibcmtool.values import Duration

TOGETHER: Final = 20 * MILLISECOND  # from one message of an ending program to the next
MOST_SERVICES = 4096  # the newest
MOST_REFUSED = 64  # of one end, before its first DREQ

H24 = rule(
    "H24",
    "program-ended",
    "A request was refused because the program ended",
    severity="info",
    clause="Linux ucma_close, ib_destroy_cm_id (REJ 28 without private data, or one DREQ, for each connection)",
    explanation="A REJ 28 without private data came within 20 ms of DREQs that the same service sent on its"
    " connections: so the kernel cleans up behind a process that was killed or crashed, and a target when its service"
    " is stopped. Nobody looked at the request and refused it.",
    false_positives="A program that by chance closes a connection at the moment at which it refuses a request without"
    " a word (never more than probable). Not reported where the service has closed half as many in one go before.",
    advice="See on that host whether the program runs (again), and why it ended: its log, `dmesg` (killed, out of"
    " memory), the unit's state. Until it listens again, requests are refused with REJ 8.",
)


class _Burst(NamedTuple):
    """What a service has sent in one go."""

    first: Step
    last: Step
    dreqs: int
    refused: tuple[tuple[Connection, Step], ...]  # of which nothing was said yet
    usual: int  # the most DREQs that it has sent in one go before

    @property
    def shows_an_end(self) -> bool:
        """Whether it closes more connections than it does in the course of its work."""
        return self.dreqs > 2 * self.usual


def _without_a_word(connection: Connection, step: Step) -> bool:
    """Whether this REJ is one of a consumer that says nothing."""
    fields = fields_of(step, Rej)
    if fields.reason != CONSUMER_REJECT or fields.reject_info_length or fields.private_data is None:
        return False
    return not any(fields.private_data)


@H24.on_step("DREQ", history=matches(r"[^dDeE]*d"))
def program_closed(connection: Connection, step: Step, context: Context) -> Verdicts:
    burst = _burst(connection, step, context)
    burst = burst._replace(dreqs=burst.dreqs + 1)
    if not burst.shows_an_end:
        return _keep(connection, context, burst)
    _keep(connection, context, burst._replace(refused=()))
    return [_ended(one, reject, burst, (one,)) for one, reject in burst.refused]


@H24.on_step("REJ", history=matches(r"[^j]*j"), when=_without_a_word)
def program_refused(connection: Connection, step: Step, context: Context) -> Verdicts:
    burst = _burst(connection, step, context)
    if burst.shows_an_end:
        _keep(connection, context, burst)
        return [_ended(connection, step, burst, ())]
    return _keep(connection, context, burst._replace(refused=(*burst.refused, (connection, step))[-MOST_REFUSED:]))


def _burst(connection: Connection, step: Step, context: Context) -> _Burst:
    """What the service of a connection has sent in one go, with this message."""
    known: _Burst | None = context.memory["H24"].get((connection.passive.address, connection.service_id))
    if known is None:
        return _Burst(step, step, 0, (), 0)
    if between(known.last, step) > TOGETHER:
        return _Burst(step, step, 0, (), max(known.usual, known.dreqs))
    return known._replace(last=step)


def _keep(connection: Connection, context: Context, burst: _Burst) -> Verdicts:
    """Remember it; nothing is to be said of it yet."""
    memory = context.memory["H24"]
    memory[(connection.passive.address, connection.service_id)] = burst
    if len(memory) > MOST_SERVICES:
        del memory[next(iter(memory))]
    return ()


def _ended(connection: Connection, reject: Step, burst: _Burst, related: tuple[Connection, ...]) -> Verdict:
    span = between(burst.first, burst.last)
    return Verdict(
        f"The program behind {services.connection_service(connection)} on {address(connection.passive.address)} ended:"
        f" within {duration(span)} {count(burst.dreqs, 'connection')} of it got a DREQ, and the request of connection"
        f" {connection.id} a REJ 28 without private data. Nobody refused it.",
        {"dreqs": burst.dreqs, "span": Duration(span)},
        (unopposed("meaning"), one_clock(burst.first, burst.last, otherwise="weakened")),
        steps=(burst.first, reject),
        related=related,
    )
