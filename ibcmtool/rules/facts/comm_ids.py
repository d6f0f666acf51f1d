"""Which connection has which Communication ID: the newest one of each CA that came to life with it.

Fed with the RTUs. Bounded: of too many, those that were closed are forgotten first, then the oldest.
"""

from __future__ import annotations

from ibcmtool.model import Connection, Step
from ibcmtool.packets import Address

MOST_IDS = 1 << 14  # two for each connection

Key = tuple[int, int]  # CA GUID, Communication ID


class CommIds:
    """The holder of each id."""

    def __init__(self) -> None:
        self._holders: dict[Key, Connection] = {}
        self._step: Step | None = None  # the newest that gave an id which another connection had
        self._earlier: Connection | None = None  # that connection

    def note(self, connection: Connection, step: Step) -> None:
        """An RTU: both ends' ids are in use."""
        holders = self._holders
        if len(holders) >= MOST_IDS:
            self._make_room()
        active, passive = connection.active, connection.passive
        if active.ca_guid and active.comm_id:
            holders[active.ca_guid, active.comm_id] = connection
        if passive.ca_guid and passive.comm_id:
            key = (passive.ca_guid, passive.comm_id)
            other = holders.get(key, connection)
            holders[key] = connection
            if other is not connection:
                self._step, self._earlier = step, other

    def earlier_holder(self, step: Step) -> Connection | None:
        """The connection that had the passive end's id when this step, the newest RTU, came; None: nobody else."""
        return self._earlier if self._step is step else None

    def given_since(self, connection: Connection, time: int) -> bool:
        """Whether a CA gave an id of this connection to another one that began after `time`."""
        ends = connection.active, connection.passive
        holders = [self._holders.get((end.ca_guid or 0, end.comm_id or 0), connection) for end in ends]
        return any(holder is not connection and holder.opened > time for holder in holders)

    def between(self, one: Address, other: Address) -> list[Connection]:
        """The connections of two ports, as far as they are remembered; most of them twice, once for each id."""
        known = (one, other), (other, one)
        return [c for c in self._holders.values() if (c.active.address, c.passive.address) in known]

    def _make_room(self) -> None:
        kept = [(key, connection) for key, connection in self._holders.items() if connection.outcome == "established"]
        self._holders = dict(kept[-MOST_IDS // 2 :])
