"""Connections that are over and still kept, for late repetitions and for the rules on reuse."""

from __future__ import annotations

from collections import OrderedDict

from ibcmtool.connections.deadlines import LINGER, forgettable, is_over
from ibcmtool.model import Connection

# Some thousands a second for as long as timewait lasts, and a bound for the memory that a storm of short connections
# takes.
MOST_OVER = 8192


class Past:
    """Those of which both ends have let go, in the order in which they did."""

    def __init__(self) -> None:
        self.overruns = 0  # forgotten early because more than MOST_OVER were over
        self._over: OrderedDict[int, Connection] = OrderedDict()  # (the first of a plain dict is slow to find)

    def add(self, connection: Connection) -> None:
        """It is over."""
        self._over[connection.id] = connection

    def make_room(self, connection: Connection, now: int) -> Connection | None:
        """It is over, by its newest message. The one to be forgotten for it at `now`, where there are too many."""
        over = self._over
        over[connection.id] = connection
        over.move_to_end(connection.id)
        if len(over) <= MOST_OVER:
            return None
        oldest = next(iter(over.values()))
        if not is_over(oldest):  # it came to life again
            del over[oldest.id]
            return None
        self.overruns += now - (oldest.closed or 0) < LINGER or now < forgettable(oldest)
        return oldest

    def remove(self, connection: Connection) -> None:
        """It is forgotten."""
        self._over.pop(connection.id, None)
