"""Conversations between two CMs, written down as they are read, for tests of the tracker and of the rules.

    talk = Conversation()
    req = talk.active(0.000, "REQ", qpn=0x11)
    talk.passive(0.010, "REP")
    talk.active(0.020, "RTU")
    connections, findings = run(talk)

Times are seconds since the first day of the test world. Whatever a real CM would fill in is filled in (ids, GUIDs,
QPNs, TransactionIDs the Linux way); any field of the layer can be given by its name, and so can what surrounds the
fields: `tid`, `psn`, `file`, `frame`, `icrc_ok`, `cut` (captured bytes of the MAD), `link_type` and `headers` (bytes in
front of the MAD; none otherwise). The bytes are built by the layers and read back by the readers, so `fields` is what
the decoder would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from dissectors.cm import CM_LAYERS
from dissectors.fields import gid_bytes
from dissectors.mad import CM_ATTRIBUTES, MAD
from ibcmtool.analysis import Finding, InputInfo, Policy
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Sink
from ibcmtool.model import PEER, Connection, Event, Role, TimewaitModel
from ibcmtool.packets import Address, CmMessage, DataPacket, Neighbour, Transport, Undelivered
from ibcmtool.views.attempts import Attempts, Grouping
from ibcmtool.wire.readers import read_message

SECOND = 1_000_000_000
FIRST_DAY = 1_700_000_000 * SECOND  # what time 0 of a conversation is
ATTRIBUTES = {name: number for number, name in CM_ATTRIBUTES.items()}
MAD_HEADER = 24
SERVICE = 0x0000000001061C06  # RDMA TCP port 7174
ENVELOPE = ("tid", "psn", "file", "frame", "icrc_ok", "cut", "link_type", "headers")
LOCAL_QPN, REMOTE_QPN = "local_qpn", "remote_qpn"  # what `qpn=` means
QPN_FIELD = {"REQ": LOCAL_QPN, "REP": LOCAL_QPN, "DREQ": REMOTE_QPN, "LAP": REMOTE_QPN, "SIDR_REP": "qpn"}


class Host:
    """A CA with one port: its QP1 PSN counts up, its Communication IDs as a little-endian Linux host counts them.

    `address` is an IPv4 or IPv6 address (RoCE v2), or with `lid` a LID without any GRH (InfiniBand).
    """

    def __init__(
        self,
        address: str = "10.0.0.1",
        guid: int | None = None,
        *,
        lid: int | None = None,
        psn: int = 0,
        first_comm_id: int | None = None,
        tid_high: int = 2,
    ) -> None:
        self.gid = gid_bytes(address)
        self.address = Address(lid=lid) if lid is not None else Address(gid=self.gid)
        self.transport: Transport = "InfiniBand" if lid is not None else "RoCE v2"
        self.guid = 0x5054_00FF_FEAA_0000 | self.gid[-1] if guid is None else guid
        self.psn = psn
        self.tid_high = tid_high
        self._comm_id = 0x01F7_A000 | self.gid[-1] if first_comm_id is None else first_comm_id
        self._qpn = 0x100

    def next_psn(self) -> int:
        self.psn = (self.psn + 1) % (1 << 24)
        return (self.psn - 1) % (1 << 24)

    def next_comm_id(self) -> int:
        """Linux counts in host order: on the wire it is the first byte that grows."""
        given = self._comm_id
        self._comm_id = (given + (1 << 24)) % (1 << 32)
        return given

    def next_qpn(self) -> int:
        self._qpn += 1
        return self._qpn

    def own_tid(self, comm_id: int) -> int:
        """The TransactionID of a REQ or DREQ: the agent's number, and the Communication ID as this host sees it."""
        return self.tid_high << 32 | int.from_bytes(comm_id.to_bytes(4, "big"), "little")


class Conversation:
    """One connection's messages. `another()` opens a second one that goes into the same capture."""

    def __init__(
        self,
        active: Host | None = None,
        passive: Host | None = None,
        *,
        active_qpn: int | None = None,
        passive_qpn: int | None = None,
        service_id: int = SERVICE,
        capture: list[CmMessage | DataPacket] | None = None,
    ) -> None:
        self.hosts: dict[Role, Host] = {"active": active or Host("10.0.0.1"), "passive": passive or Host("10.0.0.2")}
        self.comm_ids: dict[Role, int] = {role: host.next_comm_id() for role, host in self.hosts.items()}
        self.qpns: dict[Role, int] = {
            "active": active_qpn or self.hosts["active"].next_qpn(),
            "passive": passive_qpn or self.hosts["passive"].next_qpn(),
        }
        self.service_id = service_id
        self.capture: list[CmMessage | DataPacket] = [] if capture is None else capture
        self._said: list[tuple[Role, CmMessage]] = []

    def another(self, active: Host | None = None, passive: Host | None = None, **options: Any) -> Conversation:
        """A further connection in the same capture: of the same hosts unless others are given, with ids of its own."""
        return Conversation(
            active or self.hosts["active"], passive or self.hosts["passive"], capture=self.capture, **options
        )

    # -- saying something ------------------------------------------------------------------------------------------

    def active(self, time: float, kind: str, **given: Any) -> CmMessage:
        """A message from the active side."""
        return self._say("active", time, kind, given)

    def passive(self, time: float, kind: str, **given: Any) -> CmMessage:
        """A message from the passive side."""
        return self._say("passive", time, kind, given)

    def again(self, time: float, earlier: CmMessage, **envelope: Any) -> CmMessage:
        """A retransmission: the same MAD in a new packet."""
        host = next(host for host in self.hosts.values() if host.address == earlier.source)
        return self._record(replace(earlier, time=_ns(time), psn=host.next_psn(), frame=self._frame(), **envelope))

    def copy(self, time: float, earlier: CmMessage, **envelope: Any) -> CmMessage:
        """The very same packet, captured once more."""
        return self._record(replace(earlier, time=_ns(time), frame=self._frame(), **envelope))

    def data(self, time: float, sender: Role, *, file: int = 0) -> DataPacket:
        """An RC packet to the other end's QP."""
        receiver = PEER[sender]
        addresses = (self.hosts[sender].address, self.hosts[receiver].address)
        packet = DataPacket(file, self._frame(), _ns(time), *addresses, self.qpns[receiver])
        self.capture.append(packet)
        return packet

    def establish(self, time: float = 0.0, **req: Any) -> tuple[CmMessage, CmMessage, CmMessage]:
        """REQ, REP, RTU within 20 ms."""
        return (
            self.active(time, "REQ", **req),
            self.passive(time + 0.01, "REP"),
            self.active(time + 0.02, "RTU"),
        )

    def close(self, time: float, by: Role = "active") -> tuple[CmMessage, CmMessage]:
        """DREQ and DREP within 10 ms."""
        return self._say(by, time, "DREQ", {}), self._say(PEER[by], time + 0.01, "DREP", {})

    def repeat(self, message: CmMessage, every: float, count: int) -> list[CmMessage]:
        """`count` retransmissions at equal distances."""
        start = (message.time - FIRST_DAY) / SECOND
        return [self.again(start + every * (number + 1), message) for number in range(count)]

    # -- what a CM fills in ----------------------------------------------------------------------------------------

    def _say(self, sender: Role, time: float, kind: str, given: dict[str, Any]) -> CmMessage:
        envelope = {name: given.pop(name) for name in ENVELOPE if name in given}
        if "qpn" in given and kind in QPN_FIELD:
            given[QPN_FIELD[kind]] = given.pop("qpn")
        if QPN_FIELD.get(kind) == LOCAL_QPN and LOCAL_QPN in given:
            self.qpns[sender] = given[LOCAL_QPN]
        fields = {**self._usual(sender, kind, given), **given}
        tid = envelope.pop("tid", None)
        tid = self._tid(sender, kind) if tid is None else tid
        cut = envelope.pop("cut", None)
        mad = bytes(MAD(tid=tid, attribute_id=ATTRIBUTES[kind]) / CM_LAYERS[kind](**fields))[:cut]
        host, peer = self.hosts[sender], self.hosts[PEER[sender]]
        message = CmMessage(
            file=0,
            frame=self._frame(),
            time=_ns(time),
            type=kind,
            source=host.address,
            destination=peer.address,
            transport=host.transport,
            psn=None,
            tid=tid,
            fields=_read(kind, mad),
            mad=mad,
            icrc_ok=True,
        )
        if "psn" not in envelope:
            envelope["psn"] = host.next_psn()
        message = replace(message, **envelope)
        self._said.append((sender, message))
        return self._record(message)

    def _usual(self, sender: Role, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        """What Linux would put into the fields of a message that this role sends now."""
        host, peer = self.hosts[sender], self.hosts[PEER[sender]]
        local, remote = self.comm_ids[sender], self.comm_ids[PEER[sender]]
        if kind == "REQ":
            return {
                "local_comm_id": local,
                "service_id": self.service_id,
                "local_ca_guid": host.guid,
                "local_qpn": self.qpns[sender],
                "starting_psn": 0x1234,
                "primary_local_gid": host.gid,
                "primary_remote_gid": peer.gid,
            }
        if kind == "SIDR_REQ":
            return {"request_id": self.comm_ids["active"], "service_id": self.service_id}
        if kind == "SIDR_REP":
            return {"request_id": self.comm_ids["active"], "qpn": self.qpns[sender]}
        ids = {"local_comm_id": local, "remote_comm_id": remote}
        if kind == "REP":
            return {**ids, "local_ca_guid": host.guid, "local_qpn": self.qpns[sender]}
        if kind == "MRA":
            return {**ids, "message_mraed": 0 if sender == "passive" else 1, "service_timeout": 24}
        if kind in ("DREQ", "LAP"):
            return {**ids, "remote_qpn": self.qpns[PEER[sender]]}
        if kind == "REJ":
            return {**ids, **self._usual_rej(sender, given.get("reason", 28))}
        return ids

    def _usual_rej(self, sender: Role, reason: int) -> dict[str, Any]:
        replied = any(message.type == "REP" for _, message in self._said)
        fields: dict[str, Any] = {"reason": reason}
        if sender == "passive" and not replied:
            fields |= {"local_comm_id": 0, "message_rejected": 0}
        else:
            fields["message_rejected"] = 1 if sender == "active" and replied else 2
        if reason == 4:
            fields |= {"additional_reject_info": self.hosts[sender].guid.to_bytes(8, "big"), "message_rejected": 2}
            if not replied:
                fields["remote_comm_id"] = 0
        return fields

    def _tid(self, sender: Role, kind: str) -> int:
        """REQ and DREQ have their sender's own TransactionID; a DREP has its DREQ's, all others the REQ's."""
        if kind == "DREQ":
            return self.hosts[sender].own_tid(self.comm_ids[sender])
        if kind == "DREP":
            for other, message in reversed(self._said):
                if other != sender and message.type == "DREQ":
                    return message.tid
        return self.hosts["active"].own_tid(self.comm_ids["active"])

    def _frame(self) -> int:
        return len(self.capture) + 1

    def _record(self, message: CmMessage) -> CmMessage:
        self.capture.append(message)
        return message


def _ns(time: float) -> int:
    return FIRST_DAY + round(time * SECOND)


def _read(kind: str, mad: bytes) -> Any:
    return read_message(kind, mad[MAD_HEADER:])


class Result(NamedTuple):
    connections: list[Connection]
    findings: list[Finding]

    @property
    def codes(self) -> list[str]:
        return sorted({finding.code for finding in self.findings})

    def of(self, code: str) -> list[Finding]:
        """The findings of one rule, in the order in which they came."""
        return [finding for finding in self.findings if finding.code == code]

    def only(self, code: str) -> Finding:
        """The one finding of this rule."""
        found = self.of(code)
        assert len(found) == 1, [f"{finding.code}: {finding.message}" for finding in self.findings]
        return found[0]


def attempts_of(connections: Iterable[Connection]) -> list[Attempts]:
    """The groups among these connections."""
    grouping = Grouping()
    for connection in connections:
        grouping.add(connection)
    return grouping.groups()


class Records(Sink):
    """Remembers all that an engine hands out; the findings that concern whole inputs apart."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self.events: list[Event] = []
        self.findings: list[Finding] = []
        self.of_inputs: list[Finding] = []
        self.inputs: list[InputInfo] = []

    def event(self, event: Event) -> None:
        self.connections[event.connection.id] = event.connection
        self.events.append(event)

    def finding(self, finding: Finding, event: Event | None) -> None:
        (self.of_inputs if event is None else self.findings).append(finding)

    def input(self, info: InputInfo) -> None:
        self.inputs.append(info)

    def result(self) -> Result:
        return Result([self.connections[number] for number in sorted(self.connections)], self.findings)


def run(
    said: Conversation | Iterable[CmMessage | DataPacket | Neighbour | Undelivered],
    policy: Policy = "relaxed",
    model: TimewaitModel = "auto",
    *,
    until: float | None = None,
    in_order: bool = True,
) -> Result:
    """What the engine makes of it; the capture goes on until `until` (seconds). in_order: of time, not as it is."""
    items = list(said.capture if isinstance(said, Conversation) else said)
    if in_order:
        items.sort(key=lambda item: item.time)
    records = Records()
    engine = Engine(inputs_of(items), records, policy, model)
    for item in items:
        engine.take(item)
    if until is not None:
        engine.advance(_ns(until))
    engine.finish()
    return records.result()


def inputs_of(items: Iterable[CmMessage | DataPacket | Neighbour | Undelivered]) -> list[InputInfo]:
    """The inputs that these came from."""
    return [InputInfo(f"{number}.pcap") for number in range(max((item.file for item in items), default=0) + 1)]
