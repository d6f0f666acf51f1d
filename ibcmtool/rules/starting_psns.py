"""F: starting PSNs that let packets of an old connection pass for those of a new one (IBA 12.4, 9.7).

Timewait protects a QPN, PSNs drawn at random are the second line: late packets then miss the new connection's window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ibcmtool import services
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.matching import is_xrc
from ibcmtool.formatting import duration, end_name, guid, psn, qpn
from ibcmtool.model import PEER, Conflict, Connection, Event, Role, Step, Timewait
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import ended_in_sight

ENOUGH_STARTS = 8  # REQs of one CA at PSN 0 before it is a habit
MOST_QPNS = 256  # remembered of such a CA


def _doubtful_start(connection: Connection, step: Step) -> bool:
    """Whether the QPN has a past, or a REQ starts at 0, the number of those who draw none."""
    if connection.request_conflicts or connection.reply_conflicts:
        return True
    return step.message.type == "REQ" and step.message.fields.starting_psn == 0


@rule(
    "F16",
    "starting-psn-reused",
    "A QPN is used again with the same starting PSN",
    severity="warning",
    on=("REQ", "REP"),
    history=first,
    when=_doubtful_start,
    clause="IBA 12.4 (timewait), 12.7 (Starting PSN); Linux rdma_cm draws it at random",
    explanation=(
        "A QP tells late packets of its QPN's last connection from those of the new one by their PSNs alone. If a QPN"
        " comes back within the longest timewait, towards the same CA, and one side starts at the PSN of last time, a"
        " late request or acknowledgement of the old connection falls into the new one's window: data is corrupted, or"
        " counted as delivered. T01 and T02 judge the reuse itself. A CA that starts eight REQs or more at PSN"
        " 0, with a QPN that comes back among them, is information, told once for each."
    ),
    false_positives=(
        "Certain before the shortest timewait, probable before the one that Linux keeps, else possible. Silent for XRC"
        " and for an old connection that carried no data. IPoIB connected mode starts every REQ at PSN 0: no habit"
        " is told of it."
    ),
    advice="Draw each starting PSN at random, and keep a QPN out of use until its timewait is over.",
)
def starting_psn_reused(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    verdicts = list(_indistinguishable(event, step, view))
    return verdicts or (_zero_again(step, connection, view) if event.kind == "REQ" else ())


def _indistinguishable(event: Event, step: Step, view: Context) -> Iterator[Verdict]:
    """Reuses of a QPN in which this message completes a pair of equal starting PSNs."""
    connection = event.connection
    if connection.late_duplicate_of is not None or is_xrc(connection):
        return
    sides: tuple[tuple[Role, tuple[Conflict, ...]], ...]
    sides = (("active", connection.request_conflicts), ("passive", connection.reply_conflicts))
    for role, conflicts in sides:
        for conflict in conflicts:
            old, owner = conflict.other, conflict.owner
            timewait = old.end(owner).timewait
            if timewait is None or not _reused(conflict, timewait, step) or is_xrc(old):
                continue
            if not ended_in_sight(old, timewait, view):
                continue
            same = [
                side
                for side, before in ((role, owner), (PEER[role], PEER[owner]))
                if _start(connection, side) is not None and _start(connection, side) == _start(old, before)
            ]
            told = event.kind == "REP" and role == "active" and "active" in same
            if same and not told:
                yield _verdict(event, step, conflict, timewait, role, same[0])


def _reused(conflict: Conflict, timewait: Timewait, step: Step) -> bool:
    """Whether the old connection is closed, carried data to the same CA, and may still have packets on their way."""
    old = conflict.other
    if not conflict.same_peer or conflict.owner_state not in CLOSED_STATES:
        return False
    if old.established is None or old.stale_by is not None:
        return False
    return timewait.start <= step.message.time < timewait.maximum


def _start(connection: Connection, role: Role) -> int | None:
    """The PSN that this side's sends begin with; None as long as it has not said so."""
    said: Any = connection.request if role == "active" else connection.reply
    value: int | None = getattr(said, "starting_psn", None)
    return value


def _verdict(event: Event, step: Step, conflict: Conflict, timewait: Timewait, role: Role, same: Role) -> Verdict:
    connection, old, time = event.connection, conflict.other, step.message.time
    end, start = connection.end(role), _start(connection, same)
    own = same == role
    sentence = (
        f"{end_name(end)} uses QPN {qpn(end.qpn)} again {duration(time - timewait.start)} after it closed connection"
        f" {old.id}, and {'starts' if own else f'{end_name(connection.end(same))} starts'} at PSN {psn(start)} as then:"
        f" a late {'acknowledgement' if own else 'request'} of that connection cannot be told from one of this."
    )
    if timewait.assumed:
        sentence += " The Local ACK Timeout was not captured; a default stands in."
    certain, likely = time < timewait.minimum, time < timewait.likely
    return Verdict(
        sentence,
        (step,),
        {
            "qpn": qpn(end.qpn),
            "starting_psn": start,
            "reused_after_ns": time - timewait.start,
            "timewait_maximum_ns": timewait.maximum - timewait.start,
        },
        "possible" if timewait.assumed or not likely else "certain" if certain else "probable",
        related=(old,),
    )


def _zero_again(step: Step, connection: Connection, view: Context) -> Iterable[Verdict]:
    """Count the REQs of a CA that start at PSN 0; the verdict when they are many and a QPN comes back."""
    fields, memory = step.message.fields, view.memory["F16"]
    ca, number = fields.local_ca_guid, fields.local_qpn
    if fields.starting_psn != 0 or not ca or services.name(connection.service_id or 0).startswith("IPoIB"):
        return ()
    qpns: list[int] | None = memory.setdefault(ca, [])
    if qpns is None:  # told
        return ()
    again = number in qpns
    if len(qpns) < MOST_QPNS:
        qpns.append(number)
    if not again or len(qpns) < ENOUGH_STARTS:
        return ()
    memory[ca] = None
    return (
        Verdict(
            f"CA {guid(ca)} has started {len(qpns)} REQs at PSN {psn(0)}, with QPN {qpn(number)} among them again.",
            (step,),
            {"requests": len(qpns), "starting_psn": 0, "qpn": qpn(number)},
            severity="info",
        ),
    )
