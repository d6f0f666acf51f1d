"""What the tracker makes of messages: connections with their ends and steps, and events.

Units: every time and duration is an integer number of nanoseconds (times since the epoch). Identifiers are
plain integers; GIDs are 16 bytes. The records handed on are not changed; the one exception is `Connection` (with its
two `End`s and its `Step`s), which the tracker alone writes to while the connection lives, and all others only read.
Constructors of what there are many of are written out, as those that `dataclass` makes are not compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ibcmtool.messages import Reply, Request
from ibcmtool.packets import Address, CmMessage, DataPacket, Transport

Confidence = Literal["certain", "probable", "possible"]
TimewaitModel = str  # how long timewait lasts: the name of one in connections/timewait_models.py
Role = Literal["active", "passive"]
Disposition = Literal["accepted", "duplicate", "ignored", "unexpected"]
Outcome = Literal[
    "connecting", "established", "closed", "rejected", "timed_out", "stale", "half_open", "resolved", "partial"
]
State = Literal[
    "UNKNOWN",  # not a CM state: the capture does not tell (it starts inside the connection)
    "IDLE",
    "LISTEN",
    "REQ_SENT",
    "MRA_REQ_RCVD",
    "REP_RCVD",
    "MRA_REP_SENT",
    "REQ_RCVD",
    "MRA_REQ_SENT",
    "REP_SENT",
    "MRA_REP_RCVD",
    "ESTABLISHED",
    "DREQ_SENT",
    "DREQ_RCVD",
    "TIMEWAIT",
    "SIDR_REQ_SENT",
    "SIDR_REQ_RCVD",
]

PEER: dict[Role, Role] = {"active": "passive", "passive": "active"}


class Timewait(NamedTuple):
    """The interval in which one end's QPN must not serve a new connection (absolute times, ns)."""

    start: int
    minimum: int  # no implementation that fits the model ends it earlier
    likely: int  # where the implementation ends it; Linux, as long as no other is known
    maximum: int  # every implementation that fits the model has ended it
    assumed: bool  # True: the Local ACK Timeout was not seen, a default stands in
    model: TimewaitModel = "auto"  # by which these were computed


class Implementation(NamedTuple):
    """Whose CM a CA runs, by its own messages (connections/implementation.py)."""

    name: str  # "Linux", "Linux rdma_cm", "MLNX OFED", "illumos"
    confidence: Confidence
    sign: str  # by what it was recognised, in words


class Sighting(NamedTuple):
    """Another place where the very same packet was captured."""

    file: int
    frame: int
    time: int


@dataclass(slots=True)
class End:
    """One end of a connection: a QP of a CA, and the state its CM must be in as far as the wire tells."""

    role: Role
    address: Address
    state: State
    ca_guid: int | None
    qpn: int | None
    comm_id: int | None
    name: str  # for people: IP:port where the private data tells, else GID, else LID
    timewait: Timewait | None
    implementation: Implementation | None  # of its CA, when the connection ended; None: unknown, or no agreement
    restarted: int | None  # when its port was seen to have restarted; it holds nothing since
    superseded: bool  # its QPN was given to a later connection

    def __init__(
        self,
        role: Role,
        address: Address,
        state: State,
        ca_guid: int | None = None,
        qpn: int | None = None,
        comm_id: int | None = None,
        name: str = "",
        timewait: Timewait | None = None,
    ) -> None:
        self.role = role
        self.address = address
        self.state = state
        self.ca_guid = ca_guid
        self.qpn = qpn
        self.comm_id = comm_id
        self.name = name
        self.timewait = timewait
        self.implementation = None
        self.restarted = None
        self.superseded = False


@dataclass(slots=True)
class Step:
    """One message of a connection, in its place."""

    message: CmMessage
    sender: Role | Literal["unknown"]
    disposition: Disposition
    retransmission_of: Step | None  # the first Step with the same MAD bytes
    active_state: State  # after this message
    passive_state: State
    sightings: tuple[Sighting, ...]  # where the same packet was captured again

    def __init__(
        self,
        message: CmMessage,
        sender: Role | Literal["unknown"],
        disposition: Disposition,
        retransmission_of: Step | None,
        active_state: State,
        passive_state: State,
    ) -> None:
        self.message = message
        self.sender = sender
        self.disposition = disposition
        self.retransmission_of = retransmission_of
        self.active_state = active_state
        self.passive_state = passive_state
        self.sightings = ()


@dataclass(slots=True, eq=False)
class Connection:
    """One life between two ends, from the first REQ (or SIDR_REQ) until both let go. Written by the tracker only."""

    id: int
    active: End
    passive: End
    transport: Transport
    opened: int  # time of its first message
    sidr: bool  # a SIDR exchange: resolves a UD QPN, connects nothing; comm_id is its Request ID
    service_id: int | None
    steps: list[Step]
    request: Request | None  # fields of the REQ or SIDR_REQ; None when it was not captured
    reply: Reply | None  # fields of the (latest) REP or SIDR_REP
    established: int | None
    closed: int | None
    outcome: Outcome
    history: str
    reject: Step | None  # the latest REJ that ended it
    request_conflicts: tuple[Conflict, ...]  # found when its REQ was first seen
    reply_conflicts: tuple[Conflict, ...]  # found when its REP was first seen
    stale_by: Connection | None  # the later attempt that proved this one stale
    late_duplicate_of: Connection | None  # the ended connection whose REQ came again, byte for byte
    proxied_copy_of: Connection | None  # the same exchange on the other side of a proxy that rewrites ids
    crossing: Connection | None  # the attempt of who refused this one, sent at the same time for the same service
    comm_id_conflict: Conflict | None  # an earlier connection with this REQ's Local Communication ID and CA GUID
    first_data: dict[Role, DataPacket]  # by sender
    last_data: dict[Role, DataPacket]

    def __init__(
        self,
        id: int,  # noqa: A002
        active: End,
        passive: End,
        transport: Transport,
        opened: int,
        outcome: Outcome = "connecting",
    ) -> None:
        self.id = id
        self.active = active
        self.passive = passive
        self.transport = transport
        self.opened = opened
        self.sidr = False
        self.service_id = None
        self.steps = []
        self.request = None
        self.reply = None
        self.established = None
        self.closed = None
        self.outcome = outcome
        self.history = ""
        self.reject = None
        self.request_conflicts = ()
        self.reply_conflicts = ()
        self.stale_by = None
        self.late_duplicate_of = None
        self.proxied_copy_of = None
        self.crossing = None
        self.comm_id_conflict = None
        self.first_data = {}
        self.last_data = {}

    def end(self, role: Role) -> End:
        """The end in this role."""
        return self.active if role == "active" else self.passive

    def peer(self, role: Role) -> End:
        """The end opposite to this role."""
        return self.passive if role == "active" else self.active

    def gave_way(self) -> bool:
        """Whether it was refused because the other side's attempt, which crossed it, came up instead."""
        return self.outcome == "rejected" and self.crossing is not None and self.crossing.established is not None

    def conflicts(self) -> list[tuple[Role, Conflict]]:
        """Earlier connections that have a claim to the QPN of an end, and which end that is."""
        return [("active", conflict) for conflict in self.request_conflicts] + [
            ("passive", conflict) for conflict in self.reply_conflicts
        ]

    def lasted(self) -> int | None:
        """ns from its first message to its end; None where that is to come, or a clock was set back in between."""
        return None if self.closed is None or self.closed < self.opened else self.closed - self.opened


class Conflict(NamedTuple):
    """A REQ or REP names a QPN that an earlier connection of the same CA used and may not have given back."""

    other: Connection
    owner: Role  # which end of `other` the reused QPN belongs to
    same_peer: bool  # the message goes to the CA at the other end of `other`
    owner_state: State  # states in `other` when the message was seen
    peer_state: State
    newest: bool = True  # no later connection has used the QPN


@dataclass(slots=True)
class Event:
    """What happened to a connection. `kind` is the message type of a step, else one of EVENT_KINDS."""

    kind: str
    time: int
    connection: Connection
    step: Step | None
    role: Role | None  # the end that a deadline is about
    related: Connection | None

    def __init__(
        self,
        kind: str,
        time: int,
        connection: Connection,
        step: Step | None = None,
        role: Role | None = None,
        related: Connection | None = None,
    ) -> None:
        self.kind = kind
        self.time = time
        self.connection = connection
        self.step = step
        self.role = role
        self.related = related


# Events that no message carries: they come when the capture's time says so, or at its end.
EVENT_KINDS = (
    "SIGHTING",  # `step` was captured once more (Step.sightings)
    "DELAYED",  # `step` was overtaken on its way by what its sender sent later; it changes nothing
    "DATA",  # first data packet of `role` (connection.first_data[role])
    "REQ_EXHAUSTED",  # every REQ allowed was sent and the last wait is over (or the capture ended in it)
    "REP_EXHAUSTED",
    "DREQ_LAPSED",  # one timeout after a DREQ of `role` without DREP
    "DREQ_EXHAUSTED",  # the DREQ sender `role` went to TIMEWAIT without DREP
    "STALE_DUTY",  # connection was refused with REJ 10 because of `related`; its DREQ came (step) or is overdue (None)
    "RESTARTED",  # `step` shows that its port's QP1 began to count anew (of the facts, rules/facts/restarts.py)
    "MOVED",  # `step` shows another CA or MAC address at its sender's address (of the facts, too)
    "ENDED",  # nothing more is expected: the final word on the connection (also at the end of the capture)
)
