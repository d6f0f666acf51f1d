"""Taps: where a capture is made, and what it loses, delays and cuts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from conversation import FIRST_DAY, SECOND
from recordings import Recording

from ibcmtool.packets import Address, CmMessage, DataPacket, Neighbour
from worlds import mads
from worlds.host import Host
from worlds.network import Packet

Item = CmMessage | DataPacket | Neighbour
IPV4 = bytes(10) + b"\xff\xff"
Direction = Literal["both", "from", "to"]


@dataclass
class Flaws:
    """What is wrong with a capture."""

    drops: float = 0.0  # share of the frames that are missing
    disorder: float = 0.0  # s; a frame may be stamped that much too late
    cut: int = 256  # bytes kept of a MAD
    direction: Direction = "both"  # of the packets at the tapped host: only those from it, or to it
    begins: float = 0.0
    ends: float | None = None
    step: tuple[float, float] | None = None  # at that time the clock is set, by so much
    ahead: float = 0.0  # the clock, all the time

    @property
    def none(self) -> bool:
        """Whether the capture is complete and right."""
        return self == Flaws(ahead=self.ahead)

    @classmethod
    def drawn(cls, rng: Random, last: float) -> Flaws:
        if rng.random() < 0.4:
            return cls()
        flaws = cls()
        flaws.drops = rng.choice((0.0, 0.0, 0.0, 0.02, 0.1))
        flaws.disorder = rng.choice((0.0, 0.0, 0.001, 0.02, 0.05))
        flaws.cut = rng.choice((256, 256, 256, 256, 24 + rng.randrange(12, 232)))
        flaws.direction = rng.choice(("both", "both", "both", "both", "both", "from", "to"))
        flaws.begins = rng.choice((0.0, 0.0, rng.uniform(0, last)))
        flaws.ends = rng.choice((None, None, rng.uniform(flaws.begins, last)))
        if rng.random() < 0.1:
            flaws.step = rng.uniform(0, last), rng.choice((-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0))
        return flaws


@dataclass
class Tap:
    """A capture at a host's port, or (None) between all hosts."""

    file: int
    place: Host | None
    roce: bool
    seen: list[tuple[float, Packet]] = field(default_factory=list)
    shown: dict[int, Packet] = field(default_factory=dict)  # by frame number

    def watch(self, time: float, packet: Packet, host: Host | None) -> None:
        if host is self.place:
            self.seen.append((time, packet))

    def recording(self, flaws: Flaws, rng: Random, end: float, keep: list[bool] | None = None) -> Recording:
        """What the capture holds, in the order of its frames."""
        ends = end if flaws.ends is None else flaws.ends
        stamped = []
        for time, packet in self.seen:
            dropped, late = rng.random() < flaws.drops, rng.uniform(0, flaws.disorder)
            outward = self.place is None or packet.sender.host is self.place
            if flaws.direction != "both" and outward != (flaws.direction == "from"):
                continue
            if not dropped and flaws.begins <= time <= ends:
                stamped.append((time + late, packet))
        stamped.sort(key=lambda each: each[0])
        items: list[Item] = []
        for time, packet in stamped:
            number = len(items) + 1
            items.append(self._item(self._by_clock(time, flaws), number, packet, flaws.cut))
            self.shown[number] = packet
        start, stop = self._by_clock(flaws.begins, flaws), self._by_clock(ends, flaws)
        return Recording(items, start, stop)  # type: ignore[arg-type]

    def _by_clock(self, time: float, flaws: Flaws) -> float:
        step = flaws.step[1] if flaws.step is not None and time >= flaws.step[0] else 0.0
        return time + flaws.ahead + step

    def _item(self, time: float, number: int, packet: Packet, cut: int) -> Item:
        when = FIRST_DAY + round(time * SECOND)
        source, destination = self._address(packet.source), self._address(packet.destination)
        if packet.kind == "ARP":
            return Neighbour(self.file, number, when, source, packet.destination_mac, ())
        if packet.kind == "DATA":
            return DataPacket(self.file, number, when, source, destination, packet.qpn)
        content, fields = packet.mad, packet.fields
        if cut < len(content):
            content = content[:cut]
            fields = mads.read(packet.kind, content)
        message = CmMessage(
            *(self.file, number, when, packet.kind, source, destination),
            "RoCE v2" if self.roce else "InfiniBand",
            *(packet.psn, packet.tid, fields, content, True if cut >= 256 else None),
        )
        if self.roce:
            message.link_type = mads.ETHERNET
            message.headers = mads.headers(
                *(packet.sender.host.mac, packet.destination_mac, packet.source, packet.destination, packet.psn)
            )
        return message

    def _address(self, ip: bytes) -> Address:
        return Address(gid=IPV4 + ip) if self.roce else Address(lid=ip[-1])
