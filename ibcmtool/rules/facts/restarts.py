"""What each port sent last, and where its QP1 began to count anew: a host that rebooted or reloaded its driver.

Fed with the steps of REQs and REPs, which name their CA. Bounded by the number of ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ibcmtool.connections.traces import NEAR_ZERO
from ibcmtool.messages import Rep, Req
from ibcmtool.model import Connection, Role, Step
from ibcmtool.packets import Address

MOST_AWAITED = 4096  # programs, the newest

Key = int | tuple[int, Address]  # the first port of a CA stands under its GUID, others under GUID and address

Program = tuple[Key, Address, int | None]  # its port, and the peer and service that it connects to


class Fall(NamedTuple):
    """The PSN of a port's QP1 fell back near 0."""

    last: Step  # the newest REQ or REP before it
    last_request: Step | None  # the newest REQ before it; a REP copies the peer's TransactionID
    step: Step


@dataclass(slots=True)
class _Trace:
    """What one port sent last."""

    address: Address
    newest: Step
    request: Step | None


class Restarts:
    """The trace of each port."""

    def __init__(self) -> None:
        self._traces: dict[Key, _Trace] = {}
        self._fall: Fall | None = None
        self._awaited: dict[Program, Step | None] = {}

    def note(self, step: Step) -> None:
        """A REQ or REP that became a step."""
        message, fields = step.message, step.message.fields
        if not isinstance(fields, (Req, Rep)):
            return
        psn, guid = message.psn, fields.local_ca_guid
        if psn is None or not guid:
            return
        key = self._key(guid, message.source)
        trace, request = self._traces.get(key), step if message.type == "REQ" else None
        if trace is None:
            self._traces[key] = _Trace(message.source, step, request)
            return
        before = trace.newest.message.psn
        if psn < NEAR_ZERO and before is not None and psn < before:
            self._fall = Fall(trace.newest, trace.request, step)
        trace.newest = step
        if request is not None:
            if self._awaited:
                program = key, *_asked(request)
                if program in self._awaited and self._awaited[program] is None:
                    self._awaited[program] = request
            trace.request = request

    def fall_at(self, step: Step) -> Fall | None:
        """Whether this step, the newest one, showed such a fall."""
        fall = self._fall
        return fall if fall is not None and fall.step is step else None

    def lapsed(self, connection: Connection, role: Role) -> None:
        """A DREQ of this end was not answered in time: from now on its first REQ to the same service is awaited."""
        program = self._program(connection, role)
        if program is not None:
            self._awaited[program] = None
            if len(self._awaited) > MOST_AWAITED:
                del self._awaited[next(iter(self._awaited))]

    def next_request(self, connection: Connection, role: Role, since: int) -> Step | None:
        """The first REQ since then (ns) of this end's port to the same peer and service, as far as it was awaited.

        Else the newest, if it is such a one; None where there is none, or the port is not known.
        """
        program = self._program(connection, role)
        if program is None:
            return None
        first, trace = self._awaited.get(program), self._traces.get(program[0])
        if first is not None and first.message.time > since:
            return first
        newest = None if trace is None else trace.request
        if newest is None or newest.message.time <= since or _asked(newest) != program[1:]:
            return None
        return newest

    def _program(self, connection: Connection, role: Role) -> Program | None:
        """What tells the program at this end, as far as it is a requester."""
        end = connection.end(role)
        if end.ca_guid is None:
            return None
        return self._key(end.ca_guid, end.address), connection.peer(role).address, connection.service_id

    def _key(self, guid: int, address: Address) -> Key:
        first = self._traces.get(guid)
        return guid if first is None or first.address == address else (guid, address)


def _asked(request: Step) -> tuple[Address, int | None]:
    """The peer and the service that a REQ is for."""
    fields = request.message.fields
    return request.message.destination, fields.service_id if isinstance(fields, Req) else None
