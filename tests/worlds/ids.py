"""One end of a connection as a CM keeps it, the program that uses it, and the habits in which CMs differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ibcmtool.connections.timers import SECOND, exponent, linux
from worlds.host import Use
from worlds.network import Packet

if TYPE_CHECKING:
    from worlds.cm_base import CmBase
    from worlds.host import Host

ACK_TIMEOUT, PACKET_LIFE = 18, 16  # what Linux makes of a RoCE port with an ack delay of 16
MRA_TIMEOUT = 24
TIMER_LAG = 0.05  # a busy host is that late with its timers
TIMEWAIT = linux(ACK_TIMEOUT) / SECOND
ACK_SCALE = (exponent(16) + 2 * exponent(PACKET_LIFE)) / SECOND  # how long illumos waits for a DREP
STALE, NO_SERVICE, TIMEOUT, CONSUMER = 10, 8, 4, 28
EXTENDED, XRC = 3, 1  # transport of a REQ
SIDR_WAIT = 4.096


@dataclass(frozen=True)
class Habits:
    """In what a CM differs from Linux."""

    response_timeout: int = 20
    max_cm_retries: int = 15
    strict: bool = False  # refuses a REQ whose QPN is in its own timewait
    illumos: bool = False  # REJ 4 at the end, no DREP for an unknown DREQ, REP again for a repeated REQ, its own TIDs
    mra_lasts: bool = False  # the longer wait that an MRA asked for holds for all further repetitions, too
    fixed_ids: bool = False
    fixed_tids: bool = False  # beside fixed ids: each life has the TransactionIDs of the one before
    # Faults.
    takes_stale_req: bool = False
    takes_stale_rep: bool = False
    forgets_dreq: bool = False  # sends none after REJ 10 (Linux before 2016)
    wrong_qpn: bool = False  # in its DREQs
    extra_sends: int = 0  # beyond Max CM Retries
    hurry: float = 1.0  # share of the time for an answer after which it sends again
    deaf_in_timewait: bool = False  # to a repeated DREQ


class Consumer(Protocol):
    """The program that uses a connection. What it does takes its time: it plans."""

    def requested(self, time: float, id_: Id) -> None: ...
    def replied(self, time: float, id_: Id) -> None: ...
    def established(self, time: float, id_: Id) -> None: ...
    def ended(self, time: float, id_: Id, why: str) -> None: ...


@dataclass(eq=False)
class Asked:
    """A SIDR request."""

    tid: int
    peer_ip: bytes
    peer_mac: bytes
    packet: Packet = None  # type: ignore[assignment]


State = Literal[
    "REQ_SENT", "MRA_REQ_RCVD", "REP_RCVD", "REQ_RCVD", "REP_SENT", "ESTABLISHED", "DREQ_SENT", "DREQ_RCVD",
    "TIMEWAIT", "IDLE", "DEAD",
]  # fmt: skip
CONNECTED = ("ESTABLISHED", "DREQ_SENT", "DREQ_RCVD")


@dataclass(eq=False)
class Id:
    """One end of a connection: what Linux calls a cm_id."""

    cm: CmBase
    active: bool
    state: State
    consumer: Consumer
    local: int
    peer_ip: bytes
    peer_mac: bytes
    req_tid: int = 0
    remote: int = 0
    use: Use | None = None  # of its QPN
    peer_qpn: int = 0
    peer_guid: int = 0
    service: int = 0
    xrc: bool = False  # the passive side's QPN stands in another field of its REP
    retries: int = 15
    wait: float = 4.0  # for an answer
    longer: float = 0.0  # instead, as an MRA asked for
    turn: int = 0
    sends: list[Packet] = field(default_factory=list)  # of what it repeats now
    said: dict[str, Packet] = field(default_factory=dict)  # newest of each kind
    heard: dict[str, Packet] = field(default_factory=dict)
    heard_at: dict[str, float] = field(default_factory=dict)  # when each kind came first
    other: Id | None = None  # the other end, as far as it has one
    since: dict[str, float] = field(default_factory=dict)  # when it entered its states

    @property
    def host(self) -> Host:
        return self.cm.host

    def enter(self, time: float, state: State) -> None:
        self.state = state
        self.since[state] = time
