"""A host: a CA with one port, whose QP1 counts its packets, and what begins anew when it restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal

from worlds import mads
from worlds.network import Network, Packet

if TYPE_CHECKING:
    from worlds.cm import Cm
    from worlds.ids import Asked, Habits, Id
    from worlds.truth import Truth

Pool = Literal["counting", "patient", "hasty"]


@dataclass(eq=False, slots=True)
class Use:
    """One use of a QPN by its owner."""

    qpn: int
    since: float
    closed: float | None = None  # when its timewait began; None: it has none (yet)
    timewait: float = 0.0  # how long that lasts
    free: bool = False
    carried: bool = False  # it was connected: packets may be on their way to it


@dataclass(eq=False)
class Boot:
    """One life of a host, from a start of its driver to the next."""

    host: Host
    number: int
    since: float
    comm_id_base: int
    tid_agent: int
    uses: dict[int, list[Use]] = field(default_factory=dict)
    psn: int = 0
    until: float | None = None


class Host:
    """A machine with a CA. `boot` is its present life."""

    def __init__(
        self, network: Network, truth: Truth, rng: Random, number: int, habits: Habits, *, guid: int | None = None
    ) -> None:
        self.network, self.truth, self.rng, self.habits = network, truth, rng, habits
        self.number = number
        self.ip = bytes((10, 0, 0, number))
        self.mac = bytes((2, 0, 0, 0, 0, number))
        self.guid = 0x5054_00FF_FEAA_0000 | number if guid is None else guid
        self.pool: Pool = "counting"
        self.queries = 0.0  # chance that QP1 asks the subnet administrator between two CM messages
        self.up = True
        self._comm_ids = 0
        self._first_qpn = 0x100 + rng.randrange(64)
        self.boots: list[Boot] = []
        self.cm: Cm
        self.start(0.0)
        self.boot.psn = rng.choice((0, *(rng.randrange(1 << 24) for _ in range(5)), (1 << 24) - rng.randrange(20)))
        network.ports[self.mac] = self
        network.holders.setdefault(self.ip, self)

    @property
    def boot(self) -> Boot:
        return self.boots[-1]

    @property
    def gid(self) -> bytes:
        return bytes(10) + b"\xff\xff" + self.ip

    def start(self, time: float, *, reload: bool = False) -> None:
        """A reboot (without a word: power loss), or a reload of the driver: then the Communication IDs go on."""
        from worlds.cm import Cm

        base, agent = self.rng.randrange(1 << 32), self.rng.randrange(1, 60)
        if self.boots:
            self.boot.until = time
            self.cm.die(time)
            if reload:
                base, agent = self.boot.comm_id_base, self.boot.tid_agent + 2
            else:
                self._comm_ids = 0
            self.truth.restarted(time, self)
        self.boots.append(Boot(self, len(self.boots), time, base, agent))
        self.cm = Cm(self, self.habits)
        self.up = True

    def stop(self, time: float) -> None:
        """The power is off."""
        self.up = False
        self.cm.die(time)

    # -- what a CM takes from its host -----------------------------------------------------------------------------

    def next_comm_id(self) -> int:
        """Linux XORs a counter with a random number, in host order; a CM in user space may know one id only."""
        if self.habits.fixed_ids:
            return 0x1234
        self._comm_ids += 1
        host_order = self._comm_ids ^ self.boot.comm_id_base
        return int.from_bytes(host_order.to_bytes(4, "little"), "big")

    def tid(self, time: float, kind: str, comm_id: int) -> int:
        """Of a REQ or DREQ: the agent and the id as this host sees it, or as others number their requests."""
        if self.habits.illumos:
            clock = round((time - self.boot.since + 3600) * 1000) & 0xFFFFFFF
            return (clock << 4 | {"REQ": 0, "DREQ": 5}[kind]) << 32 | comm_id
        low = int.from_bytes(comm_id.to_bytes(4, "big"), "little")
        if self.habits.fixed_tids:
            low = {"REQ": 1, "DREQ": 2}.get(kind, 3)
        elif self.habits.fixed_ids:
            self._comm_ids += 1
            low = self._comm_ids
        return self.boot.tid_agent << 32 | low

    def take_qpn(self, time: float) -> Use:
        """A new QP. A patient pool recycles a QPN when its timewait is over, a hasty one at once."""
        qpn = None
        for candidate, uses in reversed(self.boot.uses.items()):
            last = uses[-1]
            rested = last.closed is None or time >= last.closed + 2.5 * last.timewait
            if last.free and (self.pool == "hasty" or (self.pool == "patient" and rested)):
                qpn = candidate
                break
        if qpn is None:
            qpn = self._first_qpn + len(self.boot.uses)
        use = Use(qpn, time)
        self.boot.uses.setdefault(qpn, []).append(use)
        return use

    def send(self, time: float, kind: str, tid: int, fields: dict[str, int | bytes], to: Packet | Id | Asked) -> Packet:
        """A new message, in answer to a packet or to the other end of a connection."""
        content = mads.mad(kind, tid, fields)
        if isinstance(to, Packet):
            id_, ip, mac = None, to.sender.host.ip, to.sender.host.mac
        else:
            id_, ip, mac = to if hasattr(to, "cm") else None, to.peer_ip, to.peer_mac
        packet = Packet(kind, self.boot, id_, ip, mac, time, tid=tid, mad=content, fields=mads.read(kind, content))
        if isinstance(to, Packet):
            packet.answers = to.first
            to.first.answered = True
        return self._post(packet)

    def again(self, time: float, packet: Packet) -> Packet:
        """The same MAD in a new packet."""
        assert packet.sender is self.boot
        return self._post(
            Packet(
                *(packet.kind, packet.sender, packet.id, packet.destination, packet.destination_mac, time),
                tid=packet.tid,
                mad=packet.mad,
                fields=packet.fields,
                answers=packet.answers,
                first=packet.first,
            )
        )

    def send_data(self, time: float, id_: Id) -> None:
        """A packet to the QP at the other end."""
        self.network.carry(Packet("DATA", self.boot, id_, id_.peer_ip, id_.peer_mac, time, qpn=id_.peer_qpn))

    def receive(self, time: float, packet: Packet) -> None:
        if packet.kind != "DATA":
            self.cm.receive(time, packet)

    def _post(self, packet: Packet) -> Packet:
        boot = self.boot
        while self.queries and self.rng.random() < self.queries:
            boot.psn += 1
        packet.psn = boot.psn % (1 << 24)
        boot.psn += 1
        self.network.carry(packet)
        return packet
