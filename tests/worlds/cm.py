"""A CM that behaves as Linux does (ib_cm under rdma_cm), and the habits in which others differ from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ibcmtool.connections.timers import SECOND, exponent, linux
from ibcmtool.messages import Drep, Dreq, Mra, Rej, Rep, Req, Rtu
from worlds.host import Use
from worlds.network import Packet

if TYPE_CHECKING:
    from worlds.host import Host

ACK_TIMEOUT, PACKET_LIFE = 18, 16  # what Linux makes of a RoCE port with an ack delay of 16
MRA_TIMEOUT = 24
TIMER_LAG = 0.05  # a busy host is that late with its timers
TIMEWAIT = linux(ACK_TIMEOUT) / SECOND
ACK_SCALE = (exponent(16) + 2 * exponent(PACKET_LIFE)) / SECOND  # how long illumos waits for a DREP
STALE, NO_SERVICE, TIMEOUT, CONSUMER = 10, 8, 4, 28


@dataclass(frozen=True)
class Habits:
    """In what a CM differs from Linux. The last three are faults."""

    response_timeout: int = 20
    max_cm_retries: int = 15
    strict: bool = False  # refuses a REQ whose QPN is in its own timewait
    illumos: bool = False  # REJ 4 at the end, no DREP for an unknown DREQ, REP again for a repeated REQ, its own TIDs
    mra_lasts: bool = False  # the longer wait that an MRA asked for holds for all further repetitions, too
    fixed_ids: bool = False
    takes_stale_req: bool = False
    takes_stale_rep: bool = False
    forgets_dreq: bool = False  # sends none after REJ 10 (Linux before 2016)


class Consumer(Protocol):
    """The program that uses a connection. What it does takes its time: it plans."""

    def requested(self, time: float, id_: Id) -> None: ...
    def replied(self, time: float, id_: Id) -> None: ...
    def established(self, time: float, id_: Id) -> None: ...
    def ended(self, time: float, id_: Id, why: str) -> None: ...


State = Literal[
    "REQ_SENT", "MRA_REQ_RCVD", "REP_RCVD", "REQ_RCVD", "REP_SENT", "ESTABLISHED", "DREQ_SENT", "DREQ_RCVD",
    "TIMEWAIT", "IDLE", "DEAD",
]  # fmt: skip
CONNECTED = ("ESTABLISHED", "DREQ_SENT", "DREQ_RCVD")


@dataclass(eq=False)
class Id:
    """One end of a connection: what Linux calls a cm_id."""

    cm: Cm
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


class Cm:
    """The CM of one life of a host."""

    def __init__(self, host: Host, habits: Habits) -> None:
        self.host, self.habits = host, habits
        self.plan, self.truth = host.network.plan, host.truth
        self.alive = True
        self.ids: list[Id] = []
        self.servers: dict[int, Consumer] = {}  # by service id
        self.by_remote: dict[tuple[int, int], Id] = {}  # remote comm id, CA GUID
        self.by_qpn: dict[tuple[int, int], Id] = {}  # remote QPN, CA GUID
        self.resting: dict[tuple[int, int], tuple[Id, float]] = {}  # remote QPNs in this CM's timewait, and until when

    # -- what consumers ask for ------------------------------------------------------------------------------------

    def connect(self, time: float, consumer: Consumer, target: Host, service: int, use: Use | None = None) -> Id:
        """Look up the target's address, make a QP, and send the REQ."""
        host = self.host
        holder = host.network.holders[target.ip]
        local = host.next_comm_id()
        tid = host.tid(time, "REQ", local)
        id_ = Id(self, True, "REQ_SENT", consumer, local, target.ip, holder.mac, tid, service=service)
        id_.use = use or host.take_qpn(time)
        id_.retries = self.habits.max_cm_retries
        id_.wait = (linux(self.habits.response_timeout) + 2 * linux(PACKET_LIFE)) / SECOND
        self.ids.append(id_)
        self.truth.names_qpn(time, id_)
        fields: dict[str, int | bytes] = {
            "local_comm_id": local,
            "service_id": service,
            "local_ca_guid": host.guid,
            "local_qpn": id_.use.qpn,
            "starting_psn": host.rng.randrange(1 << 24),
            "remote_cm_response_timeout": self.habits.response_timeout,
            "local_cm_response_timeout": self.habits.response_timeout,
            "max_cm_retries": id_.retries,
            "primary_local_gid": host.gid,
            "primary_remote_gid": bytes(10) + b"\xff\xff" + target.ip,
            "primary_local_ack_timeout": ACK_TIMEOUT,
        }
        self._start(time, id_, host.send(time, "REQ", id_.req_tid, fields, id_))
        self.truth.requested(time, id_)
        return id_

    def accept(self, time: float, id_: Id) -> None:
        """The passive consumer has made its QP: REP."""
        if id_.state != "REQ_RCVD" or not self.alive:
            return
        host = self.host
        id_.use = host.take_qpn(time)
        self.truth.names_qpn(time, id_)
        fields: dict[str, int | bytes] = {
            **self._ids(id_),
            "local_ca_guid": host.guid,
            "local_qpn": id_.use.qpn,
            "starting_psn": host.rng.randrange(1 << 24),
            "target_ack_delay": 16,
        }
        id_.enter(time, "REP_SENT")
        self._start(time, id_, host.send(time, "REP", id_.req_tid, fields, id_))
        self.truth.answered(time, id_)

    def reject(self, time: float, id_: Id, reason: int = CONSUMER) -> None:
        """A consumer refuses, before the connection is established."""
        if not self.alive or id_.state not in ("REQ_SENT", "MRA_REQ_RCVD", "REQ_RCVD", "REP_SENT", "REP_RCVD"):
            return
        rejected = {"REQ_RCVD": 0, "REP_RCVD": 1}.get(id_.state, 2)
        fields: dict[str, int | bytes] = {**self._ids(id_), "reason": reason, "message_rejected": rejected}
        if reason == TIMEOUT:
            fields |= {"reject_info_length": 8, "additional_reject_info": self.host.guid.to_bytes(8, "big")}
            if id_.remote == 0:
                fields["remote_comm_id"] = 0
        self._say(time, id_, "REJ", fields)
        self.truth.let_go(time, id_)
        if id_.state == "REP_SENT":
            self._rest(time, id_)
        else:
            self._idle(time, id_)

    def confirm(self, time: float, id_: Id) -> None:
        """The active consumer has set its QP up: RTU."""
        if id_.state != "REP_RCVD" or not self.alive:
            return
        self._say(time, id_, "RTU", self._ids(id_))
        id_.enter(time, "ESTABLISHED")
        assert id_.use is not None
        id_.use.carried = True
        self.truth.confirmed(time, id_)
        id_.consumer.established(time, id_)

    def disconnect(self, time: float, id_: Id) -> None:
        """DREQ, repeated until it is answered."""
        if id_.state != "ESTABLISHED" or not self.alive:
            return
        id_.enter(time, "DREQ_SENT")
        if self.habits.illumos:
            id_.wait = ACK_SCALE
        self._start(time, id_, self._dreq(time, id_))

    def destroy(self, time: float, id_: Id) -> None:
        """The id is destroyed, as when its process ends: one message at most, and nobody waits for an answer."""
        if not self.alive or id_.state in ("IDLE", "DEAD"):
            return
        if id_.state in ("REQ_SENT", "MRA_REQ_RCVD"):
            self.truth.gave_up(time, id_)
            self.reject(time, id_, TIMEOUT)
        elif id_.state in ("REQ_RCVD", "REP_SENT", "REP_RCVD"):
            self.reject(time, id_)
        elif id_.state == "ESTABLISHED":
            self.truth.dropped(time, id_, self._dreq(time, id_))
        elif id_.state == "DREQ_RCVD":
            self._drep(time, id_, id_.heard["DREQ"])
        if id_.state != "IDLE":
            if id_.state != "TIMEWAIT":
                self._rest(time, id_)
            id_.enter(time, "DEAD")
        if id_.use is not None:
            id_.use.free = True

    def die(self, time: float) -> None:
        """The host fails: nothing is said."""
        self.alive = False
        for id_ in self.ids:
            id_.turn += 1
            if id_.state not in ("IDLE", "TIMEWAIT"):
                id_.enter(time, "DEAD")

    # -- what comes from the network -------------------------------------------------------------------------------

    def receive(self, time: float, packet: Packet) -> None:
        fields = packet.fields
        if isinstance(fields, Req):
            self._req(time, packet, fields)
        elif isinstance(fields, Rep):
            self._rep(time, packet, fields)
        elif isinstance(fields, Rtu):
            id_ = self._by_both(fields)
            if id_ is not None and id_.state == "REP_SENT":
                self._note(time, id_, packet)
                self._stop(id_)
                id_.enter(time, "ESTABLISHED")
                id_.consumer.established(time, id_)
        elif isinstance(fields, Mra):
            self._mra(time, packet, fields)
        elif isinstance(fields, Rej):
            self._rej(time, packet, fields)
        elif isinstance(fields, Dreq):
            self._hear_dreq(time, packet, fields)
        elif isinstance(fields, Drep):
            id_ = self._by_both(fields)
            if id_ is not None and id_.state in ("DREQ_SENT", "DREQ_RCVD"):
                self._note(time, id_, packet)
                self._rest(time, id_)
                id_.consumer.ended(time, id_, "closed")

    def _req(self, time: float, packet: Packet, fields: Req) -> None:
        assert fields.local_comm_id is not None and fields.local_ca_guid is not None and fields.local_qpn is not None
        known = self.by_remote.get((fields.local_comm_id, fields.local_ca_guid))
        if known is not None:
            if known.state == "REQ_RCVD":
                self._say(time, known, "MRA", {**self._ids(known), "message_mraed": 0, "service_timeout": MRA_TIMEOUT})
                self.truth.promised(time, known)
            elif known.state == "REP_SENT" and self.habits.illumos and known.sends:
                known.sends.append(self.host.again(time, known.sends[0]))
            return
        end = fields.local_qpn, fields.local_ca_guid
        holder = self.by_qpn.get(end)
        if holder is not None and not self.habits.takes_stale_req:
            self._refuse(time, packet, STALE)
            self._release_stale(time, holder)
            return
        resting = self.resting.get(end)
        in_timewait = resting is not None and time < resting[1]
        if in_timewait and self.habits.strict:
            self._refuse(time, packet, STALE)
            return
        server = self.servers.get(fields.service_id or 0)
        if server is None:
            self._refuse(time, packet, NO_SERVICE)
            return
        sender = packet.sender.host
        id_ = Id(self, False, "REQ_RCVD", server, self.host.next_comm_id(), packet.source, sender.mac, packet.tid)
        id_.service = fields.service_id or 0
        id_.retries = fields.max_cm_retries or 0
        id_.wait = linux(fields.local_cm_response_timeout or 0) / SECOND
        self._learn(id_, fields.local_comm_id, fields.local_qpn, fields.local_ca_guid)
        self.ids.append(id_)
        id_.since["REQ_RCVD"] = time
        id_.other = packet.id
        if packet.id is not None:
            packet.id.other = id_
        self._note(time, id_, packet)
        self.truth.took_req(time, id_, packet, holder, resting[0] if in_timewait and resting else None)
        server.requested(time, id_)

    def _rep(self, time: float, packet: Packet, fields: Rep) -> None:
        assert fields.local_comm_id is not None and fields.local_ca_guid is not None and fields.local_qpn is not None
        id_ = self._active(fields.remote_comm_id)
        if id_ is None:
            return
        if id_.state in ("REQ_SENT", "MRA_REQ_RCVD"):
            holder = self.by_qpn.get((fields.local_qpn, fields.local_ca_guid))
            if holder is not None and holder is not id_ and not self.habits.takes_stale_rep:
                self._say(
                    *(time, id_, "REJ"),
                    {
                        "local_comm_id": id_.local,
                        "remote_comm_id": fields.local_comm_id,
                        "reason": STALE,
                        "message_rejected": 1,
                    },
                )
                self.truth.refused_stale(time, id_.said["REJ"], packet, holder)
                self._release_stale(time, holder)
                return
            self._note(time, id_, packet)
            self._stop(id_)
            self._learn(id_, fields.local_comm_id, fields.local_qpn, fields.local_ca_guid)
            id_.enter(time, "REP_RCVD")
            self.truth.took_rep(time, id_, packet, holder)
            id_.consumer.replied(time, id_)
        elif id_.remote != fields.local_comm_id:
            return
        elif id_.state == "REP_RCVD":
            self._say(time, id_, "MRA", {**self._ids(id_), "message_mraed": 1, "service_timeout": MRA_TIMEOUT})
            self.truth.promised(time, id_)
        elif id_.state == "ESTABLISHED":
            self._say(time, id_, "RTU", self._ids(id_))

    def _mra(self, time: float, packet: Packet, fields: Mra) -> None:
        wait = (linux(fields.service_timeout or 0) + linux(ACK_TIMEOUT)) / SECOND
        if fields.message_mraed == 0:
            id_ = self._active(fields.remote_comm_id)
            if id_ is None or id_.state != "REQ_SENT":
                return
            id_.enter(time, "MRA_REQ_RCVD")
        else:
            id_ = self._by_both(fields)
            if id_ is None or id_.state != "REP_SENT":
                return
        self._note(time, id_, packet)
        id_.longer = wait
        self._plan_next(time, id_)
        if not self.habits.mra_lasts:
            id_.longer = 0.0

    def _rej(self, time: float, packet: Packet, fields: Rej) -> None:
        info = fields.additional_reject_info or b""
        id_: Id | None
        if fields.reason == TIMEOUT:
            id_ = self.by_remote.get((fields.local_comm_id or 0, int.from_bytes(info[:8], "big")))
        elif fields.message_rejected == 0:
            id_ = self._active(fields.remote_comm_id)
        else:
            id_ = self._by_both(fields)
        if id_ is None or id_.state in ("DREQ_RCVD", "TIMEWAIT", "IDLE", "DEAD"):
            return
        self._note(time, id_, packet)
        self._stop(id_)
        if fields.reason == STALE or id_.state in ("REP_RCVD", "ESTABLISHED", "DREQ_SENT"):
            self._rest(time, id_)
        else:
            self._idle(time, id_)
        id_.consumer.ended(time, id_, "stale" if fields.reason == STALE else "rejected")

    def _hear_dreq(self, time: float, packet: Packet, fields: Dreq) -> None:
        id_ = self._by_both(fields)
        if id_ is None:
            if not self.habits.illumos:
                ids: dict[str, int | bytes] = {
                    "local_comm_id": fields.remote_comm_id or 0,
                    "remote_comm_id": fields.local_comm_id or 0,
                }
                self.host.send(time, "DREP", packet.tid, ids, packet)
            return
        if id_.use is None or id_.use.qpn != fields.remote_qpn:
            return
        if id_.state == "TIMEWAIT":
            self._drep(time, id_, packet)
        elif id_.state in ("REP_SENT", "ESTABLISHED", "DREQ_SENT"):
            self._note(time, id_, packet)
            self._stop(id_)
            id_.enter(time, "DREQ_RCVD")
            self.plan.at(time + self.host.rng.choice((1e-4, 0.01)), self._answer_dreq, id_, packet)

    # -- the parts of it -------------------------------------------------------------------------------------------

    def _answer_dreq(self, time: float, id_: Id, packet: Packet) -> None:
        if id_.state != "DREQ_RCVD" or not self.alive:
            return
        self._drep(time, id_, packet)
        self._rest(time, id_)
        id_.consumer.ended(time, id_, "closed")

    def _drep(self, time: float, id_: Id, packet: Packet) -> None:
        drep = self.host.send(time, "DREP", packet.tid, self._ids(id_), id_)
        drep.answers = packet.first
        packet.first.answered = True

    def _dreq(self, time: float, id_: Id) -> Packet:
        fields: dict[str, int | bytes] = {**self._ids(id_), "remote_qpn": id_.peer_qpn}
        packet = id_.said["DREQ"] = self.host.send(*(time, "DREQ", self.host.tid(time, "DREQ", id_.local), fields, id_))
        return packet

    def _refuse(self, time: float, packet: Packet, reason: int) -> None:
        """Answer a REQ without a connection of one's own."""
        req = packet.fields
        assert isinstance(req, Req) and req.local_comm_id is not None
        fields: dict[str, int | bytes] = {
            "local_comm_id": 0,
            "remote_comm_id": req.local_comm_id,
            "reason": reason,
            "message_rejected": 0,
        }
        rej = self.host.send(time, "REJ", packet.tid, fields, packet)
        if reason == STALE:
            self.truth.refused_stale(time, rej, packet, self.by_qpn.get((req.local_qpn or 0, req.local_ca_guid or 0)))

    def _release_stale(self, time: float, holder: Id) -> None:
        if holder.state == "ESTABLISHED":
            if self.habits.forgets_dreq:
                self.truth.kept_stale(time, holder)
                return
            self.disconnect(time, holder)

    def _say(self, time: float, id_: Id, kind: str, fields: dict[str, Any]) -> None:
        packet = self.host.send(time, kind, id_.req_tid, fields, id_)
        id_.said[kind] = packet
        cause = id_.heard.get("REQ" if not id_.active else "REP")
        if cause is not None:
            packet.answers = cause.first
            cause.first.answered = True

    def _start(self, time: float, id_: Id, packet: Packet) -> None:
        """Repeat this until it is answered or Max CM Retries is used up."""
        id_.said[packet.kind] = packet
        id_.sends = [packet]
        id_.longer = 0.0
        cause = id_.heard.get("REQ") if packet.kind == "REP" else None
        if cause is not None:
            packet.answers = cause.first
            cause.first.answered = True
        self._plan_next(time, id_)

    def _plan_next(self, time: float, id_: Id) -> None:
        id_.turn += 1
        wait = id_.longer or id_.wait
        self.plan.at(time + wait + self.host.rng.uniform(0, TIMER_LAG), self._timeout, id_, id_.turn)

    def _stop(self, id_: Id) -> None:
        id_.turn += 1

    def _timeout(self, time: float, id_: Id, turn: int) -> None:
        if turn != id_.turn or not self.alive:
            return
        if len(id_.sends) <= id_.retries:
            id_.sends.append(self.host.again(time, id_.sends[0]))
            self._plan_next(time, id_)
            return
        self.truth.exhausted(time, id_)
        if id_.state == "DREQ_SENT":
            self._rest(time, id_)
        elif self.habits.illumos:
            rejected = 0 if id_.active else 1
            fields: dict[str, int | bytes] = {
                **self._ids(id_),
                "reason": TIMEOUT,
                "message_rejected": rejected,
                "reject_info_length": 8,
                "additional_reject_info": self.host.guid.to_bytes(8, "big"),
            }
            self._say(time, id_, "REJ", fields)
            self._idle(time, id_)
        else:
            self._idle(time, id_)
        id_.consumer.ended(time, id_, "timed out")

    def _note(self, time: float, id_: Id, packet: Packet) -> None:
        id_.heard[packet.kind] = packet
        id_.heard_at.setdefault(packet.kind, time)

    def _learn(self, id_: Id, comm_id: int, qpn: int, guid: int) -> None:
        id_.remote, id_.peer_qpn, id_.peer_guid = comm_id, qpn, guid
        self.by_remote[comm_id, guid] = id_
        self.by_qpn[qpn, guid] = id_

    def _forget(self, id_: Id) -> None:
        for table, key in ((self.by_remote, id_.remote), (self.by_qpn, id_.peer_qpn)):
            if table.get((key, id_.peer_guid)) is id_:
                del table[key, id_.peer_guid]

    def _idle(self, time: float, id_: Id) -> None:
        self._stop(id_)
        self._forget(id_)
        id_.enter(time, "IDLE")
        if id_.use is not None:
            id_.use.free = True

    def _rest(self, time: float, id_: Id) -> None:
        """Into timewait."""
        self._stop(id_)
        self._forget(id_)
        id_.enter(time, "TIMEWAIT")
        if id_.use is not None:
            id_.use.closed, id_.use.timewait, id_.use.free = time, TIMEWAIT, True
            if id_.other is not None and "ESTABLISHED" in id_.other.since:
                id_.use.carried = True  # its peer could send already
        if id_.peer_guid:
            self.resting[id_.peer_qpn, id_.peer_guid] = id_, time + TIMEWAIT
        self.plan.at(time + TIMEWAIT, self._rested, id_)

    def _rested(self, time: float, id_: Id) -> None:
        if id_.state == "TIMEWAIT":
            id_.enter(time, "IDLE")

    def _ids(self, id_: Id) -> dict[str, int | bytes]:
        return {"local_comm_id": id_.local, "remote_comm_id": id_.remote}

    def _active(self, local: int | None) -> Id | None:
        """The newest active id with this Communication ID that is still something."""
        for id_ in reversed(self.ids):
            if id_.active and id_.local == local and id_.state not in ("IDLE", "DEAD"):
                return id_
        return None

    def _by_both(self, fields: Rtu | Mra | Rej | Dreq | Drep) -> Id | None:
        for id_ in reversed(self.ids):
            if id_.local == fields.remote_comm_id and id_.remote == fields.local_comm_id:
                return None if id_.state in ("IDLE", "DEAD") else id_
        return None


def allowed(response_timeout: int) -> float:
    """How long (s) the passive side may take to answer a REQ, by the most generous reading."""
    return (exponent(response_timeout) + 2 * exponent(ACK_TIMEOUT - 1)) / SECOND
