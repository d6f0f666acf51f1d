"""H20: both ends of one connection call each other at the same time (IBA 12.10, peer to peer)."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.formatting import duration, end_name, qpn
from ibcmtool.model import Event
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import entangled, first
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import of_type, one_capture

WAITING = ("REQ_SENT", "MRA_REQ_RCVD")


@rule(
    "H20",
    "simultaneous-connect",
    "Both ends sent each other a REQ for one connection",
    severity="info",
    on=("REP",),
    history=first,
    when=entangled,
    clause="IBA 12.10 (peer to peer); the CMs compare CA GUIDs, then QPNs, to agree on who is passive",
    explanation=(
        "Two peers opened the same connection at the same time: their REQs for one service crossed, and the REP to one"
        " of them names the QPN that the other REQ had offered. One end has become the passive side, and its own REQ"
        " must go unanswered. Linux has no peer-to-peer mode: while it still holds the other REQ it takes the QPN for"
        " one in use, and refuses the REP as stale (REJ 10)."
    ),
    false_positives=(
        "Two REQs in opposite directions with a QP of their own each are two connections (IPoIB-CM, meshes): silent,"
        " also when no REP was captured. Machines with the same CA GUID may look like one peer."
    ),
    advice="Nothing to do if the connection comes up. Else let one side listen and only the other connect.",
)
def simultaneous_connect(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    requests = of_type(connection, "REQ")
    if step is None or not requests or connection.service_id is None:
        return
    for conflict in connection.reply_conflicts:
        other = conflict.other
        opposite = conflict.owner == "active" and conflict.same_peer and other.service_id == connection.service_id
        if not opposite or conflict.owner_state not in WAITING:
            continue
        theirs = of_type(other, "REQ")[0]
        gap = abs(theirs.message.time - requests[0].message.time)
        yield Verdict(
            f"{end_name(connection.active)} and {end_name(connection.passive)} called each other within"
            f" {duration(gap)} for the same service, and the REP names QPN {qpn(connection.passive.qpn)}, which"
            " the other REQ had offered: one connection, opened from both ends.",
            (requests[0], theirs, step),
            {"qpn": qpn(connection.passive.qpn), "gap_ns": gap},
            confidence="certain" if one_capture(requests[0], theirs, step) else "probable",
            related=(other,),
        )
