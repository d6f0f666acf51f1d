"""F16: starting PSNs that let packets of an old connection pass for those of a new one (IBA 12.4, 9.7).

Timewait protects a QPN, PSNs drawn at random are the second line: late packets then miss the new connection's window.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.matching import is_xrc
from ibcmtool.evidence import in_timewait
from ibcmtool.formatting import duration, end_name, guid, psn, qpn
from ibcmtool.messages import Req
from ibcmtool.model import PEER, Conflict, Connection, Role, Step, Timewait
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, over_ipoib
from ibcmtool.rules.steps import broken_timewait, starting_psn
from ibcmtool.values import Duration, Psn, Qpn

ENOUGH_STARTS: Final = 8  # REQs of one CA at PSN 0 before it is a habit
MOST_QPNS = 256  # remembered of such a CA

F16 = rule(
    "F16",
    "starting-psn-reused",
    "A QPN is used again with the same starting PSN",
    severity="warning",
    clause="IBA 12.4 (timewait), 12.7 (Starting PSN); Linux rdma_cm draws it at random",
    explanation="A QP tells late packets of its QPN's last connection from those of the new one by their PSNs alone."
    " If a QPN comes back within the longest timewait, towards the same CA, and one side starts at the PSN of last"
    " time, a late request or acknowledgement of the old connection falls into the new one's window: data is"
    " corrupted, or counted as delivered. T01 and T02 judge the reuse itself. A CA that starts eight REQs or more at"
    " PSN 0, with a QPN that comes back among them, is information, reported once for each.",
    false_positives="Certain before the shortest timewait, probable before the one that Linux keeps, else possible."
    " Not reported for XRC and for an old connection that carried no data. IPoIB connected mode starts every REQ at"
    " PSN 0: such a habit is not reported.",
    advice="Draw each starting PSN at random, and keep a QPN out of use until its timewait is over.",
    rests_on=("complete",),
)


def _doubtful_start(connection: Connection, step: Step) -> bool:
    """Whether the QPN has a past, or a REQ starts at 0, the number of those who draw none."""
    if connection.request_conflicts or connection.reply_conflicts:
        return True
    fields = step.message.fields
    return isinstance(fields, Req) and fields.starting_psn == 0


@F16.on_step("REQ", "REP", history=first, when=_doubtful_start, needs=("intact",))
def starting_psn_reused(connection: Connection, step: Step, context: Context) -> Verdicts:
    return list(_indistinguishable(connection, step, context)) or _zero_again(connection, step, context)


def _indistinguishable(connection: Connection, step: Step, context: Context) -> Verdicts:
    """Reuses of a QPN in which this message completes a pair of equal starting PSNs."""
    if connection.late_duplicate_of is not None or is_xrc(connection):
        return
    for role, conflict in connection.conflicts():
        old, owner, timewait = (
            conflict.other,
            conflict.owner,
            broken_timewait(conflict, connection.end(role), step, context),
        )
        if timewait is None or not conflict.same_peer or is_xrc(old):
            continue
        starts = [
            (side, start)
            for side, before in ((role, owner), (PEER[role], PEER[owner]))
            if (start := starting_psn(connection, side)) is not None and start == starting_psn(old, before)
        ]
        at_the_request = step.message.type == "REP" and role == "active" and "active" in dict(starts)
        if starts and not at_the_request:
            yield _verdict(connection, step, conflict, timewait, role, *starts[0])


def _verdict(
    connection: Connection, step: Step, conflict: Conflict, timewait: Timewait, role: Role, same: Role, start: int
) -> Verdict:
    """`role` uses its QPN again, and the sends of `same` start where they did then."""
    end, old, after = connection.end(role), conflict.other, step.message.time - timewait.start
    own = same == role
    sentence = (
        f"{end_name(end)} uses QPN {qpn(end.qpn)} again {duration(after)} after it closed connection"
        f" {old.id}, and {'starts' if own else f'{end_name(connection.end(same))} starts'} at PSN {psn(start)} as then:"
        f" a late {'acknowledgement' if own else 'request'} of that connection cannot be told from one of this."
    )
    if timewait.assumed:
        sentence += " The Local ACK Timeout was not captured; a default stands in."
    return Verdict(
        sentence,
        {
            "qpn": Qpn(end.qpn or 0),
            "starting_psn": Psn(start),
            "reused_after": Duration(after),
            "timewait_maximum": Duration(timewait.maximum - timewait.start),
        },
        (in_timewait(timewait, step.message.time),),
        related=(old,),
    )


def _zero_again(connection: Connection, step: Step, context: Context) -> Verdicts:
    """Count the REQs of a CA that start at PSN 0; the verdict when they are many and a QPN comes back."""
    fields, memory = step.message.fields, context.memory["F16"]
    if not isinstance(fields, Req) or fields.starting_psn != 0 or not fields.local_ca_guid or over_ipoib(connection):
        return
    ca, number = fields.local_ca_guid, fields.local_qpn
    qpns: list[int | None] | None = memory.setdefault(ca, [])
    if qpns is None:  # it was said of this CA
        return
    again = number in qpns
    if len(qpns) < MOST_QPNS:
        qpns.append(number)
    if again and len(qpns) >= ENOUGH_STARTS:
        memory[ca] = None
        yield Verdict(
            f"CA {guid(ca)} has started {len(qpns)} REQs at PSN {psn(0)}, with QPN {qpn(number)} among them again.",
            {"requests": len(qpns), "starting_psn": Psn(0), "qpn": Qpn(number or 0)},
            severity="info",
        )
