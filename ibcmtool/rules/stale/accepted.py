"""S01, S04-S07: how a REQ or REP was answered that names a QPN which its receiver has not let go of.

S01 and S04 are about a QPN that is connected (IBA 12.9.8.3.1; what follows a refusal is in refused.py), S05-S07 about
one in the receiver's timewait, on which the two readings of the specification part.
"""

from __future__ import annotations

from operator import itemgetter

from ibcmtool.analysis import Severity
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import sends
from ibcmtool.connections.implementation import LEAST_CLOCK
from ibcmtool.connections.matching import misaddressed
from ibcmtool.connections.timers import most_sends, response_wait
from ibcmtool.evidence import Ground, begun, established, in_order, timer, unopposed, weakened
from ibcmtool.formatting import duration, end_name, qpn
from ibcmtool.model import Conflict, Connection, End, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first, refused_as_stale
from ibcmtool.rules.stale.holders import held, in_peer_timewait, last_message, numbers
from ibcmtool.rules.steps import DISORDER, between, of_type
from ibcmtool.values import Duration, Qpn

S01 = rule(
    "S01",
    "stale-req-accepted",
    "A REQ with the QPN of a connected QP was accepted",
    severity="error",
    clause="IBA 12.9.8.3.1 (REQ received); Linux cm_match_req",
    explanation="The receiver of this REQ has a connection, still open, to the very QPN that the REQ names (same CA "
    "GUID). It had to refuse with REJ 10 (stale connection) and to release the old connection with a DREQ, because "
    "packets of the old sender may still be on their way to a QP that cannot tell senders apart. It answered REP "
    "instead.",
    false_positives="A DREQ or REJ that closed the old connection and is missing from the capture; a CA GUID shared by"
    " cloned machines. Not raised when the old connection had begun to close, and only probable while it had no RTU or"
    " data. Information where the receiver may have restarted (its Communication IDs, QPNs or TransactionIDs begin"
    " anew), has stopped repeating a REP that got no RTU, or may have sent the last REP allowed, while no data show"
    " the connection at work.",
    advice="First let the requester connect again with a fresh QP, so that no two connections share one. Then get rid"
    " of the old connection alone on the side that answered REP: an NVMe target (nvmet) ends it by itself, wait for"
    ' "ctrl N keep-alive timer (N seconds) expired!" in its kernel log. Restarting the whole service drops every'
    " host, so it comes last. The fault is in the CM of that side: it lost its table of connected QPNs, or does not"
    " check it.",
)


@S01.on_step("REP", history=first, when=entangled)
def stale_req_accepted(connection: Connection, step: Step, context: Context) -> Verdicts:
    if not connection.request_conflicts or connection.late_duplicate_of:
        return
    if of_type(connection, "REJ", sender="passive"):
        return  # it was refused first, and accepted when it came again
    request = of_type(connection, "REQ")[0]
    for conflict in held(connection.request_conflicts, request.message.time, context):
        if conflict.other.peer(conflict.owner).state not in CLOSED_STATES:  # or the refusal was not captured
            yield _accepted(connection, conflict, request, step, context)


S04 = rule(
    "S04",
    "stale-rep-accepted",
    "A REP with the QPN of a connected QP was accepted",
    severity="error",
    clause="IBA 12.9.8.3.1 (REP received); Linux cm_rep_handler",
    explanation="The REP names a QPN of the passive CA to which the active side has a connection already. It had to "
    "be refused with REJ 10 (message REP), followed by a DREQ on the old connection; it was answered with RTU.",
    false_positives="As S01. A REP that was refused first and then offered anew for the repeated REQ is judged by "
    "the state at its second coming.",
    advice="Look at the CM of the side that sent the RTU; the passive side lost the old connection (reboot, crash).",
)


def _reply_contested(connection: Connection, step: Step) -> bool:
    return connection.reply_conflicts != ()


@S04.on_step("RTU", history=first, when=_reply_contested)
def stale_rep_accepted(connection: Connection, step: Step, context: Context) -> Verdicts:
    if misaddressed(connection, "active", step.message):
        return  # it accepts another REP, which was not captured yet
    reply = of_type(connection, "REP")[-1]
    for conflict in held(connection.reply_conflicts, reply.message.time, context):
        if conflict.other.peer(conflict.owner).state not in CLOSED_STATES:  # closed between the REP and the RTU
            yield _accepted(connection, conflict, reply, step, context)


def _accepted(connection: Connection, conflict: Conflict, offer: Step, answer: Step, context: Context) -> Verdict:
    """The verdict on the answer to a REQ or REP whose QPN the answering side holds in another connection."""
    old, kind, time = conflict.other, offer.message.type, offer.message.time
    active, passive = connection.active, connection.passive
    owner, holder = (active, passive) if kind == "REQ" else (passive, active)
    return Verdict(
        f"{end_name(holder)} accepted a {kind} with QPN {qpn(owner.qpn or 0)} of {end_name(owner)} to which it is "
        f"already connected: connection {old.id}, open for {duration(time - old.opened)}. REJ 10 was due.",
        numbers(conflict, time),
        (
            _taken(conflict, answer.message.time),
            *_still_held(conflict, owner, holder, offer, answer, context),
            *_one_agent(connection, conflict),
        ),
        steps=(offer, answer),
        related=(old,),
    )


def _taken(conflict: Conflict, time: int) -> Ground:
    """Both ends took the old connection for open, or its passive side still waits for the RTU at `time`.

    An RTU has arrived if the REP does not come again; but the last REP allowed would not, and those before it may not
    have been captured.
    """
    old = conflict.other
    unheard = conflict.owner == "active" and conflict.peer_state != "MRA_REP_RCVD" and not old.first_data
    reps, rtus = sends(old, "REP", "passive") if unheard else [], of_type(old, "RTU")
    if not reps:
        return established(old)
    wait, last, asked = response_wait(old.request, "passive").minimum, reps[-1], of_type(old, "REQ")
    was_last = bool(asked) and between(asked[0], last) + DISORDER >= wait * (most_sends(old.request) - 1)
    over = was_last or not rtus or between(rtus[-1], last) > DISORDER  # no RTU has ended the REPs
    if over and time - last.message.time > wait:
        sign = f"no RTU is seen to end the REPs of connection {old.id}, which may have been given up"
        return Ground("received", "weakened", sign)
    return established(old)


def _still_held(
    conflict: Conflict, owner: End, holder: End, offer: Step, answer: Step, context: Context
) -> list[Ground]:
    """What it rests on that the side which answered held the QPN still: nobody had closed unseen, nobody is another."""
    old, witness = conflict.other, context.witness
    then, now = last_message(old, answer.message.time), answer.message.time
    clock = context.one_clock(old.steps[-1], offer)
    newest = {step.message.source: step.message for step in old.steps if step.message.time < now}
    order = [in_order(newest[new.source], new) for new in (offer.message, answer.message) if new.source in newest]
    return [
        *((clock,) if clock.strength == "weakened" else ()),  # else the numbers tell the order
        *(ground for ground in order if ground.strength == "refuted"),
        witness.took_no_leave(owner.address, then, offer.message.time),
        witness.complete(holder.address, then, now),
        witness.same_life(holder.address, then, now),
        witness.same_machine(old.peer(conflict.owner), holder, then, now),
        witness.same_port(old.end(conflict.owner), owner),
    ]


def _one_agent(connection: Connection, conflict: Conflict) -> list[Ground]:
    """A sign that the active side's MAD agent is another one since: its driver was loaded anew.

    Linux counts them (the high half of a TransactionID); others put a clock there.
    """
    if conflict.owner == "active":
        return []
    requests = [step for one in (conflict.other, connection) for step in of_type(one, "REQ")]
    agents = {step.message.tid >> 32 for step in requests}
    if len(agents) < 2 or max(agents) >= LEAST_CLOCK:
        return []
    return [Ground("same life", "weakened", f"{end_name(connection.active)} sends by another MAD agent since")]


S05 = rule(
    "S05",
    "timewait-req-accepted",
    "A REQ whose QPN is in the receiver's timewait was accepted",
    severity="info",
    clause="IBA 12.4 against 12.9.7.1 and 12.9.7.2; Linux since 2.6.19 accepts",
    explanation="The connection that used this QPN was closed by both sides, but the receiver's timewait for it is not"
    " over. The strict reading (from 12.4, by which the CM puts local and remote QPN into timewait) wants such a REQ"
    " refused as stale: error under --policy strict. The relaxed reading (12.9.7.1 and 12.9.7.2 list no action for a"
    " REQ in timewait; stale means connected) lets it be accepted: info under --policy relaxed. That the owner may not"
    " reuse its QPN so early is T01, under both.",
    false_positives="Clock errors in merged captures, or a clock that was set while nothing was captured, which is why"
    " it is never certain. Only raised inside the shortest timewait that the receiver can have.",
    advice="Nothing to do on the receiver if it is Linux. Look at the sender, which reuses its QPN early (T01).",
)


@S05.on_step("REP", history=first, when=entangled)
def timewait_req_accepted(connection: Connection, step: Step, context: Context) -> Verdicts:
    if not connection.late_duplicate_of:
        severity: Severity = "error" if context.policy == "strict" else "info"
        yield from _in_timewait(connection, step, context, "accepted it (REP)", severity)


S06 = rule(
    "S06",
    "timewait-req-refused",
    "A REQ was refused as stale although its QPN was only in timewait",
    severity="warning",
    clause="IBA 12.9.7.1 and 12.9.7.2 against 12.4; Linux up to 2.6.18 and illumos refuse",
    explanation="The old connection was closed by both sides; no open one with this QPN is known. The receiver "
    "refused all the same because its timewait was not over. Right under the strict reading (no finding there), "
    "needless under the relaxed one.",
    false_positives="An open connection with the same QPN that the capture does not show; clock errors as in S05."
    " Information where the receiver sent no DREP: it may be closing still.",
    advice="Connect with another QPN, or wait for the end of the receiver's timewait (a few seconds with usual"
    " timers).",
)


@S06.on_step("REJ", when=refused_as_stale)
def timewait_req_refused(connection: Connection, step: Step, context: Context) -> Verdicts:
    if step.sender != "passive" or context.policy == "strict":
        return
    if of_type(connection, "REP", sender="passive"):
        return  # a late copy of a REQ that had been accepted was refused
    if not any(c.same_peer and c.peer_state not in CLOSED_STATES for c in connection.request_conflicts):
        for verdict in _in_timewait(connection, step, context, "refused it with REJ 10", "warning"):
            said = [drep.message.source for old in verdict.related for drep in of_type(old, "DREP")]
            arrived = () if step.message.source in said else (weakened("received"),)  # else it sends its DREQ still
            yield verdict._replace(rests_on=(*verdict.rests_on, *arrived))


S07 = rule(
    "S07",
    "timewait-req-ignored",
    "A REQ whose QPN is in the receiver's timewait got no answer",
    severity="info",
    clause="IBA 12.9.7.1, 12.9.7.2; Topspin's CM drops such a REQ",
    explanation="The QPN of this REQ was used by a connection that is closed, but for which the receiver still keeps a"
    " pause (timewait). The REQ stayed unanswered until its last retry. Some old CMs drop such a REQ without a word;"
    " Linux and illumos do not. A REQ can also stay unanswered for other reasons.",
    false_positives="The answer is missing from the capture, or the receiver died.",
    advice="Connect with another QPN, which no timewait stands against, or wait for the end of the receiver's"
    " timewait. If that does not help, timewait was not the reason: see H18. A requester that keeps its QP out of use"
    " until its own timewait is over (T01) does not run into this.",
)


@S07.on_event("REQ_EXHAUSTED")
def timewait_req_ignored(connection: Connection, event: Event, context: Context) -> Verdicts:
    if not connection.request_conflicts or connection.passive.address not in context.ports.heard:
        return
    steps = of_type(connection, "REQ")
    last = steps[-1].message.time
    due = min(event.time, last + response_wait(connection.request, "active").nominal)
    if len(steps) == len(connection.steps) and context.covered(connection, last, due):  # only the REQ, repeated
        for verdict in _in_timewait(connection, steps[0], context, "left it unanswered", "info"):
            yield verdict._replace(rests_on=(weakened("complete"),), steps=(steps[0], steps[-1]))


def _in_timewait(connection: Connection, answer: Step, context: Context, what: str, severity: Severity) -> Verdicts:
    """The verdict on a REQ whose QPN is in the receiver's timewait, and which was answered like that."""
    if not connection.request_conflicts:
        return
    request, time = _answered(connection, answer)
    refused = [step.message.time for step in of_type(connection, "REJ", sender="passive") if step is not answer]
    if refused and time < refused[-1]:
        return  # the REQ that was accepted was not captured
    found = in_peer_timewait(connection.request_conflicts, time, context)
    if found is None:
        return
    old, holder, timewait = found
    number, after = connection.active.qpn or 0, max(time - timewait.start, 0)  # they may have crossed
    length = timewait.likely - timewait.start
    close = next((step for step in reversed(old.steps) if step.message.time <= timewait.start), old.steps[-1])
    if any(copy.time > timewait.start for step in of_type(old, "REQ") for copy in step.sightings):
        return  # that copy may have been accepted anew
    yield Verdict(
        f"REQ with QPN {qpn(number)} came {duration(after)} after connection {old.id} was closed, inside "
        f"{end_name(holder)}'s timewait of {duration(length)}, and {end_name(connection.passive)} {what}.",
        {"qpn": Qpn(number), "after_close": Duration(after), "timewait": Duration(length)},
        (
            timer(timewait),
            unopposed("timer"),  # a clock that was set while no message went by leaves no sign
            in_order(close.message, answer.message),
            *([in_order(close.message, request.message)] if close.message.source == request.message.source else ()),
            begun(old, holder, timewait, time),
            begun(old, holder, timewait, answer.message.time),  # the REQ may have been held up until then
            context.one_clock(close, request),
            *((weakened("complete"),) if _repetition_due(connection, request, answer) else ()),
        ),
        severity,
        steps=(request, answer) if answer is not request else (request,),
        related=(old,),
        policy=context.policy,
    )


def _repetition_due(connection: Connection, request: Step, answer: Step) -> bool:
    """Whether the REQ may have come once more before this answer, not captured in time."""
    return 10 * between(request, answer) >= 9 * response_wait(connection.request, "active").minimum


def _answered(connection: Connection, answer: Step) -> tuple[Step, int]:
    """The REQ that was answered, and when it came: the last one before the answer, as others may have been lost.

    It may have come several times by one packet, if the network doubled it.
    """
    sent = of_type(connection, "REQ")
    times = [(time, step) for step in sent for time in (step.message.time, *(copy.time for copy in step.sightings))]
    asked = [one for one in times if one[0] <= answer.message.time + DISORDER] or times[:1]
    time, request = max(asked, key=itemgetter(0))
    return request, time
