"""Who holds a QPN that a REQ or REP names, of the earlier connections that the tracker lists for it (Conflict)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ibcmtool.connections.traces import DISORDER
from ibcmtool.formatting import duration
from ibcmtool.model import PEER, Conflict, Connection, End, Timewait
from ibcmtool.rules.context import Context
from ibcmtool.values import Duration, Guid, Qpn, Value

# States in which a CM holds the remote QPN for connected. DREQ_SENT is left out: a process that was killed sends one
# DREQ and its CM forgets the connection at once, so a REQ accepted after that accuses nobody.
HOLDING: Final = frozenset({"REP_SENT", "MRA_REP_RCVD", "ESTABLISHED"})


def held(conflicts: Sequence[Conflict], time: int, context: Context) -> Iterator[Conflict]:
    """The connections that hold the QPN at `time`, none of which can have ended unseen before."""
    for conflict in conflicts:
        if conflict.same_peer and conflict.peer_state in HOLDING:
            old = conflict.other
            if context.covered(old, last_activity(old, time), time):
                yield conflict


def in_peer_timewait(
    conflicts: Sequence[Conflict], time: int, context: Context
) -> tuple[Connection, End, Timewait] | None:
    """The earlier connection that was closed properly, and its other end, still inside its timewait at `time`."""
    for conflict in conflicts:
        old, holder = conflict.other, conflict.other.peer(conflict.owner)
        if not conflict.same_peer or holder.timewait is None:
            continue
        if holder.timewait.start - DISORDER <= time < holder.timewait.minimum and context.covered(
            old, last_activity(old, time), time
        ):
            return old, holder, holder.timewait
    return None


def also_held(refused: Connection, conflict: Conflict, context: Context) -> list[Connection]:
    """The other connections of the same two hosts from before a refused attempt that its holder keeps established."""
    old, owner = conflict.other, conflict.other.end(conflict.owner).address
    holder = old.peer(conflict.owner).address
    found = {
        other.id: other
        for other in context.comm_ids.between(owner, holder)
        if other is not old and other.opened < refused.opened and other.stale_by is None
        for role in PEER
        if other.end(role).address == holder and other.end(role).state == "ESTABLISHED"
    }
    return [found[number] for number in sorted(found)]


def numbers(conflict: Conflict, time: int) -> dict[str, Value]:
    """What the findings about a held QPN were computed from: the QPN, its owner, who holds it and for how long."""
    other = conflict.other
    end = other.end(conflict.owner)
    known: dict[str, Value] = {
        "qpn": Qpn(end.qpn or 0),
        "ca_guid": Guid(end.ca_guid or 0),
        "held_by_connection": other.id,
    }
    if other.opened >= time:  # from before the capture
        return known
    return {
        **known,
        "age": Duration(time - other.opened),
        "last_message": Duration(time - last_message(other, time)),
    }


def last_activity(connection: Connection, before: int) -> int:
    """Time of the last thing seen on a connection before `before`: a CM message or a data packet."""
    data = [packet.time for packet in connection.last_data.values() if packet.time < before]
    return max([last_message(connection, before), *data])


def last_message(connection: Connection, before: int) -> int:
    """Time of the last CM message on a connection before `before`. (Of its data, not all packets are looked at.)"""
    return max((s.message.time for s in connection.steps if s.message.time < before), default=connection.opened)


def since(old: Connection, time: int) -> str:
    """How old a stale connection is, as far as the capture tells."""
    if old.opened >= time:
        return f"connection {old.id}, from before the capture"
    return (
        f"connection {old.id}, opened {duration(time - old.opened)} before, last CM message "
        f"{duration(time - last_message(old, time))} before"
    )
