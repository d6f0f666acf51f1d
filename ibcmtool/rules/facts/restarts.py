"""What each port sent last: where its QP1 began to count anew (a host that rebooted), or another CA took its place.

Fed with the steps of REQs and REPs, which name their CA. Bounded by the number of ports and of the services they use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ibcmtool.connections.port_trace import NEAR_ZERO
from ibcmtool.connections.traces import Traces
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

    def __init__(self, numbers: Traces) -> None:
        self._numbers = numbers
        self._traces: dict[Address, _Trace] = {}
        # By sender, receiver and service.
        self._requests: dict[tuple[Address, Address, int | None], deque[Step]] = {}
        self.fall: Fall | None = None  # the newest
        self.moves: dict[Address, Move] = {}  # the newest of each

    def note(self, step: Step) -> Sequence[str]:
        """A REQ or REP that became a step. What it shows, if anything: kinds of events."""
        message, fields = step.message, step.message.fields
        if not isinstance(fields, (Req, Rep)):
            return ()
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
            self._traces[message.source] = _Trace(guid, step, request)
            if trace is None or not (trace.guid and guid):
                return ()
            self.moves[message.source] = Move(trace.newest, step)
            self._numbers.moved(trace.newest.message, message)
            return ("MOVED",)
        before = trace.newest.message
        shown: tuple[str, ...] = ()
        if message.headers[6:12] != before.headers[6:12] and message.file == before.file:
            self.moves[message.source] = Move(trace.newest, step)  # on Ethernet that is the source's MAC address
            shown = ("MOVED",)
        elif message.psn is not None and before.psn is not None and message.psn < min(NEAR_ZERO, before.psn):
            self.fall = Fall(trace.newest, trace.request, step)
            shown = ("RESTARTED",)
        trace.newest = step
        if request is not None:
            trace.request = request
        return shown

    def next_request(self, connection: Connection, role: Role, time: int) -> Step | None:
        """The first REQ after `time` of this end's port for the same service of the same peer, as far as remembered."""
        return self.request_after(
            connection.end(role).address, connection.peer(role).address, connection.service_id, time
        )

    def request_after(self, client: Address, server: Address, service_id: int | None, time: int) -> Step | None:
        """The same by addresses and service."""
        known = self._requests.get((client, server, service_id), ())
        return next((step for step in known if step.message.time > time), None)
