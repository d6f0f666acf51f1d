"""What each port sent last, and where its QP1 began to count anew: a host that rebooted or reloaded its driver.

Fed with the steps of REQs and REPs, which name their CA. Bounded by the number of ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ibcmtool.connections.port_trace import NEAR_ZERO
from ibcmtool.messages import Rep, Req
from ibcmtool.model import Connection, Role, Step
from ibcmtool.packets import Address

Key = int | tuple[int, Address]  # the first port of a CA stands under its GUID, others under GUID and address


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
            trace.request = request

    def fall_at(self, step: Step) -> Fall | None:
        """Whether this step, the newest one, showed such a fall."""
        fall = self._fall
        return fall if fall is not None and fall.step is step else None

    def next_request(self, connection: Connection, role: Role) -> Step | None:
        """The newest REQ of this end's port, if it went to the same peer; None where the port is not known."""
        end = connection.end(role)
        if end.ca_guid is None:
            return None
        trace = self._traces.get(self._key(end.ca_guid, end.address))
        request = None if trace is None else trace.request
        return request if request and request.message.destination == connection.peer(role).address else None

    def _key(self, guid: int, address: Address) -> Key:
        first = self._traces.get(guid)
        return guid if first is None or first.address == address else (guid, address)
