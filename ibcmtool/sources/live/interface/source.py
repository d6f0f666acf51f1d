"""`iface:NAME`: the CM packets on a network interface, or on an RDMA device where libpcap can capture from such.

Soft RoCE (rxe) and mirror ports show their packets to the host. A RoCE adapter does not: it takes them off the wire
itself, and its interface stays silent.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Container, Sequence
from pathlib import Path
from threading import Event
from typing import Literal

from ibcmtool.formatting import count
from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.alternatives import is_iwarp, offloading, other_ways
from ibcmtool.sources.live.libpcap import Handle, PcapError, sniffs_rdma
from ibcmtool.sources.live.ports import ROOT, net_devices, ports
from ibcmtool.sources.live.source import Deliver, LiveSource
from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES

SNAP_LENGTH = 512  # what the filter lets through is shorter; the kernel sets so much aside for each packet
BUFFER_SIZE = 16 << 20
POLL = 0.1  # seconds between two looks at `stop`
BATCH = 4096  # packets
COUNTED_EVERY = 1.0  # seconds between two looks at the drop counter
SUSPICIOUS = 30.0  # seconds without a packet on the interface of an adapter
MOST_NAMES = 12  # of interfaces in a message

ANY = "any"
NO_SUCH_DEVICE, NO_PERMISSION, NOT_UP, NO_PROMISCUOUS = -5, -8, -9, -11  # PCAP_ERROR_...
SIOCGIFHWADDR = 0x8927
ARPHRD_INFINIBAND = 32
PACKET_OTHERHOST, PACKET_OUTGOING = 3, 4  # of Linux cooked headers


class InterfaceSource(LiveSource):
    """One network interface, `any` for all of them, or an RDMA device.

    buffer_size: bytes that the kernel may hold for us. root: where sysfs is looked for (tests have their own).
    """

    silence = "open connections send no CM messages, and a RoCE adapter shows the host none of its packets"

    def __init__(self, name: str, rest: str, buffer_size: int = BUFFER_SIZE, root: Path = ROOT) -> None:
        super().__init__(name)
        self._device = rest
        self._buffer_size = buffer_size
        self._root = root
        self._handle: Handle | None = None
        self._in_use = threading.Lock()
        self._own: frozenset[bytes] = frozenset()  # MAC addresses
        self._adapters: Sequence[str] = ()
        self._sniffs_rdma = False

    def open(self) -> None:
        self._sniffs_rdma = sniffs_rdma(self.name)
        self._check_name()
        try:
            self._handle = handle = Handle(self._device, SNAP_LENGTH, self._buffer_size)
            if handle.link_type not in LINK_TYPES:
                hint = f"name another interface: {_interfaces()}"
                raise self.refusal(link_types.problem([handle.link_type]), hint)
            handle.set_filter(LINK_TYPES[handle.link_type].capture_filter())
        except PcapError as error:
            raise self._refusal(error) from None
        if self._device == ANY:
            # Recent kernels give cooked frames the EtherType behind all tags, while one of two tags is still there.
            self.note(
                "a packet that passes two interfaces is seen twice, and counts once (X05); those with two VLAN tags "
                "are seen on a named interface only"
            )
        self._adapters = offloading(self._device, self._root)
        if self._adapters:
            self.silence = self._unseen()

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        assert self._handle is not None
        poll = select.poll()
        poll.register(self._handle.fileno(), select.POLLIN)
        begun = counted = time.monotonic()
        doubtful = bool(self._adapters)
        stopped = False
        while not stopped:
            stopped = stop.is_set()  # what came before is still delivered
            if not stopped:
                poll.poll(POLL * 1000)
            frames: list[Frame] = []
            try:
                if not self._take(frames):
                    return
            except PcapError as error:
                raise self.refusal(f"capturing ended: {error}", "check ip link") from None
            finally:
                if frames:
                    deliver(frames)
            now = time.monotonic()
            if now - counted > COUNTED_EVERY:
                counted = now
                self._count()
            if doubtful and any(map(_is_roce, frames)):
                doubtful = False
            elif doubtful and now - begun > SUSPICIOUS:
                doubtful = False
                self.note(f"no CM message in {SUSPICIOUS:.0f} s; {self._unseen()}")

    def close(self) -> None:
        self._count()
        with self._in_use:
            handle, self._handle = self._handle, None
            if handle is not None:
                handle.close()

    def _take(self, frames: list[Frame]) -> bool:
        """Add what is there. False after `close`; raises PcapError when the interface has gone."""
        with self._in_use:
            if self._handle is None:
                return False
            link_type, new = self._handle.link_type, tuple.__new__
            for packet_time, data, wire_length in self._handle.packets():
                direction = self._direction(link_type, data)
                frames.append(new(Frame, (0, 0, packet_time, link_type, data, wire_length, direction, "")))
                if len(frames) == BATCH:
                    break
        return True

    def _count(self) -> None:
        with self._in_use:
            if self._handle is not None:
                self.dropped = self._handle.dropped()

    def _direction(self, link_type: int, data: bytes) -> Literal["in", "out"] | None:
        """A cooked header tells it; on Ethernet the own MAC address does, where it is at one end only."""
        link = LINK_TYPES[link_type]
        if link.packet_type is not None:
            kind = link.packet_type(data)
            return "out" if kind == PACKET_OUTGOING else "in" if kind < PACKET_OTHERHOST else None
        sent, received = (mac in self._own for mac in link.macs(data))
        return None if sent == received else "out" if sent else "in"

    def _check_name(self) -> None:
        """Whether there is such a device. Raises SourceError; learns the MAC addresses."""
        name = self._device
        if not name:
            raise self.refusal("names no interface", f"there are {_interfaces()}")
        if name == ANY:
            return
        mac, kind = _hardware_address(name)
        if kind == ARPHRD_INFINIBAND:
            hint = "ibcmtool sources says what shows them"
            raise self.refusal("is IP over InfiniBand, where no CM message passes", hint)
        if mac is not None:
            self._own = frozenset({mac}) if any(mac) else frozenset()
            return
        mine = [port for port in ports(self._root) if port.device == name]
        if not mine:
            raise self.refusal("there is no such interface", f"there are {_interfaces()}")
        if is_iwarp(mine[0], self._root):
            raise self.refusal("is an iWARP device, whose connections are TCP's, without CM messages")
        if not self._sniffs_rdma:
            hint = other_ways(mine[0], self._root) or "build libpcap with libibverbs"
            raise self.refusal("is an RDMA device, and the libpcap of this host was built without RDMA support", hint)
        macs = {_hardware_address(one)[0] for port in mine for one in net_devices(port)}
        self._own = frozenset(mac for mac in macs if mac is not None)

    def _refusal(self, error: PcapError) -> SourceError:
        if error.status in (NO_PERMISSION, NO_PROMISCUOUS):
            hint = f"run it with sudo, or once sudo setcap cap_net_raw+ep {os.path.realpath(sys.executable)}"
            return self.refusal("capturing needs the capability CAP_NET_RAW", hint)
        if error.status == NOT_UP:
            return self.refusal("the interface is down", f"run ip link set {self._device} up")
        if error.status == NO_SUCH_DEVICE:
            return self.refusal("there is no such interface", f"there are {_interfaces()}")
        return self.refusal(f"cannot be captured from: {error}", f"there are {_interfaces()}")

    def _unseen(self) -> str:
        names = ", ".join(self._adapters)
        mine = [port for port in ports(self._root) if port.device in self._adapters]
        ways = other_ways(mine[0], self._root, pcap_sniffs_rdma=self._sniffs_rdma) if mine else ""
        return (
            f"{names} {'takes its' if len(self._adapters) == 1 else 'take their'} RoCE packets off the wire unseen by "
            f"the host{'; ' + ways if ways else ''}"
        )


def _is_roce(frame: Frame) -> bool:
    """Whether it has a BTH; ARP, neighbour discovery and ICMP have none."""
    return LINK_TYPES[frame.link_type].find(frame.data) is not None


def _interfaces() -> str:
    """The interfaces of this network namespace."""
    names = [name for _, name in socket.if_nameindex()]
    more = f" and {count(len(names) - MOST_NAMES, 'other')}" if len(names) > MOST_NAMES else ""
    return ", ".join([*names[:MOST_NAMES], ANY]) + more


def _hardware_address(name: str) -> tuple[bytes | None, int]:
    """MAC address and ARP hardware type of an interface; (None, 0) where there is no such one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        try:
            answer = fcntl.ioctl(asked, SIOCGIFHWADDR, struct.pack("40s", name.encode()[:15]))
        except OSError:
            return None, 0
    (kind,) = struct.unpack_from("=H", answer, 16)
    return answer[18:24], kind
