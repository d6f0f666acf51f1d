"""S01-S07: a REQ or REP names a QPN that its receiver has not let go of.

The tracker lists, when a REQ or REP is first seen, which earlier connections of the same CA hold its QPN (Conflict).
These rules look at how the receiver answered. S01-S04 are about a QPN that is connected (IBA 12.9.8.3.1), S05-S07 about
one in the receiver's timewait, on which the two readings of the specification part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibcmtool.connections.book import CLOSED_STATES
from ibcmtool.connections.timers import response_wait
from ibcmtool.model import PEER, Confidence, Conflict, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule, severity_under
from ibcmtool.rules.history import of_type
from ibcmtool.rules.occasions import entangled, first, refused_as_stale
from ibcmtool.rules.view import View
from ibcmtool.words import duration, end_name, guid, qpn

# States in which a CM holds the remote QPN for connected. DREQ_SENT is left out: a process that was killed sends one
# DREQ and its CM forgets the connection at once, so a REQ accepted after that accuses nobody.
HOLDING = frozenset({"REP_SENT", "MRA_REP_RCVD", "ESTABLISHED"})


def _held(conflicts: tuple[Conflict, ...]) -> Iterator[Conflict]:
    return (c for c in conflicts if c.same_peer and c.peer_state in HOLDING)


def in_peer_timewait(conflicts: tuple[Conflict, ...], time: int) -> Conflict | None:
    """The earlier connection that was closed properly and whose other end is still inside its timewait at `time`."""
    for conflict in conflicts:
        timewait = conflict.other.peer(conflict.owner).timewait
        if not conflict.same_peer or conflict.peer_state != "TIMEWAIT" or timewait is None:
            continue
        if time < timewait.minimum:
            return conflict
    return None


def _numbers(conflict: Conflict, time: int) -> dict[str, Any]:
    other = conflict.other
    end = other.end(conflict.owner)
    return {
        "qpn": qpn(end.qpn or 0),
        "ca_guid": guid(end.ca_guid or 0),
        "held_by_connection": other.id,
        "age_ns": time - other.opened,
        "idle_ns": time - last_activity(other, time),
    }


def last_activity(connection: Connection, before: int) -> int:
    """Time of the last thing seen on a connection before `before`: a CM message or a data packet."""
    times = [step.message.time for step in connection.steps] + [p.time for p in connection.last_data.values()]
    return max((time for time in times if time < before), default=connection.opened)


def _conflict_with(event: Event, old: Connection) -> Conflict | None:
    connection = event.connection
    return next((c for c in (*connection.request_conflicts, *connection.reply_conflicts) if c.other is old), None)


@rule(
    "S01",
    "stale-req-accepted",
    "A REQ with the QPN of a connected QP was accepted",
    severity="error",
    on=("REP",),
    history=first,
    when=entangled,
    clause="IBA 12.9.8.3.1 (REQ received); Linux cm_match_req",
    explanation="The receiver of this REQ has a connection, still open, to the very QPN that the REQ names (same CA "
    "GUID). It had to refuse with REJ 10 (stale connection) and to release the old connection with a DREQ, because "
    "packets of the old sender may still be on their way to a QP that cannot tell senders apart. It answered REP "
    "instead.",
    false_positives="A DREQ or REJ that closed the old connection and is missing from the capture; a CA GUID shared "
    "by cloned machines. Not raised when the old connection had begun to close, and only probable while it had no "
    "RTU or data.",
    advice="Look at the CM of the side that answered REP: it lost its table of connected QPNs, or does not check it. "
    "The old connection's QP there must be moved to error; restart its consumer if it does not notice by itself.",
)
def stale_req_accepted(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if not connection.request_conflicts or step is None or connection.ghost_of:
        return
    request = of_type(connection, "REQ")[0]
    for conflict in _held(connection.request_conflicts):
        old, time = conflict.other, request.message.time
        confidence: Confidence = "certain" if old.established is not None else "probable"
        yield Verdict(
            f"{end_name(connection.passive)} accepted a REQ with QPN {qpn(connection.active.qpn or 0)} of "
            f"{end_name(connection.active)} to which it is already connected: connection {old.id}, open for "
            f"{duration(time - old.opened)}. REJ 10 was due.",
            (request, step),
            _numbers(conflict, time),
            confidence,
            related=(old,),
        )


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
    "connection is called stale.",
    false_positives="None known while the CA GUIDs are unique: the receiver itself says that the connection is stale.",
    advice="Find out why the owner of the QPN left the old connection without a DREQ: it rebooted, crashed, or its "
    "DREQ was lost. The other side lets go once its own DREQ is answered or retried to the end; connecting again "
    "works then.",
)
def stale_refused(event: Event, view: View) -> Iterator[Verdict]:
    connection, old, dreq = event.connection, event.related, event.step
    reject = connection.reject
    conflict = _conflict_with(event, old) if old is not None else None
    if reject is None or old is None or conflict is None:
        return
    kind = "REQ" if reject.sender == "passive" else "REP"
    refused = [step for step in of_type(connection, kind) if step.message.time <= reject.message.time][-1]
    time = refused.message.time
    owner, holder = end_name(old.end(conflict.owner)), end_name(old.peer(conflict.owner))
    evidence = _numbers(conflict, time)
    sentence = (
        f"{kind} with QPN {evidence['qpn']} of {owner}, which {holder} still holds connected (connection {old.id}, "
        f"opened {duration(evidence['age_ns'])} before, last activity {duration(evidence['idle_ns'])} before), "
        "refused with REJ 10."
    )
    if dreq is not None:
        evidence["dreq_frame"] = dreq.message.frame
        evidence["dreq_after_ns"] = dreq.message.time - reject.message.time
        after, frame = duration(evidence["dreq_after_ns"]), dreq.message.frame
        sentence += f" The DREQ that must follow came after {after} (frame {frame})."
    elif conflict.peer_state == "DREQ_SENT":
        sentence += f" {holder} is already trying to close it: its DREQ is unanswered."
    advice = S02_ADVICE.format(owner=owner, old=old.id, holder=holder)
    yield Verdict(sentence, (refused, reject), evidence, related=(old,), advice=advice)


S02_ADVICE = (  # the rule's advice with the ends named
    "Find out why {owner} left connection {old} without a DREQ: it rebooted, crashed or its DREQ was lost. {holder} "
    "lets go of the old connection once its DREQ is answered or retried to the end; connecting again works then."
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
    false_positives="A DREQ missing from the capture. Not raised when the old connection was not established at the "
    "receiver (Linux sends the DREQ only then), or when the capture ends before it was due.",
    advice="Update the kernel of the side that sent the REJ if it is older than 4.10 (2016); until then restart the "
    "consumer that holds the old connection there.",
)
def stale_without_dreq(event: Event, view: View) -> Iterator[Verdict]:
    old, reject = event.related, event.connection.reject
    conflict = _conflict_with(event, old) if old is not None else None
    if event.step is not None or old is None or conflict is None or reject is None:
        return
    holder: Role = PEER[conflict.owner]
    wait = response_wait(old.request, holder).nominal
    waited = event.time - reject.message.time
    if conflict.peer_state != "ESTABLISHED" or old.end(holder).state != "ESTABLISHED" or waited < wait:
        return
    name = end_name(old.end(holder))
    yield Verdict(
        f"{name} refused with REJ 10 because of connection {old.id}, but no DREQ on that connection was seen within "
        f"{duration(waited)}.",
        (reject,),
        {"held_by_connection": old.id, "waited_ns": waited, "timeout_ns": wait},
        "probable",
        related=(old,),
        advice=f"Update the kernel of {name} if it is older than 4.10 (2016); until then restart the consumer that "
        f"holds connection {old.id} there.",
    )


def _reply_contested(connection: Connection, step: Step) -> bool:
    return connection.reply_conflicts != ()


@rule(
    "S04",
    "stale-rep-accepted",
    "A REP with the QPN of a connected QP was accepted",
    severity="error",
    on=("RTU",),
    history=first,
    when=_reply_contested,
    clause="IBA 12.9.8.3.1 (REP received); Linux cm_rep_handler",
    explanation="The REP names a QPN of the passive CA to which the active side has a connection already. It had to be "
    "refused with REJ 10 (message REP), followed by a DREQ on the old connection; it was answered with RTU.",
    false_positives="As S01. A REP that was refused first and then offered anew for the repeated REQ is judged by the "
    "state at its second coming.",
    advice="Look at the CM of the side that sent the RTU; the passive side lost the old connection (reboot, crash).",
)
def stale_rep_accepted(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    replies = of_type(connection, "REP")
    for conflict in _held(connection.reply_conflicts):
        old, time = conflict.other, replies[-1].message.time
        if old.peer(conflict.owner).state in CLOSED_STATES:
            continue  # closed between the REP and the RTU
        yield Verdict(
            f"{end_name(connection.active)} accepted a REP with QPN {qpn(connection.passive.qpn or 0)} of "
            f"{end_name(connection.passive)} to which it is already connected: connection {old.id}, open for "
            f"{duration(time - old.opened)}. REJ 10 was due.",
            (replies[-1], step),
            _numbers(conflict, time),
            "certain" if old.established is not None else "probable",
            related=(old,),
        )


@rule(
    "S05",
    "timewait-req-accepted",
    "A REQ whose QPN is in the receiver's timewait was accepted",
    severity="info",
    on=("REP",),
    history=first,
    when=entangled,
    clause="IBA 12.4 against 12.9.7.2; Linux since 2.6.19 accepts",
    explanation="The connection that used this QPN was closed by both sides, but the receiver's timewait for it is "
    "not over. The strict reading (12.4: the CM puts local and remote QPN into timewait) wants such a REQ refused as "
    "stale: error under --policy strict. The relaxed reading (12.9.7: no action is listed for a REQ in timewait, "
    "stale means connected) lets it be accepted: info under --policy relaxed. That the owner may not reuse its QPN "
    "so early is T01, under both.",
    false_positives="Clock errors in merged captures. Only raised inside the shortest timewait that the receiver can "
    "have.",
    advice="Nothing to do on the receiver if it is Linux. Look at the sender, which reuses its QPN early (T01).",
)
def timewait_req_accepted(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if not connection.request_conflicts or step is None or connection.ghost_of:
        return
    yield from _in_timewait(event, step, view, "accepted it (REP)", severity_under(view.policy, "error", "info"))


@rule(
    "S06",
    "timewait-req-refused",
    "A REQ was refused as stale although its QPN was only in timewait",
    severity="warning",
    on=("REJ",),
    when=refused_as_stale,
    clause="IBA 12.9.7.2 against 12.4; Linux up to 2.6.18 and illumos refuse",
    explanation="The old connection was closed by both sides; no open one with this QPN is known. The receiver "
    "refused all the same because its timewait was not over. Right under the strict reading (no finding there), "
    "needless under the relaxed one.",
    false_positives="An open connection with the same QPN that the capture does not show.",
    advice="Connect again after the receiver's timewait, or with another QPN.",
)
def timewait_req_refused(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender != "passive" or view.policy == "strict":
        return
    if any(_open(conflict) for conflict in connection.request_conflicts):
        return
    yield from _in_timewait(event, step, view, "refused it with REJ 10", "warning")


@rule(
    "S07",
    "timewait-req-ignored",
    "A REQ whose QPN is in the receiver's timewait got no answer",
    severity="info",
    on=("REQ_EXHAUSTED",),
    clause="IBA 12.9.7.2; Topspin's CM drops such a REQ",
    explanation="The QPN of this REQ belongs to a connection that was closed but is still in the receiver's "
    "timewait, and the REQ stayed unanswered until its last retry. Some CMs drop such a REQ without a word.",
    false_positives="The answer is missing from the capture, or the receiver died.",
    advice="Connect again after the receiver's timewait, or with another QPN.",
)
def timewait_req_ignored(event: Event, view: View) -> Iterator[Verdict]:
    connection = event.connection
    if not connection.request_conflicts or connection.passive.address not in view.heard:
        return
    steps = of_type(connection, "REQ")
    if len(steps) == len(connection.steps):  # nothing but the REQ and its repetitions
        yield from _in_timewait(event, steps[-1], view, "left it unanswered", "info", "possible")


def _open(conflict: Conflict) -> bool:
    return conflict.same_peer and conflict.peer_state not in CLOSED_STATES


def _in_timewait(
    event: Event, answer: Step, view: View, what: str, severity: Any, confidence: Confidence = "certain"
) -> Iterator[Verdict]:
    connection = event.connection
    if not connection.request_conflicts:
        return
    request = of_type(connection, "REQ")[0]
    time = request.message.time
    conflict = in_peer_timewait(connection.request_conflicts, time)
    if conflict is None:
        return
    holder = conflict.other.peer(conflict.owner)
    timewait = holder.timewait
    assert timewait is not None  # in_peer_timewait chose it by its timewait
    yield Verdict(
        f"REQ with QPN {qpn(connection.active.qpn or 0)} came {duration(time - timewait.start)} after connection "
        f"{conflict.other.id} was closed, inside {end_name(holder)}'s timewait of "
        f"{duration(timewait.likely - timewait.start)}, and {end_name(connection.passive)} {what}.",
        (request, answer) if answer is not request else (request,),
        {
            "qpn": qpn(connection.active.qpn or 0),
            "after_close_ns": time - timewait.start,
            "timewait_ns": timewait.likely - timewait.start,
        },
        "possible" if timewait.assumed else confidence,
        severity,
        related=(conflict.other,),
        policy=view.policy,
    )
