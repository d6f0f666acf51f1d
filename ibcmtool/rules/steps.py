"""Looking back over the steps of a connection: what several rules ask in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ibcmtool.connections import port_trace
from ibcmtool.connections.codes import EXTENDED, MRA_OF_LAP, MRA_OF_REP, MRA_OF_REQ, TIMEOUT
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import patience
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.connections.timewait import timewait as computed
from ibcmtool.connections.traces import DISORDER as DISORDER
from ibcmtool.evidence import Ground, proved, weakened
from ibcmtool.formatting import address, count, duration, end_name, listed, qpn
from ibcmtool.messages import Dreq, Lap, Rep, Req
from ibcmtool.model import Conflict, Connection, End, Event, Role, Step, Timewait
from ibcmtool.packets import Address
from ibcmtool.rules.api import Verdict, Verdicts
from ibcmtool.rules.conditions import rej_reason
from ibcmtool.rules.context import Context
from ibcmtool.values import Qpn

F = TypeVar("F")

ON_THE_WAY: Final = 5_000_000  # ns by which the times differ that messages take from a host to the capture point
NAMED: Final = 3  # addresses in a sentence
NEW_LIFE: Final = Ground("same use", "weakened", "a new attempt, of a CM whose ids return, looks the same")

# By Message MRAed: the message that an MRA asks time for, and what answers that.
MRAED: Final[dict[int | None, str]] = {MRA_OF_REQ: "REQ", MRA_OF_REP: "REP", MRA_OF_LAP: "LAP"}
ANSWERS: Final[dict[int | None, tuple[str, str]]] = {
    MRA_OF_REQ: ("REP", "REJ"),
    MRA_OF_REP: ("RTU", "REJ"),
    MRA_OF_LAP: ("APR", "REJ"),
}


def fields_of(step: Step, kind: type[F]) -> F:
    """The fields of a message whose type is known to go with this class of messages.py."""
    fields = step.message.fields
    assert isinstance(fields, kind)
    return fields


def request_of(connection: Connection) -> Req:
    """The fields of the connection's REQ, which was captured: needs=("request",)."""
    assert isinstance(connection.request, Req)
    return connection.request


def sender_of(step: Step) -> Role:
    """The role of a step's sender, which is known: needs=("sender",)."""
    return "active" if step.sender == "active" else "passive"


def role_of(event: Event) -> Role:
    """The end that a deadline has passed for: of an event that has one (model.EVENT_KINDS)."""
    assert event.role is not None
    return event.role


def sender_end(connection: Connection, step: Step) -> End:
    """The end that sent a step whose sender is known."""
    return connection.active if step.sender == "active" else connection.passive


def receiver_end(connection: Connection, step: Step) -> End:
    """The end that a step, whose sender is known, was sent to."""
    return connection.passive if step.sender == "active" else connection.active


def named_qpn(step: Step) -> int | None:
    """The QPN of its receiver that a DREQ or LAP names; None if it is neither, or was cut."""
    fields = step.message.fields
    return fields.remote_qpn if isinstance(fields, (Dreq, Lap)) else None


def names_another_qpn(connection: Connection, step: Step, context: Context) -> Verdicts:
    """The verdict on a DREQ or LAP with another QPN than its receiver's; XRC has its QPN in another field."""
    sender, receiver, request = sender_end(connection, step), receiver_end(connection, step), connection.request
    named, xrc = named_qpn(step), isinstance(request, Req) and request.transport_service_type == EXTENDED
    if not context.covered(connection, connection.opened, step.message.time):
        return  # where ids return, that was perhaps another life
    if named is not None and receiver.qpn not in (None, named) and not xrc:
        yield Verdict(
            f"{step.message.type} of {end_name(sender)} names QPN {qpn(named)}, but {end_name(receiver)} uses"
            f" {qpn(receiver.qpn)} in this connection.",
            {"named_qpn": Qpn(named), "qpn": Qpn(receiver.qpn or 0)},
            (
                # Or one of which the capture has no REP.
                context.witness.complete(receiver.address, connection.opened, step.message.time),
                one_life(connection),
                # By two clocks it may be of another life with the same ids.
                proved("order") if _beside(connection, receiver, step, context) else weakened("order"),
            ),
        )


def _beside(connection: Connection, receiver: End, step: Step, context: Context) -> bool:
    """Whether the input that has this step has the REQ or REP, too, in which its receiver gave its QPN."""
    given = of_type(connection, "REQ", "REP", sender=receiver.role)
    return any(context.one_clock(one, step).strength != "weakened" for one in given)


def one_life(connection: Connection) -> Ground:
    """All its messages are of one connection: the same ids were not given to another one with QPNs of its own."""
    for kind in (Req, Rep):
        given = [step.message.fields for step in connection.steps]
        if len({fields.local_qpn for fields in given if isinstance(fields, kind) and fields.local_qpn}) > 1:
            return NEW_LIFE
    return Ground("same use", "proved")


def conflicts_at(connection: Connection, step: Step) -> Sequence[Conflict]:
    """Earlier connections that have a claim to the QPN that this REQ or REP names."""
    return connection.request_conflicts if step.message.type == "REQ" else connection.reply_conflicts


def broken_timewait(conflict: Conflict, reuser: End, step: Step, context: Context) -> Timewait | None:
    """The owner's own timewait, which may not be over when a QPN is used again in `step`; None: that is no reproach.

    A QP that never carried data needs no timewait: an attempt that was refused is no reason to accuse its retry. Nor
    may anything have ended the old connection unseen before its timewait is said to begin.
    """
    old, owner = conflict.other, conflict.other.end(conflict.owner)
    timewait, time = owner.timewait, step.message.time
    dreqs = [said.message.time for said in of_type(old, "DREQ", sender=owner.role)]
    if dreqs and owner.restarted is None and (timewait is None or conflict.owner_state == "DREQ_SENT"):
        # It has not even let go, or was refused before it heard the answer: its timewait begins no sooner than that.
        timewait = computed(dreqs[-1], old.request, old.reply, owner.role)
    if not conflict.newest or timewait is None or time < timewait.start:
        return None
    if latest_time(step, context) >= timewait.maximum:
        return None
    if owner.address != reuser.address:
        return None  # another port, or another machine with the same CA GUID
    closing = conflict.owner_state in CLOSED_STATES or conflict.owner_state == "DREQ_SENT"
    if not closing or old.established is None or (old.stale_by is not None and not dreqs):
        return None
    last = max((said.message.time for said in old.steps if said.message.time <= timewait.start), default=0)
    return timewait if context.covered(old, last, timewait.start) else None


def latest_time(step: Step, context: Context) -> int:
    """The latest time at which a message may have been sent, had those before it been sent when they were captured.

    Each takes its own time to the capture point, and an input may have messages out of order.
    """
    return step.message.time + (ON_THE_WAY if context.witness.in_order(step.message.file) else DISORDER)


def starting_psn(connection: Connection, role: Role) -> int | None:
    """The PSN that this side's sends begin with; None as long as it has not said so."""
    fields = connection.request if role == "active" else connection.reply
    return fields.starting_psn if isinstance(fields, (Req, Rep)) else None


def addresses(ports: Sequence[Address]) -> str:
    """ "10.0.0.1, 10.0.0.2, 10.0.0.3 and 4 others"."""
    parts = [address(port) for port in ports[:NAMED]]
    if len(ports) > NAMED:
        parts.append(count(len(ports) - NAMED, "other"))
    return listed(parts)


def sent_by(step: Step) -> str:
    """ "REQ of 10.0.0.1"."""
    return f"{step.message.type} of {address(step.message.source)}"


def of_type(connection: Connection, *types: str, sender: Role | None = None) -> list[Step]:
    """The connection's steps of these message types, in order, of one sender or of both."""
    return [
        step for step in connection.steps if step.message.type in types and (sender is None or step.sender == sender)
    ]


def sends(connection: Connection, step: Step) -> list[Step]:
    """Every send of the same MAD up to `step`, the first one included; copies of one packet count once."""
    original = step.retransmission_of or step
    seen: set[int | None] = set()
    found = []
    for other in connection.steps:
        if other is original or other.retransmission_of is original:
            psn = other.message.psn
            if psn is None or psn not in seen:
                found.append(other)
                seen.add(psn)
        if other is step:
            break
    return found


def before(connection: Connection, step: Step) -> Iterator[Step]:
    """The steps before `step`, newest first."""
    newest_first = reversed(connection.steps)
    for other in newest_first:
        if other is step:
            break
    yield from newest_first


def until(steps: Iterable[Step], latest: Step) -> list[Step]:
    """Those of the steps that can have been sent before `latest`, whatever order the capture has them in."""
    return [step for step in steps if step.message.time <= latest.message.time + DISORDER]


def between(earlier: Step, later: Step) -> int:
    """The time between two messages, in ns."""
    return later.message.time - earlier.message.time


def numbered_before(step: Step, other: Step) -> bool:
    """Whether it was sent before another message of its port and connection, and so of one life, by their numbers."""
    return port_trace.numbered_before(step.message, other.message)


def how_much_later(gaps: Sequence[int]) -> str:
    """When the first and the last of some messages came after another, in words."""
    return f"{duration(gaps[0])} later" if len(gaps) == 1 else f"{duration(gaps[0])} to {duration(gaps[-1])} later"


def one_capture(*steps: Step) -> bool:
    """Whether one input holds all of them, so that one clock stamped their times."""
    return len({step.message.file for step in steps}) == 1


def heard(view: Context, connection: Connection, role: Role) -> bool:
    """Whether the capture shows any CM message from this end's address, of this connection or another."""
    return connection.end(role).address in view.ports.heard or any(step.sender == role for step in connection.steps)


def unanswered(connection: Connection) -> list[Step]:
    """The sends of a REQ that nobody answered (conditions.silent), as far as its sender shows that.

    A requester that repeats itself, may not do so, or gives up (REJ 4) has had no answer; one that rejects for another
    reason had one.
    """
    requests, rejects = of_type(connection, "REQ"), of_type(connection, "REJ")
    if not requests or connection.sidr:
        return []
    if any(rej_reason(step) != TIMEOUT for step in rejects):
        return []
    tries = sends(connection, requests[-1])
    return tries if len(tries) > 1 or rejects or max_cm_retries(connection.request) == 0 else []


def gave_up(connection: Connection, step: Step) -> Step | None:
    """How the requester had ended its attempt before `step`: its REJ 4, or the last REQ allowed whose wait was over."""
    retries = max_cm_retries(connection.request)
    if connection.request is None or retries is None:
        return None
    requests = []
    for earlier in connection.steps:
        if earlier is step:
            break
        if earlier.message.type == "REQ":
            requests.append(earlier)
        elif earlier.sender == "active" and rej_reason(earlier) == TIMEOUT:
            return earlier
        elif earlier.sender == "passive" and earlier.message.type in ("MRA", "REP"):
            return None  # the wait was stretched, or it was not a first answer
    if len(requests) <= retries:
        return None
    over = requests[-1].message.time + patience(requests, response_wait(connection.request, "active").nominal)
    return requests[-1] if step.message.time > over else None
