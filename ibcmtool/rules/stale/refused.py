"""S02, S03: what follows when a REQ or REP was refused as stale (REJ 10), as IBA 12.9.8.3.1 asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibcmtool.connections.deadlines import LINGER
from ibcmtool.connections.matching import of_one_boot
from ibcmtool.connections.port_trace import NEAR_ZERO
from ibcmtool.connections.timers import DUTY_WAITS, exponent, response_wait, retry_budget
from ibcmtool.evidence import Ground, unopposed, weakened
from ibcmtool.formatting import address, count, duration, end_name, qpn, times
from ibcmtool.formatting import numbers as listed_numbers
from ibcmtool.messages import Mra
from ibcmtool.model import PEER, Conflict, Connection, End, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import rejected
from ibcmtool.rules.facts.refusals import Refusal, refusals
from ibcmtool.rules.stale.holders import also_held, last_message, numbers, since
from ibcmtool.rules.steps import DISORDER, between, fields_of, numbered_before, of_type
from ibcmtool.rules.symptoms import of_stale_refusal
from ibcmtool.values import Duration, FrameNumber, Value

ENOUGH_DREQS: Final = 4  # without an answer, to tell that nobody is there: fewer are lost by chance
MOST_NAMED: Final = 8  # other old connections, by number

S02 = rule(
    "S02",
    "stale-refused",
    "A REQ or REP with the QPN of a connected QP was refused as stale, as it must be",
    severity="warning",
    clause="IBA 12.4.1, 12.9.8.3.1; Linux cm_match_req, cm_rep_handler",
    explanation="One host opens a connection with a QPN (the number of its queue pair) that the other side still holds"
    " connected. So the first host has lost its half of an older connection without saying goodbye: power loss,"
    " reboot, crash, or a DREQ that got lost. The receiver did what the specification asks for: it refused (REJ 10)"
    " and sent a DREQ on the old connection, which is called stale. Linux frees the QPN only when that DREQ is"
    " answered or its retries run out, not when it is sent. A further attempt that is refused because of the same old"
    " connection is information: S09 counts them.",
    false_positives="None known while the CA GUIDs are unique: the receiver itself says that the connection is stale."
    " Where the REQ or REP came from another address than the old connection's, it may be another machine with the same"
    " GUID (X12): information, unless nothing answers at the old address and the new one's QP1 counts from 0.",
    advice="Now: connect again with another QPN, which gets through at once; most programs take one with each attempt."
    " With the same QPN wait until the other side has let go: when its DREQ is answered, or when its retries run out"
    " (up to about 70 s with upstream Linux, 270 s with MLNX OFED). Do not restart the target for it, that drops every"
    " host. Then: find out why the owner of the QPN left the old connection without a DREQ that arrived: it rebooted"
    " or crashed, or its DREQ was lost.",
    rests_on=(),  # the refusal itself says that the connection is held
)


@S02.on_event("STALE_DUTY")
def stale_refused(connection: Connection, event: Event, context: Context) -> Verdicts:
    for refusal in refusals(event):
        if not refusal.elsewhere(connection):
            yield from _refused(connection, refusal, context)


# Whether the other address is another machine with the same CA GUID (X12) shows afterwards.
@S02.on_event("ENDED", history=rejected)
def stale_refused_elsewhere(connection: Connection, event: Event, context: Context) -> Verdicts:
    for refusal in context.refusals.elsewhere(connection):
        old = refusal.conflict.other
        if old.stale_by is connection and old.outcome != "stale":
            continue  # its owner has answered since: another machine
        if not context.traces.in_one_stretch((*old.steps, *connection.steps)):
            continue  # who lived on while the other one spoke cannot be known
        if not context.witness.two_machines(refusal.conflict, connection, refusal.role):
            for verdict in _refused(connection, refusal, context):
                yield verdict._replace(rests_on=(*verdict.rests_on, _same_machine(connection, refusal)))


def _same_machine(connection: Connection, refusal: Refusal) -> Ground:
    """The owner of the QPN has come back with another address.

    Its QP1 counts anew, then, and the DREQ to the old address has no answer, so that it is repeated over and over.
    """
    old, role, end = refusal.conflict.other, refusal.conflict.owner, connection.end(refusal.role)
    owner = old.end(role)
    word = next((step.message for step in connection.steps if step.sender == end.role), None)
    anew = word is not None and (word.psn or 0) < NEAR_ZERO
    gone = len(of_type(old, "DREQ", sender=PEER[role])) >= ENOUGH_DREQS and not of_type(old, "DREP", sender=role)
    both = connection.opened < old.opened  # it was asked for at the new address before the old one had spoken
    one_boot = owner.comm_id and end.comm_id and of_one_boot(owner.comm_id, end.comm_id)
    if not both and ((anew and gone) or one_boot):
        return unopposed("same machine")
    return Ground("same machine", "weakened", f"its CA GUID was at {address(owner.address)} before")


def _refused(connection: Connection, refusal: Refusal, context: Context) -> Verdicts:
    """The verdict on a refusal, and on the DREQ that followed on the old connection."""
    role, conflict, reject, dreq = refusal
    kind = "REQ" if role == "active" else "REP"
    sent = of_type(connection, kind)
    if not sent:
        return
    dreps = of_type(conflict.other, "DREP", sender=PEER[conflict.owner])
    if any(between(drep, reject) >= 0 or numbered_before(drep, reject) for drep in dreps):
        return  # it had closed, though not all was captured: a strict receiver refuses in its timewait, too
    # The capture may have the REJ before what it refuses, by a little.
    refused = ([step for step in sent if step.message.time <= reject.message.time] or sent[:1])[-1]
    evidence: dict[str, Value | Sequence[Value]] = {**numbers(conflict, refused.message.time)}
    if conflict.other.stale_by is connection:
        yield _first_refusal(connection, dreq, conflict, kind, (refused, reject), evidence, context)
    else:
        yield _further_refusal(conflict, kind, (refused, reject), evidence)


def _conflict_with(connection: Connection, old: Connection | None) -> Conflict | None:
    return next((conflict for _, conflict in connection.conflicts() if conflict.other is old), None)


def _first_refusal(
    connection: Connection,
    dreq: Step | None,
    conflict: Conflict,
    kind: str,
    steps: tuple[Step, Step],
    evidence: dict[str, Value | Sequence[Value]],
    context: Context,
) -> Verdict:
    """The attempt that proved the old connection stale: who holds it, since when and until when."""
    old, (refused, reject) = conflict.other, steps
    if dreq is not None and dreq.sender != PEER[conflict.owner]:
        dreq = None  # the owner's own
    asker = connection.active if kind == "REQ" else connection.passive
    owner, holder = end_name(old.end(conflict.owner)), end_name(old.peer(conflict.owner))
    number, time = qpn(old.end(conflict.owner).qpn or 0), refused.message.time
    sentence = (
        f"{kind} of {end_name(asker)} with QPN {number}, which {holder} still holds connected to {owner} "
        f"({since(old, time)}), refused with REJ 10."
    )
    until = f"{holder} lets go of connection {old.id} when its consumer closes it or its QP fails"
    if dreq is not None:
        after = dreq.message.time - reject.message.time
        evidence["dreq_frame"] = FrameNumber(dreq.message.file, dreq.message.frame)
        evidence["dreq_after"] = Duration(after)
        evidence["retry_budget"] = Duration(retry_budget(old.request, PEER[conflict.owner]))
        sentence += f" The DREQ that must follow came after {duration(after)} ({context.frame(dreq.message)})."
        if dreq.message.destination != refused.message.source:
            to, source = address(dreq.message.destination), address(refused.message.source)
            sentence += (
                f" It goes to {to}, where connection {old.id} was made from, while this {kind} came from {source}."
            )
        until = f"{holder} lets go of connection {old.id} when its DREQ is answered or its retries have run out"
        if kind == "REQ":
            until += f" (connection {connection.id} has the earliest safe retry)"
    elif conflict.peer_state == "DREQ_SENT":
        sentence += f" {holder} is already trying to close it: its DREQ is unanswered."
        until = f"{holder} lets go of connection {old.id} when its DREQ is answered or retried to the end"
    others = also_held(connection, conflict, context)
    if others:
        evidence["other_connections"] = [other.id for other in others[:MOST_NAMED]]
    cause = "reboot, crash, kill, loss); its uptime and log show which."
    if old.end(conflict.owner).restarted is not None:
        cause = "it rebooted or reloaded its driver); its log says why."
    advice = (
        f"Now: connect with another QPN, which is accepted at once, or wait. {until}; until then QPN {number} is "
        f"refused.{_others(others, old.peer(conflict.owner), old.end(conflict.owner))} Then: {owner} left connection "
        f"{old.id} without a DREQ that arrived ({cause}"
    )
    if kind == "REQ":
        advice = f"{advice} {of_stale_refusal(connection)}".rstrip()
    last = last_message(old, reject.message.time)
    said = [] if dreq is not None else [context.witness.complete(reject.message.source, last, reject.message.time)]
    if said and said[0].strength == "unopposed" and of_type(old, "DREQ", sender=conflict.owner):
        said.append(Ground("complete", "weakened", f"a DREP of {holder} may not have been captured"))
    files = {step.message.file for step in (reject, *old.steps)}
    ordered = not context.coverage.several and all(map(context.witness.in_order, files))
    if reject.message.time - last < DISORDER and not ordered:
        said.append(Ground("order", "weakened", "messages are out of order around the refusal"))
    return Verdict(sentence, evidence, said, steps=steps, related=(old,), advice=advice)


def _others(others: Sequence[Connection], holder: End, owner: End) -> str:
    """What else the holder keeps of the host that lost a connection."""
    if not others:
        return ""
    more = f" and {count(len(others) - MOST_NAMED, 'other')}" if len(others) > MOST_NAMED else ""
    named = listed_numbers([other.id for other in others[:MOST_NAMED]])
    shown = any(end.restarted is not None for other in others for end in (other.active, other.passive))
    return (
        f" {end_name(holder)} holds {count(len(others), 'older connection')} with {address(owner.address)} besides"
        f" ({named}{more}), stale as well {'as' if shown else 'if'} that host restarted: REQs with their QPNs will be"
        " refused, too."
    )


def _further_refusal(
    conflict: Conflict, kind: str, steps: tuple[Step, Step], evidence: dict[str, Value | Sequence[Value]]
) -> Verdict:
    """A later attempt, refused because of the same old connection."""
    old, time = conflict.other, steps[0].message.time
    holder = end_name(old.peer(conflict.owner))
    dreqs = [s for s in of_type(old, "DREQ", sender=PEER[conflict.owner]) if s.message.time < time]
    unanswered = f"its DREQ, sent {times(len(dreqs))} until then, is unanswered" if dreqs else "it has sent no DREQ"
    return Verdict(
        f"{kind} with QPN {qpn(old.end(conflict.owner).qpn or 0)} refused with REJ 10 again: {holder} still holds "
        f"connection {old.id}, and {unanswered}.",
        {**evidence, "dreqs": len(dreqs)},
        steps=steps,
        severity="info",
        related=(old,),
        advice=f"{holder} lets go of connection {old.id} when its DREQ is answered or retried to the end, or its "
        "consumer closes it; another QPN is accepted at once.",
    )


S03 = rule(
    "S03",
    "stale-without-dreq",
    "No DREQ followed on the old connection after REJ 10",
    severity="error",
    clause="IBA 12.9.8.3.1; Linux since 4.10",
    explanation="After refusing a stale REQ or REP the CM must send a DREQ on the old connection (naming the QPN in"
    " question), repeat it until it is answered or its retries run out, and put its QP into timewait. Otherwise the"
    " old connection stays, and every later attempt with this QPN is refused again. Upstream Linux before 4.10 (of"
    " 2017, as far as known) did not send it. Vendor kernels may have got the change earlier, so the version that"
    " uname shows proves nothing.",
    false_positives="A DREQ missing from the capture, or held back by MAD flow control: an error after three timeouts,"
    " if later messages of its sender prove by their numbers that none was missed, else information. So is a refusal"
    " while the old connection's RTU may not have arrived yet. Reported once for each old connection. Not raised when"
    " that was not established at the receiver (Linux sends the DREQ only then), or when the capture ends before it"
    " was due.",
    advice="Now: connect with another QPN, which gets through at once. If it must be this one, wait until the side"
    ' that refused ends the old connection by itself; an NVMe target (nvmet) does, and logs "ctrl N keep-alive timer'
    " (N seconds) expired!\". Restarting the target's service drops every host, so it comes last. Then: update the"
    " kernel of that side if it lacks this DREQ (upstream before 4.10).",
    rests_on=(),  # it is known who refused; what else may be missing changes nothing
)


@S03.on_event("STALE_DUTY")
def stale_without_dreq(connection: Connection, event: Event, context: Context) -> Verdicts:
    """No verdict yet: whether the DREQ was but missed shows in what its sender sends later."""
    conflict, reject = _conflict_with(connection, event.related), connection.reject
    if event.step is not None or conflict is None or reject is None or conflict.other.stale_by is not connection:
        return ()  # or told when the first attempt was refused
    old, holder = conflict.other, PEER[conflict.owner]
    wait = response_wait(old.request, holder).nominal
    waited = context.watched(old, reject.message.time, event.time)
    if conflict.peer_state != "ESTABLISHED" or old.end(holder).state != "ESTABLISHED" or waited < wait:
        return ()
    name = end_name(old.end(holder))
    verdict = Verdict(
        f"{name} refused with REJ 10 because of connection {old.id}, but no DREQ on that connection was seen within "
        f"{duration(waited)}: it still holds QPN {qpn(old.end(conflict.owner).qpn or 0)}, and refuses every further "
        "attempt with it.",
        {"held_by_connection": old.id, "waited": Duration(waited), "timeout": Duration(wait)},
        (
            unopposed("complete") if waited >= DUTY_WAITS * wait else weakened("complete"),
            _was_open(old, holder, reject),
        ),
        None if waited >= DUTY_WAITS * wait else "warning",
        steps=(reject,),
        related=(old,),
        advice=f"Now: connect with another QPN, which is accepted at once, or wait until {name} ends connection "
        f'{old.id} by itself (an NVMe target logs "ctrl N keep-alive timer (N seconds) expired!"). Restarting its '
        f"service drops every host, so it comes last. Then: update {name}'s kernel if it lacks this DREQ (upstream "
        "before 4.10).",
    )
    context.memory["S03"].setdefault(connection.id, []).append((verdict, old, event.time))
    # By then the attempt may be forgotten.
    return () if event.time - reject.message.time < LINGER else dreq_not_missed(connection, event, context)


@S03.on_event("ENDED", history=rejected)
def dreq_not_missed(connection: Connection, event: Event, context: Context) -> Verdicts:
    owed: list[tuple[Verdict, Connection, int]] = context.memory["S03"].pop(connection.id, [])
    for verdict, old, due in owed:
        if connection.reject is not None and context.traces.in_one_stretch((*old.steps, *connection.steps)):
            reject = connection.reject.message
            yield verdict._replace(
                rests_on=(*verdict.rests_on, context.witness.silent(reject.source, reject.time, due))
            )


def _was_open(old: Connection, holder: Role, reject: Step) -> Ground:
    """The old connection was established at its holder, who else owes no DREQ: the RTU had arrived by then."""
    rtus = of_type(old, "RTU", sender=PEER[holder])
    if holder == "active" or holder in old.first_data or not rtus:
        return unopposed("received")
    promised = [fields_of(mra, Mra).service_timeout for mra in of_type(old, "MRA", sender="active")]
    wait = response_wait(old.request, holder).nominal + max((exponent(each) for each in promised if each), default=0)
    if between(rtus[0], reject) > wait:  # and no REP has asked for it again
        return unopposed("received")
    return Ground("received", "weakened", "the RTU of the old connection may not have arrived yet")
