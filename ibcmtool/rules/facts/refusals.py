"""Who was refused as stale (REJ 10) for a QPN that its CA GUID has at another address: what that means shows later.

It may be another machine with the same GUID, which goes on. Bounded: the newest are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ibcmtool.model import Conflict, Connection, Event, Role, Step

MOST_REFUSED: Final = 4096  # connections


class Refusal(NamedTuple):
    """A REJ 10, and the connection that it was sent for."""

    role: Role  # of the end that was refused
    conflict: Conflict
    reject: Step
    dreq: Step | None  # that followed on the old connection

    def elsewhere(self, connection: Connection) -> bool:
        """Whether the end of `connection` that was refused has another address than the owner of the QPN."""
        return self.conflict.other.end(self.conflict.owner).address != connection.end(self.role).address


def refusals(event: Event) -> Iterator[Refusal]:
    """What a STALE_DUTY is about."""
    connection, reject = event.connection, event.connection.reject
    for role, conflict in connection.conflicts():
        if reject is not None and reject.sender != role and conflict.other is event.related:
            yield Refusal(role, conflict, reject, event.step)


class Refusals:
    """Fed with the events STALE_DUTY."""

    def __init__(self) -> None:
        self._elsewhere: dict[int, list[Refusal]] = {}  # by the id of the connection that was refused

    def note(self, event: Event) -> None:
        """Remember it, once for each old connection."""
        for refusal in refusals(event):
            known = self._elsewhere.get(event.connection.id, [])
            old = refusal.conflict.other
            if refusal.elsewhere(event.connection) and all(old is not other.conflict.other for other in known):
                self._elsewhere[event.connection.id] = [*known, refusal]
                if len(self._elsewhere) > MOST_REFUSED:
                    del self._elsewhere[next(iter(self._elsewhere))]

    def elsewhere(self, connection: Connection) -> Sequence[Refusal]:
        """Those of this connection whose QPN another address has, oldest first."""
        return self._elsewhere.get(connection.id, ())
