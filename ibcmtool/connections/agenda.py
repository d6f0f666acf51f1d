"""When to look at which connection: its deadlines that have not passed, and the DREQs that are owed on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibcmtool.connections.deadline_queue import DeadlineQueue
from ibcmtool.connections.deadlines import Deadline, deadlines, least_wait
from ibcmtool.connections.stale_duties import StaleDuties
from ibcmtool.connections.timers import exponent
from ibcmtool.model import Connection

LONGEST_EXPONENT: Final = 31


class Agenda:
    """What is due in the connections that live. Times are ns."""

    def __init__(self) -> None:
        self.queue = DeadlineQueue()
        self.duties = StaleDuties()
        self.least_wait = exponent(LONGEST_EXPONENT)  # ns, of all connections so far: no deadline comes sooner
        self._reported: dict[int, set[Deadline]] = {}  # deadlines that passed and leave the states as they are

    def note(self, connection: Connection, time: int) -> None:
        """It has a new step, of this time. What that sets comes no sooner than this: a closer look can wait."""
        wait = least_wait(connection)
        self.least_wait = min(self.least_wait, wait)
        self.queue.schedule(connection.id, time + wait)

    def pending(self, connection: Connection) -> Iterator[Deadline]:
        """What is due next in a connection, in no order."""
        reported = self._reported.get(connection.id, ())
        yield from (deadline for deadline in deadlines(connection) if deadline not in reported)
        yield from self.duties.deadlines(connection)

    def passed(self, connection: Connection, deadline: Deadline) -> None:
        """This one has passed, and left the states as they are: it is not due again."""
        self._reported.setdefault(connection.id, set()).add(deadline)

    def plan(self, connection: Connection) -> None:
        """See when to look at it next. A quiet one with nothing due is left alone until its next message."""
        due = min((deadline.time for deadline in self.pending(connection)), default=None)
        if due is not None:
            self.queue.schedule(connection.id, due)

    def remove(self, connection: Connection) -> None:
        """It has ended."""
        self.queue.remove(connection.id)
        self._reported.pop(connection.id, None)
        self.duties.settle(connection)
