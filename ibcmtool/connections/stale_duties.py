"""After REJ 10: the connection that it proves stale, and the DREQ that is owed on it (IBA 12.9.8.3.1).

Who refuses a REQ or REP as stale still holds an earlier connection with that QPN. Its peer has lost that connection;
the holder has to end it with a DREQ, which is expected within some waits for an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import Deadline
from ibcmtool.connections.matching import of_one_boot, rej_reason
from ibcmtool.connections.timers import DUTY_WAITS, response_wait
from ibcmtool.connections.traces import Traces
from ibcmtool.model import PEER, Conflict, Connection, Role, Step


class StaleDuty(NamedTuple):
    """A DREQ is owed on a stale connection."""

    deadline: int  # ns
    refused: Connection  # the attempt that was refused because of it


def proved_stale(connection: Connection, reject: Step) -> Iterator[Conflict]:
    """The earlier connections that their holder, by this REJ of a later one, says to be alive: dead at their owner."""
    if rej_reason(reject.message) != STALE_CONNECTION:
        return
    conflicts = connection.request_conflicts if reject.sender == "passive" else connection.reply_conflicts
    for conflict in conflicts:
        if conflict.same_peer and conflict.peer_state not in CLOSED_STATES and not _closed_since(conflict, connection):
            yield conflict


def _closed_since(conflict: Conflict, refused: Connection) -> bool:
    """Whether the old connection was closed between the REQ and its refusal, not by the DREQ that is called for."""
    old, holder = conflict.other, PEER[conflict.owner]
    if old.end(holder).state not in CLOSED_STATES:
        return False
    dreqs = [step for step in old.steps if step.message.type == "DREQ" and step.sender == holder]
    return not dreqs or dreqs[0].message.time < refused.opened


def at_two_machines(conflict: Conflict, refused: Connection, role: Role, traces: Traces) -> bool:
    """Whether the end that was refused and the old connection's owner are two machines with one CA GUID.

    They have two addresses and ids of two kernels, and the owner lived on when the other one had spoken: its QP1 PSNs
    run on, or its QP sends data still. What was shown once holds for that GUID from then on.
    """
    old, end = conflict.other, refused.end(role)
    owner = old.end(conflict.owner)
    if owner.address == end.address or not owner.comm_id or not end.comm_id:
        return False
    if of_one_boot(owner.comm_id, end.comm_id):
        return False
    time = next((step.message.time for step in refused.steps if step.sender == role), refused.opened)
    data = old.last_data.get(conflict.owner)
    heard = max(
        (step.message.time for step in old.steps if step.sender == conflict.owner and step.message.time < time),
        default=0,
    )
    if (data is not None and data.time > time) or traces.outlives(owner.address, heard, time):
        traces.cloned.add(owner.ca_guid or 0)
    return (owner.ca_guid or 0) in traces.cloned


def clear(connection: Connection, traces: Traces) -> None:
    """Take it for stale no more if its owner, who answers, is another machine than the one that was refused."""
    refused = connection.stale_by
    if refused is None:
        return
    for role, conflict in refused.conflicts():
        if conflict.other is connection and at_two_machines(conflict, refused, role, traces):
            connection.outcome = "closed"


def duty(conflict: Conflict, reject: Step, refused: Connection) -> StaleDuty | None:
    """The DREQ that is owed; None: not established at the holder, or its DREQ is under way already."""
    old, holder = conflict.other, PEER[conflict.owner]
    if conflict.peer_state != "ESTABLISHED" or old.end(holder).state != "ESTABLISHED":
        return None
    wait = response_wait(old.request, holder).nominal
    return StaleDuty(reject.message.time + DUTY_WAITS * wait, refused)


class StaleDuties:
    """The DREQs that are owed, by the id of the stale connection; no more than there are refused attempts."""

    def __init__(self) -> None:
        self._owed: dict[int, list[StaleDuty]] = {}

    def __bool__(self) -> bool:
        return bool(self._owed)

    def add(self, stale: Connection, duty: StaleDuty) -> None:
        """It is owed from now on."""
        self._owed.setdefault(stale.id, []).append(duty)

    def settle(self, stale: Connection) -> Sequence[Connection]:
        """Nothing is owed on it any more. The refused attempts, oldest first."""
        return [duty.refused for duty in self._owed.pop(stale.id, ())]

    def overdue(self, stale: Connection, now: int) -> Sequence[Connection]:
        """The refused attempts whose DREQ is overdue; that is said once."""
        owed = self._owed[stale.id]
        self._owed[stale.id] = [duty for duty in owed if duty.deadline > now]
        return [duty.refused for duty in owed if duty.deadline <= now]

    def deadlines(self, stale: Connection) -> Iterator[Deadline]:
        """When which of them is overdue."""
        for duty in self._owed.get(stale.id, ()):
            yield Deadline(duty.deadline, "STALE_DUTY")
