"""S01, S04-S07: a REQ or REP names a QPN that its receiver has not let go of.

The tracker lists, when a REQ or REP is first seen, which earlier connections of the same CA hold its QPN (Conflict).
These rules look at how the receiver answered. S01 and S04 are about a QPN that is connected (IBA 12.9.8.3.1; what
follows a refusal is in stale_refusals.py), S05-S07 about one in the receiver's timewait, on which the two readings of
the specification part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.timers import response_wait
from ibcmtool.formatting import duration, end_name, guid, qpn
from ibcmtool.model import Confidence, Conflict, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule, severity_under
from ibcmtool.rules.conditions import entangled, first, refused_as_stale
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import of_type

# States in which a CM holds the remote QPN for connected. DREQ_SENT is left out: a process that was killed sends one
# DREQ and its CM forgets the connection at once, so a REQ accepted after that accuses nobody.
HOLDING = frozenset({"REP_SENT", "MRA_REP_RCVD", "ESTABLISHED"})


def _held(conflicts: tuple[Conflict, ...], time: int, view: Context) -> Iterator[Conflict]:
    """The connections that hold the QPN at `time`, none of which can have ended unseen before."""
    for conflict in conflicts:
        if conflict.same_peer and conflict.peer_state in HOLDING:
            old = conflict.other
            if view.covered(old, last_activity(old, time), time):
                yield conflict


def in_peer_timewait(conflicts: tuple[Conflict, ...], time: int, view: Context) -> Conflict | None:
    """The earlier connection that was closed properly and whose other end is still inside its timewait at `time`."""
    for conflict in conflicts:
        timewait = conflict.other.peer(conflict.owner).timewait
        if not conflict.same_peer or conflict.peer_state != "TIMEWAIT" or timewait is None:
            continue
        if time < timewait.minimum and view.covered(conflict.other, last_activity(conflict.other, time), time):
            return conflict
    return None


def numbers(conflict: Conflict, time: int) -> dict[str, Any]:
    """What the findings about a held QPN were computed from: the QPN, its owner, who holds it and for how long."""
    other = conflict.other
    end = other.end(conflict.owner)
    return {
        "qpn": qpn(end.qpn or 0),
        "ca_guid": guid(end.ca_guid or 0),
        "held_by_connection": other.id,
        "age_ns": time - other.opened,
        "last_message_ns": time - _last_message(other, time),
    }


def _last_message(connection: Connection, before: int) -> int:
    """Time of the last CM message on a connection before `before`. (Of its data, not all packets are looked at.)"""
    return max((s.message.time for s in connection.steps if s.message.time < before), default=connection.opened)


def last_activity(connection: Connection, before: int) -> int:
    """Time of the last thing seen on a connection before `before`: a CM message or a data packet."""
    data = [packet.time for packet in connection.last_data.values() if packet.time < before]
    return max([_last_message(connection, before), *data])


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
def stale_req_accepted(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if not connection.request_conflicts or step is None or connection.late_duplicate_of:
        return
    request = of_type(connection, "REQ")[0]
    time = request.message.time
    for conflict in _held(connection.request_conflicts, time, view):
        old = conflict.other
        confidence: Confidence = "certain" if old.established is not None else "probable"
        yield Verdict(
            f"{end_name(connection.passive)} accepted a REQ with QPN {qpn(connection.active.qpn or 0)} of "
            f"{end_name(connection.active)} to which it is already connected: connection {old.id}, open for "
            f"{duration(time - old.opened)}. REJ 10 was due.",
            (request, step),
            numbers(conflict, time),
            confidence,
            related=(old,),
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
def stale_rep_accepted(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    replies = of_type(connection, "REP")
    time = replies[-1].message.time
    for conflict in _held(connection.reply_conflicts, time, view):
        old = conflict.other
        if old.peer(conflict.owner).state in CLOSED_STATES:
            continue  # closed between the REP and the RTU
        yield Verdict(
            f"{end_name(connection.active)} accepted a REP with QPN {qpn(connection.passive.qpn or 0)} of "
            f"{end_name(connection.passive)} to which it is already connected: connection {old.id}, open for "
            f"{duration(time - old.opened)}. REJ 10 was due.",
            (replies[-1], step),
            numbers(conflict, time),
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
def timewait_req_accepted(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if not connection.request_conflicts or step is None or connection.late_duplicate_of:
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
def timewait_req_refused(event: Event, view: Context) -> Iterator[Verdict]:
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
def timewait_req_ignored(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if not connection.request_conflicts or connection.passive.address not in view.ports.heard:
        return
    steps = of_type(connection, "REQ")
    last = steps[-1].message.time
    due = min(event.time, last + response_wait(connection.request, "active").nominal)
    if len(steps) == len(connection.steps) and view.covered(connection, last, due):  # nothing but the REQ, repeated
        yield from _in_timewait(event, steps[-1], view, "left it unanswered", "info", "possible")


def _open(conflict: Conflict) -> bool:
    return conflict.same_peer and conflict.peer_state not in CLOSED_STATES


def _in_timewait(
    event: Event, answer: Step, view: Context, what: str, severity: Any, confidence: Confidence = "certain"
) -> Iterator[Verdict]:
    connection = event.connection
    if not connection.request_conflicts:
        return
    request = of_type(connection, "REQ")[0]
    time = request.message.time
    conflict = in_peer_timewait(connection.request_conflicts, time, view)
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
