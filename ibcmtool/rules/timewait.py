"""T01, T02, T08, T10: reuse of QPNs.

Timewait keeps a QPN out of use until every packet sent to it has died (IBA 12.4). How long that is depends on fields
of REQ and REP and on the implementation; connections/timers.py gives the shortest, the likely and the longest time, and
the findings follow these three: before the shortest is certain, before the likely one probable, before the longest
possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.formatting import TIMEWAIT_MODELS, duration, end_name, qpn
from ibcmtool.model import Conflict, Connection, Event, Step, Timewait
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import entangled, first
from ibcmtool.rules.context import Context

ENOUGH_REUSES = 3  # T08 is a statistic, not a single case


def _early_reuse(event: Event, view: Context) -> Iterator[tuple[Conflict, Timewait, Step]]:
    """Connections whose owner gives this QPN to a new connection before its own timewait is surely over."""
    connection, step = event.connection, event.step
    if step is None or connection.late_duplicate_of is not None:
        return
    conflicts = connection.request_conflicts if event.kind == "REQ" else connection.reply_conflicts
    for conflict in conflicts:
        timewait = conflict.other.end(conflict.owner).timewait
        # A QP that never carried data needs no timewait: an attempt that was refused is no reason to accuse its retry.
        if timewait is None or conflict.owner_state not in CLOSED_STATES or conflict.other.established is None:
            continue
        if not timewait.start <= step.message.time < timewait.maximum or conflict.other.stale_by is not None:
            continue
        if ended_in_sight(conflict.other, timewait, view):
            yield conflict, timewait, step


def ended_in_sight(connection: Connection, timewait: Timewait, view: Context) -> bool:
    """Whether nothing could end the connection unseen before this timewait is said to begin."""
    last = max((step.message.time for step in connection.steps if step.message.time <= timewait.start), default=0)
    return view.covered(connection, last, timewait.start)


def _reuse_verdict(event: Event, conflict: Conflict, timewait: Timewait, step: Step, limit: int, words: str) -> Verdict:
    old = conflict.other
    end = old.end(conflict.owner)
    after = step.message.time - timewait.start
    close = [s for s in old.steps if s.message.time <= timewait.start][-1:]
    parameters = {
        "local_ack_timeout": getattr(old.request, "primary_local_ack_timeout", None),
        "target_ack_delay": getattr(old.reply, "target_ack_delay", None),
    }
    same_psn = _starting_psn(event.connection, event.kind) == _starting_psn(
        old, "REQ" if end.role == "active" else "REP"
    )
    sentence = (
        f"{end_name(end)} opens a new connection with QPN {qpn(end.qpn or 0)} {duration(after)} after it closed "
        f"connection {old.id} (frame {close[0].message.frame if close else '?'}), before {words} "
        f"{duration(limit - timewait.start)}."
    )
    if timewait.assumed:
        sentence += " The Local ACK Timeout was not captured; a default stands in."
    return Verdict(
        sentence,
        (step,),
        {
            "qpn": qpn(end.qpn or 0),
            "reused_after_ns": after,
            "timewait_minimum_ns": timewait.minimum - timewait.start,
            "timewait_likely_ns": timewait.likely - timewait.start,
            "timewait_maximum_ns": timewait.maximum - timewait.start,
            "free_from_ns": timewait.likely,
            "same_starting_psn": same_psn,
            **parameters,
        },
        related=(old,),
    )


def _starting_psn(connection: Connection, kind: str) -> int | None:
    psn: int | None = getattr(connection.request if kind == "REQ" else connection.reply, "starting_psn", None)
    return psn


@rule(
    "T01",
    "qpn-reused-in-timewait",
    "A CA reuses its own QPN inside its own timewait",
    severity="error",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4, 12.9.7 (the QP stays in reset, init or error until timewait is over)",
    explanation="After a connection is closed, late packets to its QPN may still be in the network; a new connection "
    "on the same QPN would take them for its own and corrupt data. So the owner must not use the QPN before its "
    "timewait is over: wrong under both readings of the specification. Certain here: even the shortest timewait that "
    "any known implementation computes was not over. Linux leaves this duty to the consumer, and gives a QPN free at "
    "once when the process ends.",
    false_positives="Clock errors in merged captures; two machines with the same CA GUID; an XRC target QP that "
    "serves several initiators. Never raised for a connection that carried no data (its QP had nothing to wait for).",
    advice="Let the consumer keep its QP until the CM reports the end of timewait (RDMA_CM_EVENT_TIMEWAIT_EXIT), or "
    "take a fresh QP for each connection.",
)
def reused_in_timewait(event: Event, view: Context) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        if step.message.time < timewait.minimum and not timewait.assumed:
            yield _reuse_verdict(event, conflict, timewait, step, timewait.minimum, "the shortest possible timewait of")


@rule(
    "T02",
    "qpn-reused-early",
    "A CA reuses its own QPN before its timewait is surely over",
    severity="warning",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4; durations by implementation",
    explanation="As T01, but after the shortest timewait: before the time that Linux would take (warning, probable) "
    "or before the longest that any implementation takes (info, possible). The active side's packet life is not on "
    "the wire, so the exact end of its timewait is not known.",
    false_positives="As T01; the sender's timewait is shorter than the model says.",
    advice="Let the consumer keep its QP until the CM reports the end of timewait, or take a fresh QP for each "
    "connection.",
)
def reused_early(event: Event, view: Context) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        time = step.message.time
        if time < timewait.minimum and not timewait.assumed:
            continue
        if time < timewait.likely and not timewait.assumed:
            verdict = _reuse_verdict(
                event,
                conflict,
                timewait,
                step,
                timewait.likely,
                f"the timewait that {TIMEWAIT_MODELS[timewait.model]} keeps,",
            )
            yield verdict._replace(confidence="probable")
        else:
            verdict = _reuse_verdict(
                event, conflict, timewait, step, timewait.maximum, "the longest possible timewait of"
            )
            yield verdict._replace(confidence="possible", severity="info")


@rule(
    "T08",
    "short-timewait",
    "A CA keeps a shorter timewait than any model knows",
    severity="info",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4; connections/timers.py",
    explanation="At least three times this CA reused a QPN before the shortest timewait that the fields of its "
    "connections allow: it keeps a shorter one, or none. A statistic; the single cases are T01.",
    false_positives="As T01.",
    advice="If the CA's software is known to end timewait early on purpose, read its T01 findings in that light.",
)
def short_timewait(event: Event, view: Context) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        end, memory = conflict.other.end(conflict.owner), view.memory["T08"]
        if step.message.time >= timewait.minimum or timewait.assumed:
            continue
        count, shortest = memory.get(end.ca_guid, (0, step.message.time - timewait.start))
        count, shortest = count + 1, min(shortest, step.message.time - timewait.start)
        memory[end.ca_guid] = (count, shortest)
        if count == ENOUGH_REUSES:
            yield Verdict(
                f"{end_name(end)} has reused a QPN inside its own timewait {count} times, at the earliest after "
                f"{duration(shortest)}.",
                (step,),
                {"reuses": count, "shortest_ns": shortest},
            )


@rule(
    "T10",
    "reconnect-in-timewait",
    "The same consumer connects again inside timewait, with another QPN",
    severity="info",
    on=("REQ", "DREP"),
    history=first,
    clause="IBA 12.4 (timewait binds the QPN, not the consumer)",
    explanation="A consumer reconnects from the same address and port (or to the same service, without IP "
    "addressing) while the QP of its last connection is in timewait, and uses another QP: as it should be. Good to "
    "know when QPs run short.",
    false_positives="None: it accuses nobody.",
    advice="Nothing to do.",
)
def reconnect_in_timewait(event: Event, view: Context) -> Iterable[Verdict]:
    connection, memory = event.connection, view.memory["T10"]
    guid = connection.active.ca_guid
    if not guid:
        return ()
    # One connection per CA: a reconnecting consumer comes back before others close theirs, or is not worth a line.
    if event.kind == "DREP":
        memory[guid] = (connection.active.name, connection)
        return ()
    name, old = memory.get(guid, (None, None))
    return _reconnect(event, old) if name == connection.active.name else ()


def _reconnect(event: Event, old: Connection) -> Iterator[Verdict]:
    connection, step, active = event.connection, event.step, event.connection.active
    if step is None or old is connection or old.active.timewait is None or not _same_consumer(old, connection):
        return
    after = step.message.time - old.active.timewait.start
    if old.active.qpn != active.qpn and 0 <= after < old.active.timewait.likely - old.active.timewait.start:
        yield Verdict(
            f"{end_name(active)} connects again {duration(after)} after it closed connection {old.id}, with "
            f"QPN {qpn(active.qpn or 0)} instead of {qpn(old.active.qpn or 0)}, which is in timewait.",
            (step,),
            {"after_close_ns": after, "timewait_likely_ns": old.active.timewait.likely - old.active.timewait.start},
            related=(old,),
        )


def _same_consumer(old: Connection, new: Connection) -> bool:
    same_target = old.service_id == new.service_id and old.passive.address.matches(new.passive.address)
    return same_target and old.active.address.matches(new.active.address)
