"""T01, T02, T08, T10: reuse of QPNs.

Timewait keeps a QPN out of use until every packet sent to it has died (IBA 12.4). How long that is depends on fields
of REQ and REP and on the implementation; timewait_models.py gives the shortest, the likely and the longest time, and
the findings follow these three: before the shortest is proved, before the likely one nothing speaks against it, before
the longest it is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibcmtool.connections.timewait_models import MODELS
from ibcmtool.evidence import begun, in_order, unopposed, weakened
from ibcmtool.formatting import duration, end_name, qpn
from ibcmtool.messages import Rep, Req
from ibcmtool.model import Conflict, Connection, Step, Timewait
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first
from ibcmtool.rules.steps import broken_timewait, conflicts_at, latest_time, starting_psn
from ibcmtool.values import Duration, Qpn, Time

IP_CM_HEADER_SIZE: Final = 36  # bytes of private data, which begin with it where it is there
ENOUGH_REUSES: Final = 3  # T08 is a statistic, not a single case


def _reuses(
    connection: Connection, step: Step, context: Context, *, surely: bool
) -> Iterator[tuple[Conflict, Timewait]]:
    """QPNs that their owner uses again before its own timewait is over: the shortest one, or else only a longer one."""
    if connection.late_duplicate_of is not None:
        return
    for conflict in conflicts_at(connection, step):
        reuser = connection.active if step.message.type == "REQ" else connection.passive
        timewait = broken_timewait(conflict, reuser, step, context)
        if timewait is None:
            continue
        now = latest_time(step, context)
        if surely == (now < timewait.minimum and not timewait.assumed):
            yield conflict, timewait


SHORTEST: Final = "the shortest possible timewait of"
LONGEST: Final = "the longest possible timewait of"

T01 = rule(
    "T01",
    "qpn-reused-in-timewait",
    "A CA reuses its own QPN inside its own timewait",
    severity="error",
    clause="IBA 12.4, 12.9.7 (the QP stays in reset, init or error until timewait is over)",
    explanation="After a connection is closed, late packets to its QPN may still be in the network; a new "
    "connection on the same QPN would take them for its own and corrupt data. So the owner must not use the QPN "
    "before its timewait is over: wrong under both readings of the specification. Certain here: even the shortest "
    "timewait that any known implementation computes was not over. Linux leaves this duty to the consumer, and "
    "gives a QPN free at once when the process ends.",
    false_positives="Clock errors in merged captures; two machines with the same CA GUID; an XRC target QP that "
    "serves several initiators. Never raised for a connection that carried no data (its QP had nothing to wait for).",
    advice="Let the consumer keep its QP until the CM reports the end of timewait (RDMA_CM_EVENT_TIMEWAIT_EXIT), or "
    "take a fresh QP for each connection.",
)


@T01.on_step("REQ", "REP", history=first, when=entangled)
def reused_in_timewait(connection: Connection, step: Step, context: Context) -> Verdicts:
    for conflict, timewait in _reuses(connection, step, context, surely=True):
        yield _early(context, connection, step, conflict, timewait, timewait.minimum, SHORTEST)


T02 = rule(
    "T02",
    "qpn-reused-early",
    "A CA reuses its own QPN before its timewait is surely over",
    severity="warning",
    clause="IBA 12.4; durations by implementation",
    explanation="As T01, but after the shortest timewait: before the time that Linux would take (warning, probable) "
    "or before the longest that any implementation takes (info, possible). The active side's packet life is not on "
    "the wire, so the exact end of its timewait is not known.",
    false_positives="As T01; the sender's timewait is shorter than the model says.",
    advice="Let the consumer keep its QP until the CM reports the end of timewait, or take a fresh QP for each "
    "connection.",
)


@T02.on_step("REQ", "REP", history=first, when=entangled)
def reused_early(connection: Connection, step: Step, context: Context) -> Verdicts:
    for conflict, timewait in _reuses(connection, step, context, surely=False):
        if latest_time(step, context) < timewait.likely and not timewait.assumed:
            limit = f"the timewait that {MODELS[timewait.model].owner} keeps,"
            verdict = _early(context, connection, step, conflict, timewait, timewait.likely, limit)
            yield verdict._replace(rests_on=(unopposed("timer"), *verdict.rests_on))
        else:
            verdict = _early(context, connection, step, conflict, timewait, timewait.maximum, LONGEST)
            yield verdict._replace(rests_on=(weakened("timer"),), severity="info")


def _early(
    context: Context,
    connection: Connection,
    step: Step,
    conflict: Conflict,
    timewait: Timewait,
    limit: int,
    what: str,
) -> Verdict:
    """The verdict on a reuse before `limit`, the end of `what`."""
    old, end = conflict.other, conflict.other.end(conflict.owner)
    after = step.message.time - timewait.start
    close = [s for s in old.steps if s.message.time <= timewait.start][-1:]
    begins = "opens" if step.message.type == "REQ" else "accepts"
    sentence = (
        f"{end_name(end)} {begins} a new connection with QPN {qpn(end.qpn or 0)} {duration(after)} after it closed "
        f"connection {old.id} ({context.frame(close[0].message) if close else 'not captured'}), before {what} "
        f"{duration(limit - timewait.start)}."
    )
    if timewait.assumed:
        sentence += " The Local ACK Timeout was not captured; a default stands in."
    life = context.witness.same_life(end.address, timewait.start, step.message.time)
    starting_psn_now = starting_psn(connection, "active" if step.message.type == "REQ" else "passive")
    return Verdict(
        sentence,
        {
            "qpn": Qpn(end.qpn or 0),
            "reused_after": Duration(after),
            "timewait_minimum": Duration(timewait.minimum - timewait.start),
            "timewait_likely": Duration(timewait.likely - timewait.start),
            "timewait_maximum": Duration(timewait.maximum - timewait.start),
            "free_from": Time(timewait.likely),
            "same_starting_psn": starting_psn_now == starting_psn(old, end.role),
            "local_ack_timeout": old.request.primary_local_ack_timeout if isinstance(old.request, Req) else None,
            "target_ack_delay": old.reply.target_ack_delay if isinstance(old.reply, Rep) else None,
        },
        (
            begun(old, end, timewait, latest_time(step, context)),
            *(context.one_clock(one, step) for one in close),
            *((life,) if life.strength in ("weakened", "refuted") else ()),  # a gap weakens by itself
            *(in_order(one.message, step.message) for one in close if one.message.source == step.message.source),
        ),
        related=(old,),
    )


T08 = rule(
    "T08",
    "short-timewait",
    "A CA keeps a shorter timewait than any model knows",
    severity="info",
    clause="IBA 12.4; connections/timewait_models.py",
    explanation="At least three times this CA reused a QPN before the shortest timewait that the fields of its "
    "connections allow: it keeps a shorter one, or none. A statistic; the single cases are T01.",
    false_positives="As T01.",
    advice="If the CA's software is known to end timewait early on purpose, read its T01 findings in that light.",
)


@T08.on_step("REQ", "REP", history=first, when=entangled)
def short_timewait(connection: Connection, step: Step, context: Context) -> Verdicts:
    for conflict, timewait in _reuses(connection, step, context, surely=True):
        end, memory = conflict.other.end(conflict.owner), context.memory["T08"]
        after = step.message.time - timewait.start
        count, shortest = memory.get(end.ca_guid, (0, after))
        count, shortest = memory[end.ca_guid] = (count + 1, min(shortest, after))
        if count == ENOUGH_REUSES:
            yield Verdict(
                f"{end_name(end)} has reused a QPN inside its own timewait {count} times, at the earliest after "
                f"{duration(shortest)}.",
                {"reuses": count, "shortest": Duration(shortest)},
            )


T10 = rule(
    "T10",
    "reconnect-in-timewait",
    "The same consumer connects again inside timewait, with another QPN",
    severity="info",
    clause="IBA 12.4 (timewait binds the QPN, not the consumer)",
    explanation="A consumer reconnects from the same address and port (or to the same service, without IP "
    "addressing) while the QP of its last connection is in timewait, and uses another QP: as it should be. Good to "
    "know when QPs run short.",
    false_positives="None: it accuses nobody. Not reported where the snap length cut off the private data that name the"
    " consumer.",
    advice="Nothing to do.",
)


# One connection for each CA: a reconnecting consumer comes back before others close theirs, or is not worth a line.
@T10.on_step("DREP", history=first)
def closed(connection: Connection, step: Step, context: Context) -> Verdicts:
    if connection.active.ca_guid:
        context.memory["T10"][connection.active.ca_guid] = connection
    return ()


@T10.on_step("REQ", history=first)
def reconnect_in_timewait(connection: Connection, step: Step, context: Context) -> Verdicts:
    old: Connection | None = context.memory["T10"].get(connection.active.ca_guid)
    active, timewait = connection.active, None if old is None else old.active.timewait
    if old is None or old is connection or timewait is None or not _same_consumer(old, connection):
        return
    after = step.message.time - timewait.start
    if old.active.qpn != active.qpn and 0 <= after < timewait.likely - timewait.start:
        yield Verdict(
            f"{end_name(active)} connects again {duration(after)} after it closed connection {old.id}, with "
            f"QPN {qpn(active.qpn or 0)} instead of {qpn(old.active.qpn or 0)}, which is in timewait.",
            {"after_close": Duration(after), "timewait_likely": Duration(timewait.likely - timewait.start)},
            related=(old,),
        )


def _same_consumer(old: Connection, new: Connection) -> bool:
    if _unnamed(old) or _unnamed(new):
        return False
    same_name = old.active.name == new.active.name
    same_target = old.service_id == new.service_id and old.passive.address.matches(new.passive.address)
    return same_name and same_target and old.active.address.matches(new.active.address)


def _unnamed(connection: Connection) -> bool:
    """Whether the part of its private data was cut off that would name the consumer: two without a name are not one."""
    data = None if connection.request is None else connection.request.private_data
    return not connection.active.name and len(data or b"") < IP_CM_HEADER_SIZE
