"""What a CM keeps and sends: its tables, its timers, and what consumers ask it for (ib_cm under rdma_cm of Linux)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibcmtool.connections.timers import SECOND, linux
from worlds.host import Use
from worlds.ids import (
    ACK_SCALE,
    ACK_TIMEOUT,
    CONSUMER,
    EXTENDED,
    PACKET_LIFE,
    SIDR_WAIT,
    TIMEOUT,
    TIMER_LAG,
    TIMEWAIT,
    XRC,
    Asked,
    Consumer,
    Habits,
    Id,
)
from worlds.network import Packet

if TYPE_CHECKING:
    from worlds.host import Host


class CmBase:
    """The CM of one life of a host."""

    def __init__(self, host: Host, habits: Habits) -> None:
        self.host, self.habits = host, habits
        self.plan, self.truth = host.network.plan, host.truth
        self.alive = True
        self.ids: list[Id] = []
        self.servers: dict[int, Consumer] = {}  # by service id
        self.asked: dict[int, Asked] = {}  # SIDR requests without an answer, by Request ID
        self.by_remote: dict[tuple[int, int], Id] = {}  # remote comm id, CA GUID
        self.by_qpn: dict[tuple[int, int], Id] = {}  # remote QPN, CA GUID
        self.resting: dict[tuple[int, int], tuple[Id, float]] = {}  # remote QPNs in this CM's timewait, and until when

    # -- what consumers ask for ------------------------------------------------------------------------------------

    def connect(
        self, time: float, consumer: Consumer, target: Host, service: int, use: Use | None = None, *, xrc: bool = False
    ) -> Id:
        """Look up the target's address, make a QP, and send the REQ."""
        host = self.host
        holder = host.network.holders[target.ip]
        local = host.next_comm_id()
        tid = host.tid(time, "REQ", local)
        id_ = Id(self, True, "REQ_SENT", consumer, local, target.ip, holder.mac, tid, service=service, xrc=xrc)
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
            **({"transport_service_type": EXTENDED, "extended_transport_type": XRC} if xrc else {}),
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
            "local_eecn" if id_.xrc else "local_qpn": id_.use.qpn,
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

    def load_path(self, time: float, id_: Id, sends: int = 1) -> None:
        """LAP, repeated until it is answered."""
        if id_.state != "ESTABLISHED" or not self.alive or "APR" in id_.heard:
            return
        fields: dict[str, int | bytes] = {
            **self._ids(id_),
            "remote_qpn": id_.peer_qpn,
            "remote_cm_response_timeout": self.habits.response_timeout,
            "alternate_local_lid": self.host.ip[-1],
            "alternate_remote_lid": id_.peer_ip[-1],
        }
        if "LAP" in id_.said:
            self.host.again(time, id_.said["LAP"])
        else:
            id_.said["LAP"] = self.host.send(time, "LAP", self.host.tid(time, "LAP", id_.local), fields, id_)
        if sends <= id_.retries:
            self.plan.at(time + id_.wait, self.load_path, id_, sends + 1)

    def resolve(self, time: float, target: Host, service: int) -> None:
        """SIDR_REQ, repeated until it is answered: which QPN has a datagram service?"""
        host, local = self.host, self.host.next_comm_id()
        mac = host.network.holders[target.ip].mac
        asked = Asked(host.tid(time, "SIDR_REQ", local), target.ip, mac)
        fields: dict[str, int | bytes] = {"request_id": local, "service_id": service}
        self.asked[local] = asked
        asked.packet = host.send(time, "SIDR_REQ", asked.tid, fields, asked)
        self.plan.at(time + SIDR_WAIT, self._ask_again, local, 1)

    def _ask_again(self, time: float, local: int, sends: int) -> None:
        if local in self.asked and self.alive and sends <= self.habits.max_cm_retries:
            self.host.again(time, self.asked[local].packet)
            self.plan.at(time + SIDR_WAIT, self._ask_again, local, sends + 1)

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
            self.truth.died(time, id_)
            if id_.state not in ("IDLE", "TIMEWAIT"):
                id_.enter(time, "DEAD")

    # -- the parts of it -------------------------------------------------------------------------------------------

    def _drep(self, time: float, id_: Id, packet: Packet) -> None:
        drep = self.host.send(time, "DREP", packet.tid, self._ids(id_), id_)
        drep.answers = packet.first
        packet.first.answered = True

    def _dreq(self, time: float, id_: Id) -> Packet:
        fields: dict[str, int | bytes] = {**self._ids(id_), "remote_qpn": id_.peer_qpn + self.habits.wrong_qpn}
        tid = self.host.tid(time, "DREQ", id_.local)
        packet = id_.said["DREQ"] = self.host.send(time, "DREQ", tid, fields, id_)
        if self.habits.wrong_qpn:
            self.truth.add("T05", time, self.host, [packet], "a DREQ that names another QPN than the peer's")
        return packet

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
        wait = id_.longer or id_.wait * self.habits.hurry
        self.plan.at(time + wait + self.host.rng.uniform(0, TIMER_LAG), self._timeout, id_, id_.turn)

    def _stop(self, id_: Id) -> None:
        id_.turn += 1

    def _timeout(self, time: float, id_: Id, turn: int) -> None:
        if turn != id_.turn or not self.alive:
            return
        if len(id_.sends) <= id_.retries + self.habits.extra_sends:
            id_.sends.append(self.host.again(time, id_.sends[0]))
            self.truth.sent_again(time, id_)
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
