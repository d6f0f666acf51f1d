"""H24: a program ended, and the kernel refused and closed for it (Linux ucma_close, ib_destroy_cm_id).

The kernel destroys the Communication IDs of a process that ends one after the other: each connection is closed by one
DREQ, each pending request refused by a REJ 28 without private data, all within some milliseconds.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from ibcmtool import services
from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.connections.timers import MILLISECOND, SECOND
from ibcmtool.evidence import one_clock, unopposed
from ibcmtool.formatting import address, duration
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Event, Step
from ibcmtool.packets import Address
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.rules.steps import between, fields_of, of_type
from ibcmtool.values import Duration

TOGETHER: Final = 20 * MILLISECOND  # from a message of an ending program to the next ones
ONE_END: Final = SECOND  # so long it may take to close all that a program had
MOST_SERVICES, MOST_REFUSED = 4096, 64  # the newest services, and refused requests of each

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
    " a word (never more than probable). Not reported where the service has closed connections at other times, too.",
    advice="See on that host whether the program runs (again), and why it ended: its log, `dmesg` (killed, out of"
    " memory), the unit's state. Until it listens again, requests are refused with REJ 8.",
)


def _without_a_word(connection: Connection, step: Step) -> bool:
    """Whether this REJ is one of a consumer that says nothing."""
    fields = fields_of(step, Rej)
    if fields.reason != CONSUMER_REJECT or fields.reject_info_length or fields.private_data is None:
        return False
    return not any(fields.private_data)


@H24.on_step("REJ", history=matches(r"[^j]*j"), when=_without_a_word)
def refused_without_a_word(connection: Connection, step: Step, context: Context) -> Verdicts:
    """No verdict yet: what became of the service's connections shows when they have ended."""
    memory = context.memory["H24"]
    refused = memory.setdefault(_service(connection), [])
    refused.append((connection, step))
    del refused[:-MOST_REFUSED]
    if len(memory) > MOST_SERVICES:
        del memory[next(iter(memory))]
    return ()


@H24.on_event("ENDED", history=matches(r"[^dDeE]*d.*"))
def program_ended(connection: Connection, event: Event, context: Context) -> Verdicts:
    memory = context.memory["H24"]
    return _ended(connection, memory) if memory else ()


def _ended(connection: Connection, memory: dict[Hashable, list[tuple[Connection, Step]]]) -> Verdicts:
    """The verdicts on requests that its service refused when it closed this connection."""
    refused = memory.get(_service(connection))
    if refused is None:
        return
    dreq = of_type(connection, "DREQ", sender="passive")[0]
    if all(abs(between(dreq, reject)) > ONE_END for _, reject in refused):
        del memory[_service(connection)]  # it closes connections in the course of its work
        return
    for one, reject in [*refused]:
        gap = between(dreq, reject)
        if abs(gap) <= TOGETHER:
            refused.remove((one, reject))
            yield Verdict(
                f"The program behind {services.connection_service(one)} on {address(one.passive.address)} ended: it"
                f" closed connection {connection.id} (DREQ, frame {dreq.message.frame}) within {duration(abs(gap))} of"
                f" the REJ 28 without private data to connection {one.id}. Nobody refused that request.",
                {"gap": Duration(gap)},
                (unopposed("meaning"), one_clock(dreq, reject, otherwise="weakened")),
                steps=(dreq, reject),
                related=(one,),
            )


def _service(connection: Connection) -> tuple[Address, int | None]:
    return connection.passive.address, connection.service_id
