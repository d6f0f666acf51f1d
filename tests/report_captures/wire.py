"""Conversations (tests/conversation.py) put on a wire: every message becomes a whole frame, as Linux hosts send them.

    story = Story("01")
    host, target = Station("10.0.0.11", guid=0x11), Station("10.0.0.1", guid=0x22)
    admin = story.talk(host, target, services.nvme(0), port=47563)
    admin.establish(0)
    story.frames  # [(time in ns, bytes from the link layer on)]

What a kernel's timers do is in the constants. Times wobble a little, by a generator seeded with the story's name: the
same story always gives the same bytes.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from conversation import FIRST_DAY, SECOND, Conversation, Host
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

import dissectors.encapsulation  # noqa: F401  (binds the layers)
from dissectors.private_data import RDMA_IP_CM
from dissectors.recognition import GSI_Q_KEY, GSI_QPN
from dissectors.text import gid_text
from dissectors.transport import BTH, DETH, GRH, LRH
from ibcmtool.model import PEER, Role
from ibcmtool.packets import CmMessage, Transport

# What soft RoCE and mlx5 hosts show with response timeout 20 and packet life 18: 4.096 s + 2 * 1.024 s (REQ and the
# active side's DREQ), 4.096 s (REP and the passive side's DREQ), each rounded up to the next tick of the timer wheel.
REQ_GAP = 6.4
REP_GAP = 4.35
# The same with the response timeout of MLNX OFED, 22, and packet life 16: 16.384 s + 2 * 0.256 s.
OFED_GAP = 16.9
LATENCY = 40e-6  # from one host to the other
SEND_ONLY, ACKNOWLEDGE = 0x04, 0x11  # RC opcodes
ACK = bytes.fromhex("1f000001")  # AETH: unlimited credits, one message
NOISE = 90e-6  # no two events of a story are closer than this


def ns(seconds: float) -> int:
    """Seconds of a story as nanoseconds since the epoch; whole microseconds, as tcpdump stamps frames."""
    return FIRST_DAY + round(seconds * 1_000_000) * 1_000


class Service(NamedTuple):
    """What a consumer connects to, and what it puts into the private data."""

    service_id: int
    request: bytes = b""
    reply: bytes = b""
    ip_cm: bool = True  # the REQ's private data begin with the RDMA IP CM header


class Station(Host):
    """A host with one port on a wire. `packet_life` makes the Local ACK Timeout of its REQs (with equal ack delays)."""

    def __init__(
        self,
        address: str,
        guid: int,
        *,
        mac: str = "",
        transport: Transport = "RoCE v2",
        lid: int | None = None,
        vlan: int | None = None,
        packet_life: int = 18,
        **options: Any,
    ) -> None:
        super().__init__(address, guid, lid=lid, **options)
        self.ip = address
        self.mac = mac or f"b8:59:9f:{guid >> 16 & 0xFF:02x}:{guid >> 8 & 0xFF:02x}:{guid & 0xFF:02x}"
        self.transport = "InfiniBand" if lid is not None else transport
        self.lid, self.vlan = lid, vlan
        self.local_ack_timeout = packet_life + 1
        self.udp_port = 0xC000 | guid & 0x3FFF
        self.arp_cache: dict[bytes, str] = {}  # by GID; what is not in it is the peer's true MAC

    def next_comm_id(self) -> int:
        """Linux counts in host order, all 32 bits of it."""
        given = super().next_comm_id()
        following = int.from_bytes(given.to_bytes(4, "big"), "little") + 1
        self._comm_id = int.from_bytes((following & 0xFFFFFFFF).to_bytes(4, "little"), "big")
        return given

    def rebooted(self, **options: Any) -> Station:
        """The same machine after a reboot: PSN 0, other Communication IDs, the same QPNs again."""
        options = {"transport": self.transport, "lid": self.lid, "vlan": self.vlan, **options}
        base = int.from_bytes(Random(self.guid).randbytes(4), "big")
        return Station(self.ip, self.guid, mac=self.mac, first_comm_id=base, **options)


def envelope(sender: Station, receiver: Station, packet: Packet, *, udp_port: int, number: int) -> bytes:
    """The frame that carries `packet` (from the BTH on) from port to port."""
    if sender.transport == "InfiniBand":
        return bytes(LRH(slid=sender.lid, dlid=receiver.lid) / packet)
    link = Ether(src=sender.mac, dst=sender.arp_cache.get(receiver.gid, receiver.mac))
    if sender.vlan is not None:
        link /= Dot1Q(vlan=sender.vlan, prio=3)
    if sender.transport == "RoCE v1":
        return bytes(link / GRH(sgid=gid_text(sender.gid), dgid=gid_text(receiver.gid), hop_limit=1) / packet)
    network = (
        IPv6(src=sender.ip, dst=receiver.ip, hlim=64)
        if ":" in sender.ip
        else IP(src=sender.ip, dst=receiver.ip, id=number & 0xFFFF, flags="DF", ttl=64)
    )
    return bytes(link / network / UDP(sport=udp_port, dport=4791, chksum=0) / packet)


class Story:
    """The frames of one capture, in any order until `in_order`."""

    def __init__(self, name: str) -> None:
        self.rng = Random(name)
        self.frames: list[tuple[int, bytes]] = []

    def talk(self, active: Station, passive: Station, service: Service, **options: Any) -> Talk:
        return Talk(self, active, passive, service, **options)

    def add(self, time_ns: int, frame: bytes) -> None:
        self.frames.append((time_ns, frame))

    def noise(self) -> float:
        return self.rng.random() * NOISE

    def in_order(self) -> list[tuple[int, bytes]]:
        return sorted(self.frames, key=lambda frame: frame[0])

    def arp(self, time: float, sender: Station, target: Station, *, reply_to: Station | None = None) -> None:
        """Who has `target`? Or, with `reply_to`, the answer of `sender` to that host."""
        operation, hardware = ("is-at", reply_to.mac) if reply_to else ("who-has", "00:00:00:00:00:00")
        link = Ether(src=sender.mac, dst=reply_to.mac if reply_to else "ff:ff:ff:ff:ff:ff")
        arp = ARP(op=operation, hwsrc=sender.mac, psrc=sender.ip, hwdst=hardware, pdst=target.ip)
        self.add(ns(time + self.noise()), bytes(link / arp).ljust(60, b"\0"))


class Talk(Conversation):
    """A Conversation whose messages and data packets go into a story as frames."""

    hosts: dict[Role, Station]  # type: ignore[assignment]

    def __init__(
        self, story: Story, active: Station, passive: Station, service: Service, *, port: int = 0, **options: Any
    ) -> None:
        super().__init__(active, passive, service_id=service.service_id, **options)
        self.story, self.service, self.port = story, service, port
        self._rc_psn: dict[Role, int] = {}

    # -- CM messages -----------------------------------------------------------------------------------------------

    def _say(self, sender: Role, time: float, kind: str, given: dict[str, Any]) -> CmMessage:
        message = super()._say(sender, time + self.story.noise(), kind, given)
        if kind in ("REQ", "REP"):
            self._rc_psn[sender] = message.fields.starting_psn
        return message

    def again(self, time: float, earlier: CmMessage, **envelope: Any) -> CmMessage:
        return super().again(time + self.story.noise(), earlier, **envelope)

    def repeat(self, message: CmMessage, every: float, count: int) -> list[CmMessage]:
        """As a busy host's timers fire: at the tick or a few milliseconds late."""
        sent, found = message, []
        for _ in range(count):
            time = (sent.time - FIRST_DAY) / SECOND + every + self.story.rng.uniform(-0.008, 0.012)
            sent = self.again(time, message)
            found.append(sent)
        return found

    def damaged(self, time: float, sender: Role, kind: str, flip: int, **given: Any) -> CmMessage:
        """A message one bit of which was turned over on the way: bit 0 of byte `flip` of its frame."""
        message = self._say(sender, time, kind, given)
        time_ns, frame = self.story.frames[-1]
        self.story.frames[-1] = (time_ns, frame[:flip] + bytes([frame[flip] ^ 1]) + frame[flip + 1 :])
        return message

    def _record(self, message: CmMessage) -> CmMessage:
        role: Role = "active" if message.source == self.hosts["active"].address else "passive"
        packet = BTH(psn=message.psn, dest_qp=GSI_QPN) / DETH(q_key=GSI_Q_KEY, source_qp=GSI_QPN) / Raw(message.mad)
        self._send(message.time, role, packet, self.hosts[role].udp_port)
        return super()._record(message)

    def _send(self, time_ns: int, role: Role, packet: Packet, udp_port: int) -> None:
        number = len(self.story.frames) * 7 + self.hosts[role].guid
        sender, receiver = self.hosts[role], self.hosts[PEER[role]]
        self.story.add(time_ns, envelope(sender, receiver, packet, udp_port=udp_port, number=number))

    def _usual(self, sender: Role, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        fields = super()._usual(sender, kind, given)
        host, peer = self.hosts[sender], self.hosts[PEER[sender]]
        if kind in ("REQ", "REP"):
            # Any number, but the same each time the story is told.
            fields["starting_psn"] = self.comm_ids[sender] * 2654435761 >> 7 & 0xFFFFFF
        if kind == "REQ":
            header = RDMA_IP_CM(source_port=self.port, source=host.ip, destination=peer.ip)
            fields |= {
                "private_data": (bytes(header) if self.service.ip_cm else b"") + self.service.request,
                "primary_local_ack_timeout": host.local_ack_timeout,
                "primary_local_lid": host.lid or 0xFFFF,
                "primary_remote_lid": peer.lid or 0xFFFF,
                "primary_subnet_local": int(host.lid is not None),
                "primary_hop_limit": 64 if host.transport == "RoCE v2" else 0,
            }
        elif kind == "REP":
            fields["private_data"] = self.service.reply
        return fields

    # -- data ------------------------------------------------------------------------------------------------------

    def rc(self, time: float, sender: Role, opcode: int, payload: bytes) -> None:
        """An RC packet to the peer's QP. A SEND has the next PSN, an ACKNOWLEDGE that of the peer's last SEND."""
        peer = PEER[sender]
        if opcode == ACKNOWLEDGE:
            psn = (self._rc_psn[peer] - 1) % (1 << 24)
        else:
            psn = self._rc_psn[sender]
            self._rc_psn[sender] = (psn + 1) % (1 << 24)
        packet = BTH(opcode=opcode, psn=psn, dest_qp=self.qpns[peer], ack_request=int(opcode == SEND_ONLY))
        port = 0xC000 | (self.qpns["active"] * 31 + self.qpns["passive"]) & 0x3FFF
        self._send(ns(time), sender, packet / Raw(payload), port)

    def command(self, time: float) -> None:
        """A command capsule of the active side and the response, each acknowledged."""
        time += self.story.noise()
        self.rc(time, "active", SEND_ONLY, bytes([0x18]) + bytes(63))
        self.rc(time + LATENCY, "passive", ACKNOWLEDGE, ACK)
        self.rc(time + 3 * LATENCY, "passive", SEND_ONLY, bytes(16))
        self.rc(time + 4 * LATENCY, "active", ACKNOWLEDGE, ACK)
