"""A CM that behaves as Linux does, and how it reacts to what comes from the network."""

from __future__ import annotations

from ibcmtool.connections.timers import SECOND, linux
from ibcmtool.messages import Apr, Drep, Dreq, Lap, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq
from worlds.cm_base import CmBase
from worlds.ids import ACK_TIMEOUT, EXTENDED, MRA_TIMEOUT, NO_SERVICE, STALE, TIMEOUT, Id
from worlds.network import Packet


class Cm(CmBase):
    """The CM of one life of a host. What a message does on arrival follows the handlers of Linux's cm.c."""

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
        elif isinstance(fields, Lap):
            id_ = self._by_both(fields)
            if id_ is not None and id_.state == "ESTABLISHED":
                self.host.send(time, "APR", packet.tid, self._ids(id_), id_)
        elif isinstance(fields, Apr):
            id_ = self._by_both(fields)
            if id_ is not None:
                self._note(time, id_, packet)
        elif isinstance(fields, SidrReq):
            known = fields.service_id in self.servers
            answer = {"request_id": fields.request_id or 0, "service_id": fields.service_id or 0}
            self.host.send(time, "SIDR_REP", packet.tid, answer | ({"qpn": 0x99} if known else {"status": 1}), packet)
        elif isinstance(fields, SidrRep):
            self.asked.pop(fields.request_id or 0, None)
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
        id_.xrc = fields.transport_service_type == EXTENDED
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
        qpn = fields.local_eecn or 0 if id_.xrc else fields.local_qpn
        if id_.state in ("REQ_SENT", "MRA_REQ_RCVD"):
            holder = self.by_qpn.get((qpn, fields.local_ca_guid))
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
            self._learn(id_, fields.local_comm_id, qpn, fields.local_ca_guid)
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
        if id_.state == "TIMEWAIT" and self.habits.deaf_in_timewait:
            self.truth.add("T06", time, self.host, [packet], "does not answer a DREQ that came again")
        elif id_.state == "TIMEWAIT":
            self._drep(time, id_, packet)
        elif id_.state in ("REP_SENT", "ESTABLISHED", "DREQ_SENT"):
            self._note(time, id_, packet)
            self._stop(id_)
            id_.enter(time, "DREQ_RCVD")
            self.plan.at(time + self.host.rng.choice((1e-4, 0.01)), self._answer_dreq, id_, packet)

    # -- the parts of it ---------------------------------------------------------------------------------------------

    def _answer_dreq(self, time: float, id_: Id, packet: Packet) -> None:
        if id_.state != "DREQ_RCVD" or not self.alive:
            return
        self._drep(time, id_, packet)
        self._rest(time, id_)
        id_.consumer.ended(time, id_, "closed")

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

    def _active(self, local: int | None) -> Id | None:
        """The newest active id with this Communication ID that is still something."""
        for id_ in reversed(self.ids):
            if id_.active and id_.local == local and id_.state not in ("IDLE", "DEAD"):
                return id_
        return None

    def _by_both(self, fields: Rtu | Mra | Rej | Dreq | Drep | Lap | Apr) -> Id | None:
        for id_ in reversed(self.ids):
            if id_.local == fields.remote_comm_id and id_.remote == fields.local_comm_id:
                return None if id_.state in ("IDLE", "DEAD") else id_
        return None

    def _note(self, time: float, id_: Id, packet: Packet) -> None:
        id_.heard[packet.kind] = packet
        id_.heard_at.setdefault(packet.kind, time)

    def _learn(self, id_: Id, comm_id: int, qpn: int, guid: int) -> None:
        id_.remote, id_.peer_qpn, id_.peer_guid = comm_id, qpn, guid
        self.by_remote[comm_id, guid] = id_
        self.by_qpn[qpn, guid] = id_
