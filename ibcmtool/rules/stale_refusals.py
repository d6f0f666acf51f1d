"""S02, S03, S09, S13: what follows when a REQ or REP was refused as stale (REJ 10), as IBA 12.9.8.3.1 asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.timers import DUTY_WAITS, response_wait, retry_budget
from ibcmtool.formatting import address, duration, end_name, qpn, times
from ibcmtool.model import PEER, Conflict, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first, refused_as_stale, rejected
from ibcmtool.rules.context import Context
from ibcmtool.rules.stale import numbers
from ibcmtool.rules.steps import of_type
from ibcmtool.rules.symptoms import of_stale_refusal

REPEATED_REFUSALS = 3  # S09 speaks from the next one on
REFUSED_QPNS_KEPT = 4096
BESIDE = 1_000_000_000  # ns after a stale refusal in which S13 sees a connection with it


def _conflict_with(event: Event, old: Connection) -> Conflict | None:
    connection = event.connection
    return next((c for c in (*connection.request_conflicts, *connection.reply_conflicts) if c.other is old), None)


@rule(
    "S02",
    "stale-refused",
    "A REQ or REP with the QPN of a connected QP was refused as stale, as it must be",
    severity="warning",
    on=("STALE_DUTY",),
    clause="IBA 12.4.1, 12.9.8.3.1; Linux cm_match_req, cm_rep_handler",
    explanation="One side opens a connection with a QPN that the other side still holds connected: so the first side "
    "lost its half of the old connection without saying goodbye (power loss, reboot, crash, or a DREQ that got "
    "lost). The receiver did what the specification asks for: REJ 10, then a DREQ on the old connection. The old "
    "connection is called stale. A further attempt that is refused because of the same old connection is information: "
    "S09 counts them.",
    false_positives="None known while the CA GUIDs are unique: the receiver itself says that the connection is stale.",
    advice="Find out why the owner of the QPN left the old connection without a DREQ: it rebooted, crashed, or its "
    "DREQ was lost. The other side lets go once its own DREQ is answered or retried to the end; connecting again "
    "works then, and with another QPN at once.",
)
def stale_refused(event: Event, view: Context) -> Iterator[Verdict]:
    connection, old = event.connection, event.related
    reject = connection.reject
    conflict = _conflict_with(event, old) if old is not None else None
    if reject is None or old is None or conflict is None:
        return
    kind = "REQ" if reject.sender == "passive" else "REP"
    sent = of_type(connection, kind)
    if not sent:
        return
    # The capture may have the REJ before what it refuses, by a little.
    refused = ([step for step in sent if step.message.time <= reject.message.time] or sent[:1])[-1]
    evidence = numbers(conflict, refused.message.time)
    if old.stale_by is connection:
        yield _first_refusal(event, conflict, kind, (refused, reject), evidence)
    else:
        yield _further_refusal(conflict, kind, (refused, reject), evidence)


def _first_refusal(
    event: Event, conflict: Conflict, kind: str, steps: tuple[Step, Step], evidence: dict[str, Any]
) -> Verdict:
    """The attempt that proved the old connection stale: who holds it, since when and until when."""
    connection, old, dreq = event.connection, conflict.other, event.step
    refused, reject = steps
    asker = connection.active if kind == "REQ" else connection.passive
    owner, holder = end_name(old.end(conflict.owner)), end_name(old.peer(conflict.owner))
    sentence = (
        f"{kind} of {end_name(asker)} with QPN {evidence['qpn']}, which {holder} still holds connected to {owner} "
        f"(connection {old.id}, opened {duration(evidence['age_ns'])} before, last CM message "
        f"{duration(evidence['last_message_ns'])} before), refused with REJ 10."
    )
    until = f"{holder} lets go of connection {old.id} when its consumer closes it or its QP fails"
    if dreq is not None:
        budget = retry_budget(old.request, PEER[conflict.owner])
        evidence["dreq_frame"] = dreq.message.frame
        evidence["dreq_after_ns"] = dreq.message.time - reject.message.time
        evidence["lets_go_at_the_latest_ns"] = dreq.message.time + budget
        after, frame = duration(evidence["dreq_after_ns"]), dreq.message.frame
        sentence += f" The DREQ that must follow came after {after} (frame {frame})."
        if dreq.message.destination != refused.message.source:
            to, source = address(dreq.message.destination), address(refused.message.source)
            sentence += (
                f" It goes to {to}, where connection {old.id} was made from, while this {kind} came from {source}."
            )
        until = (
            f"{holder} lets go of connection {old.id} when its DREQ is answered, at the latest {duration(budget)} "
            "after it"
        )
    elif conflict.peer_state == "DREQ_SENT":
        sentence += f" {holder} is already trying to close it: its DREQ is unanswered."
        until = f"{holder} lets go of connection {old.id} when its DREQ is answered or retried to the end"
    advice = (
        f"{owner} left connection {old.id} without a DREQ that arrived (reboot, crash, kill, loss): its uptime and log "
        f"tell. {until}; until then QPN {evidence['qpn']} is refused, another QPN is not."
    )
    if kind == "REQ":
        advice = f"{advice} {of_stale_refusal(connection)}".rstrip()
    return Verdict(sentence, steps, evidence, related=(old,), advice=advice)


def _further_refusal(conflict: Conflict, kind: str, steps: tuple[Step, Step], evidence: dict[str, Any]) -> Verdict:
    """A later attempt, refused because of the same old connection."""
    old, time = conflict.other, steps[0].message.time
    holder = end_name(old.peer(conflict.owner))
    dreqs = [s for s in of_type(old, "DREQ", sender=PEER[conflict.owner]) if s.message.time < time]
    unanswered = f"its DREQ, sent {times(len(dreqs))} until then, is unanswered" if dreqs else "it has sent no DREQ"
    return Verdict(
        f"{kind} with QPN {evidence['qpn']} refused with REJ 10 again: {holder} still holds connection {old.id}, and "
        f"{unanswered}.",
        steps,
        evidence | {"dreqs": len(dreqs)},
        severity="info",
        related=(old,),
        advice=f"{holder} lets go of connection {old.id} when its DREQ is answered or retried to the end, or its "
        "consumer closes it; another QPN is accepted at once.",
    )


@rule(
    "S03",
    "stale-without-dreq",
    "No DREQ followed on the old connection after REJ 10",
    severity="error",
    on=("STALE_DUTY",),
    clause="IBA 12.9.8.3.1; Linux since about 4.10 (2016)",
    explanation="After refusing a stale REQ or REP the CM must send a DREQ on the old connection (naming the QPN in "
    "question), repeat it until it is answered or its retries are exhausted, and put its QP into timewait. Otherwise "
    "the old connection stays and every later attempt with this QPN is refused again. Linux kernels before 2016 did "
    "not send it.",
    false_positives="A DREQ missing from the capture, or held back by MAD flow control: an error after three timeouts, "
    "a possible warning where the capture ends after one. Told once for each old connection. Not raised when that was "
    "not established at the receiver (Linux sends the DREQ only then), or when the capture ends before it was due.",
    advice="Update the kernel of the side that sent the REJ if it is older than 4.10 (2016); until then restart the "
    "consumer that holds the old connection there.",
)
def stale_without_dreq(event: Event, view: Context) -> Iterator[Verdict]:
    old, reject = event.related, event.connection.reject
    conflict = _conflict_with(event, old) if old is not None else None
    if event.step is not None or old is None or conflict is None or reject is None:
        return
    if old.stale_by is not event.connection:
        return  # told when the first attempt was refused
    holder: Role = PEER[conflict.owner]
    wait = response_wait(old.request, holder).nominal
    waited = view.watched(old, reject.message.time, event.time)
    if conflict.peer_state != "ESTABLISHED" or old.end(holder).state != "ESTABLISHED" or waited < wait:
        return
    name = end_name(old.end(holder))
    yield Verdict(
        f"{name} refused with REJ 10 because of connection {old.id}, but no DREQ on that connection was seen within "
        f"{duration(waited)}: it holds QPN {qpn(old.end(conflict.owner).qpn or 0)} on, and refuses every further "
        "attempt with it.",
        (reject,),
        {"held_by_connection": old.id, "waited_ns": waited, "timeout_ns": wait},
        "probable" if waited >= DUTY_WAITS * wait else "possible",
        None if waited >= DUTY_WAITS * wait else "warning",
        related=(old,),
        advice=f"Update the kernel of {name} if it is older than 4.10 (2016); until then restart the consumer that "
        f"holds connection {old.id} there, or let the requester take another QPN.",
    )


class _Refusals(NamedTuple):
    """What S09 knows of one QPN that is refused as stale."""

    first: Step  # the REJ
    last: Step
    newest: int  # id of the newest connection that was refused
    refusals: int


@rule(
    "S09",
    "stale-again-and-again",
    "The same QPN is refused as stale over and over",
    severity="warning",
    on=("REJ", "ENDED"),
    history=rejected,
    when=refused_as_stale,
    clause="IBA 12.9.8.3.1",
    explanation="More than three REQs with the same QPN from the same CA were refused with REJ 10: the receiver "
    "does not get rid of the old connection. Its DREQ is not answered (or the answer is ignored), or it sends none "
    "(S03). Told when no further attempt is expected, with all that were counted.",
    false_positives="Two machines with the same CA GUID.",
    advice="Stop retrying with this QPN: a new QP gets through. On the receiver, close the old connection (restart "
    "its consumer) or wait until its DREQ retries are exhausted.",
)
def stale_again(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    end, memory = connection.active, view.memory["S09"]
    key = (end.ca_guid, end.qpn, connection.passive.address)
    known: _Refusals | None = memory.get(key)
    if step is not None:
        if step.sender == "passive":
            memory.pop(key, None)  # newest last
            memory[key] = _Refusals(
                known.first if known else step, step, connection.id, known.refusals + 1 if known else 1
            )
            while len(memory) > REFUSED_QPNS_KEPT:
                del memory[next(iter(memory))]
        return
    if known is None or known.newest != connection.id:
        return
    del memory[key]
    if known.refusals > REPEATED_REFUSALS:
        yield _over_and_over(connection, known)


def _over_and_over(connection: Connection, known: _Refusals) -> Verdict:
    """The verdict on a QPN, by the newest attempt and what has become of the old connection since."""
    end, holder = connection.active, end_name(connection.passive)
    span = known.last.message.time - known.first.message.time
    conflict = next(
        (c for c in connection.request_conflicts if c.same_peer and c.peer_state not in CLOSED_STATES), None
    )
    old = None if conflict is None else conflict.other
    evidence = {"refusals": known.refusals, "span_ns": span, "qpn": qpn(end.qpn or 0)}
    sentence = (
        f"QPN {evidence['qpn']} of {end_name(end)} was refused as stale {known.refusals} times within {duration(span)} "
        f"by {holder}"
    )
    if old is None or conflict is None:
        return Verdict(sentence + ".", (known.first, known.last), evidence)
    sentence += f", which held it connected (connection {old.id})"
    role: Role = PEER[conflict.owner]
    dreqs = of_type(old, "DREQ", sender=role)
    dreps = of_type(old, "DREP", sender=conflict.owner)
    start = known.first.message.time
    if not dreqs:
        sentence += " and sent no DREQ on it"
    elif dreps:
        evidence["released_ns"] = dreps[0].message.time
        sentence += f": its DREQ was answered only {duration(dreps[0].message.time - start)} after the first refusal"
    elif old.peer(conflict.owner).state in CLOSED_STATES:
        released = dreqs[-1].message.time + response_wait(old.request, role).nominal
        evidence["released_ns"] = released
        sentence += (
            f" until its DREQ, sent {times(len(dreqs))} and never answered, was given up about "
            f"{duration(released - start)} after the first refusal"
        )
    else:
        sentence += f": its DREQ, sent {times(len(dreqs))} so far, was not answered"
    return Verdict(sentence + ".", (known.first, known.last), evidence, related=(old,))


@rule(
    "S13",
    "closed-beside-stale",
    "A sound connection was closed right after another one was refused as stale",
    severity="info",
    on=("REJ", "DREQ"),
    history=first,
    clause="IBA 12.9.8.3.1 (only the connection that the stale QPN belongs to gets a DREQ)",
    explanation="After a stale refusal the CM must release the one connection that holds the QPN. Within a second a "
    "port that had refused, or its peer, sent a DREQ on another connection of the same service as well. No stale REQ "
    "or REP named a QPN of that one, so it was its consumer that closed it: for instance because it restarts all its "
    "connections when one fails. So people see sound connections go down, and blame the stale one.",
    false_positives="A connection that was to be closed at that moment anyway. It accuses nobody.",
    advice="Look at the consumer that sent this DREQ: its CM had no reason to touch the connection.",
)
def closed_beside_stale(event: Event, view: Context) -> Iterable[Verdict]:
    memory, closing = view.memory["S13"], event.kind == "DREQ"
    if closing and not memory:
        return ()
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return ()
    if not closing:
        if refused_as_stale(connection, step):
            memory[step.message.source] = (step, connection)  # the newest of each port
        return ()
    if connection.stale_by is not None or connection.established is None:
        return ()
    found = [memory[port] for port in (step.message.source, step.message.destination) if port in memory]
    return [
        _beside(connection, step, reject, refused)
        for reject, refused in found[:1]
        if step.message.time - reject.message.time <= BESIDE and refused.service_id == connection.service_id
    ]


def _beside(connection: Connection, step: Step, reject: Step, refused: Connection) -> Verdict:
    assert step.sender != "unknown"
    gap = step.message.time - reject.message.time
    sender, refuser = end_name(connection.end(step.sender)), address(reject.message.source)
    return Verdict(
        f"{sender} closed this connection {duration(gap)} after {refuser} had refused connection {refused.id} as "
        "stale. No stale REQ or REP named one of its QPNs: this DREQ is the consumer's own.",
        (reject, step),
        {"after_refusal_ns": gap},
        related=(refused,),
        advice=f"Look at the consumer on {sender}: its CM had no reason to touch this connection.",
    )
