"""Which QPNs are worth a look at their data packets.

Data proves that its sender's QP is up: before the RTU was seen, or after the other end has let go. Between the two
it proves nothing new, and looking at every packet would cost the fast path its speed; so a connection is watched only
until both ends have sent, and again while a DREQ is unanswered or exactly one end is open.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.tables import ACTIVE_STATES, PASSIVE_STATES
from ibcmtool.model import Connection, Role, State
from ibcmtool.packets import DataPacket

HAS_QP_UP: Final = frozenset({"REP_RCVD", "MRA_REP_SENT", "REP_SENT", "MRA_REP_RCVD", "ESTABLISHED"})


def _worth_watching(active: State, passive: State) -> bool | None:
    """Whether a connection in these states is worth watching; None: until both ends have sent."""
    if active in CLOSED_STATES or passive in CLOSED_STATES:
        return active not in CLOSED_STATES or passive not in CLOSED_STATES
    if active == "DREQ_SENT" or passive == "DREQ_SENT":
        return True
    return None if active in HAS_QP_UP and passive in HAS_QP_UP else False


WORTH_WATCHING: Final = {
    (active, passive): _worth_watching(active, passive) for active in ACTIVE_STATES for passive in PASSIVE_STATES
}


class DataWatch:
    """The destination QPNs whose data packets tell something. `adjust` and `leave` keep them.

    Many hosts count their QPNs from the same number on, so one QPN may have hundreds of connections.
    """

    def __init__(self) -> None:
        # (connection id, sender) -> connection. Readers ask `qpn in qpns` for every packet of a capture.
        self.qpns: dict[int, dict[tuple[int, Role], Connection]] = {}
        self._watched: set[int] = set()  # connection ids

    def senders(self, packet: DataPacket) -> list[tuple[Connection, Role]]:
        """The connections that this packet can belong to, and which end sent it: the newest that hold the QPN."""
        return [
            (connection, sender)
            for (_, sender), connection in self.qpns.get(packet.dest_qpn, {}).items()
            if connection.end(sender).address.matches(packet.source)
            and connection.peer(sender).address.matches(packet.destination)
            and not connection.peer(sender).superseded
        ]

    def adjust(self, connection: Connection) -> None:
        """Watch or leave this connection, as its states ask for."""
        if connection.reply is None:
            return
        wanted = WORTH_WATCHING[connection.active.state, connection.passive.state]
        if wanted is None:
            wanted = len(connection.first_data) < 2
        if wanted != (connection.id in self._watched):
            if wanted:
                self._add(connection)
            else:
                self.leave(connection)

    def _add(self, connection: Connection) -> None:
        if not (connection.active.qpn and connection.passive.qpn):
            return
        self._watched.add(connection.id)
        for qpn, sender in _directions(connection):
            self.qpns.setdefault(qpn, {})[(connection.id, sender)] = connection

    def leave(self, connection: Connection) -> None:
        """Leave it; nothing happens if it was not watched."""
        if connection.id not in self._watched:
            return
        self._watched.discard(connection.id)
        for qpn, sender in _directions(connection):
            entries = self.qpns[qpn]
            del entries[(connection.id, sender)]
            if not entries:
                del self.qpns[qpn]


def _directions(connection: Connection) -> tuple[tuple[int, Role], tuple[int, Role]]:
    """Destination QPN and the end that sends to it."""
    return (connection.passive.qpn or 0, "active"), (connection.active.qpn or 0, "passive")
