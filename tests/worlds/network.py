"""The network: packets that are lost, doubled, late; and the ports that they go to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from ibcmtool.messages import Fields
from worlds.plan import Plan

if TYPE_CHECKING:
    from worlds.host import Boot, Host
    from worlds.ids import Id

FIRST_HOP = 10e-6  # seconds from a host to a tap at its own port
QUICKEST, SLOWEST = 50e-6, 4e-3  # from host to host


@dataclass(eq=False, slots=True)
class Packet:
    """One packet on its way. A retransmission is another one, with the same `first`."""

    kind: str  # a CM message, DATA or ARP
    sender: Boot
    id: Id | None  # the connection that it was sent for; None: stateless
    destination: bytes  # IP address
    destination_mac: bytes
    sent: float
    psn: int = 0
    tid: int = 0
    mad: bytes = b""
    fields: Fields = None  # type: ignore[assignment]
    qpn: int = 0  # destination of data
    answers: Packet | None = None  # what its sender answers with it
    first: Packet = None  # type: ignore[assignment]
    source: bytes = b""  # IP address
    arrived: list[tuple[float, Boot]] = field(default_factory=list)
    answered: bool = False  # of a `first`: some answer to it was sent, whether it arrived or not

    def __post_init__(self) -> None:
        self.first = self.first or self
        self.source = self.sender.host.ip


Watcher = Callable[[float, Packet, "Host | None"], None]  # a tap: when, what, and at whose port (None: between hosts)


@dataclass
class Conditions:
    """What happens to packets on the way."""

    loss: float = 0.0
    doubled: float = 0.0  # share that arrives twice
    late: float = 0.0  # share that takes seconds
    before_tap: float = 0.5  # share of the losses that a tap between the hosts does not see

    @classmethod
    def drawn(cls, rng: Random) -> Conditions:
        return cls(
            loss=rng.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
            doubled=rng.choice((0.0, 0.0, 0.0, 0.05)),
            late=rng.choice((0.0, 0.0, 0.0, 0.02)),
        )


class Network:
    """Carries packets to the host whose MAC address they name."""

    def __init__(self, plan: Plan, rng: Random, conditions: Conditions) -> None:
        self.plan, self.rng, self.conditions = plan, rng, conditions
        self.ports: dict[bytes, Host] = {}  # by MAC address
        self.holders: dict[bytes, Host] = {}  # who has an IP address
        self.watchers: list[Watcher] = []
        self.packets: list[Packet] = []  # all that were ever sent

    def carry(self, packet: Packet) -> None:
        """Put it on its way."""
        conditions, rng = self.conditions, self.rng
        self.packets.append(packet)
        self._seen(packet.sent + FIRST_HOP, packet, packet.sender.host)
        way = rng.uniform(QUICKEST, SLOWEST)
        if rng.random() < conditions.late:
            way += rng.choice((0.05, rng.uniform(0.1, 9.0)))
        lost = rng.random() < conditions.loss
        if not (lost and rng.random() < conditions.before_tap):
            self._seen(packet.sent + way / 2, packet, None)
        if not lost:
            self.plan.at(packet.sent + way, self._arrive, packet)
            if rng.random() < conditions.doubled:
                again = way + rng.choice((1e-3, rng.uniform(0.001, 5.0)))
                self._seen(packet.sent + again - way / 2, packet, None)
                self.plan.at(packet.sent + again, self._arrive, packet)

    def announce(self, time: float, host: Host) -> None:
        """Gratuitous ARP: everybody hears it."""
        packet = Packet("ARP", host.boot, None, host.ip, host.mac, time)
        for place in (None, *self.ports.values()):
            self._seen(time + FIRST_HOP, packet, place)

    def _arrive(self, time: float, packet: Packet) -> None:
        host = self.ports.get(packet.destination_mac)
        if host is None or not host.up:
            return
        self._seen(time, packet, host)
        if packet.destination == host.ip:
            packet.arrived.append((time, host.boot))
            host.receive(time, packet)

    def _seen(self, time: float, packet: Packet, host: Host | None) -> None:
        for watcher in self.watchers:
            watcher(time, packet, host)
