"""What each port sent last: where its QP1 began to count anew (a host that rebooted), or another CA took its place.

Fed with the steps of REQs and REPs, which name their CA. Bounded by the number of ports and of the services they use.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from ibcmtool.connections.port_trace import NEAR_ZERO
from ibcmtool.messages import Rep, Req
from ibcmtool.model import Connection, Role, Step
from ibcmtool.packets import Address

MOST_REQUESTS: Final = 16  # of one port to one service of another that are remembered, the newest
MOST_PAIRS: Final = 4096  # for which they are, the newest


class Fall(NamedTuple):
    """The PSN of a port's QP1 fell back near 0."""

    last: Step  # the newest REQ or REP before it
    last_request: Step | None  # the newest REQ before it; a REP copies the peer's TransactionID
    step: Step


class Move(NamedTuple):
    """An address speaks with another CA GUID, or from another MAC address, than before."""

    last: Step
    step: Step


@dataclass(slots=True)
class _Trace:
    """What one port sent last."""

    guid: int | None
    newest: Step
    request: Step | None


class Restarts:
    """The trace of each port."""

    def __init__(self) -> None:
        self._traces: dict[Address, _Trace] = {}
        # By sender, receiver and service.
        self._requests: dict[tuple[Address, Address, int | None], deque[Step]] = {}
        self._fall: Fall | None = None
        self.moves: dict[Address, Move] = {}  # the newest of each
        self._move: Move | None = None

    def note(self, step: Step) -> None:
        """A REQ or REP that became a step."""
        message, fields = step.message, step.message.fields
        if not isinstance(fields, (Req, Rep)):
            return
        request = None
        if isinstance(fields, Req):
            request, key = step, (message.source, message.destination, fields.service_id)
            known = self._requests.get(key)
            if known is None:
                known = self._requests[key] = deque(maxlen=MOST_REQUESTS)
                if len(self._requests) > MOST_PAIRS:
                    del self._requests[next(iter(self._requests))]
            known.append(step)
        guid, trace = fields.local_ca_guid, self._traces.get(message.source)
        if trace is None or trace.guid != guid:
            if trace is not None and trace.guid and guid:
                self._note_move(trace.newest, step)
            self._traces[message.source] = _Trace(guid, step, request)
            return
        before = trace.newest.message
        if message.headers[6:12] != before.headers[6:12] and message.file == before.file:
            self._note_move(trace.newest, step)  # on Ethernet that is the source's MAC address
        if message.psn is not None and before.psn is not None and message.psn < min(NEAR_ZERO, before.psn):
            self._fall = Fall(trace.newest, trace.request, step)
        trace.newest = step
        if request is not None:
            trace.request = request

    def _note_move(self, last: Step, step: Step) -> None:
        self._move = self.moves[step.message.source] = Move(last, step)

    def fall_at(self, step: Step) -> Fall | None:
        """Whether this step, the newest one, showed such a fall."""
        fall = self._fall
        return fall if fall is not None and fall.step is step else None

    def move_at(self, step: Step) -> Move | None:
        """Whether this step, the newest one, showed such a move."""
        move = self._move
        return move if move is not None and move.step is step else None

    def next_request(self, connection: Connection, role: Role, time: int) -> Step | None:
        """The first REQ after `time` of this end's port for the same service of the same peer, as far as remembered."""
        return self.request_after(
            connection.end(role).address, connection.peer(role).address, connection.service_id, time
        )

    def request_after(self, client: Address, server: Address, service_id: int | None, time: int) -> Step | None:
        """The same by addresses and service."""
        known = self._requests.get((client, server, service_id), ())
        return next((step for step in known if step.message.time > time), None)
