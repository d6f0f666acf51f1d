"""`umad[:DEV[:PORT]]`: the CM MADs that are sent to ports of this host, by ib_umad.

The kernel gives each MAD to one owner of its class. Where ib_cm is loaded, as on every host that makes connections, it
is the owner, and this source is refused. It is for hosts without ib_cm: a management node, a simulator, a test bed.
While it runs, nobody answers what it receives, and an ib_cm that is loaded meanwhile does not get the port.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Container, Iterable
from pathlib import Path
from threading import Event

from ibcmtool.packets import Address, Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.alternatives import is_iwarp, other_ways
from ibcmtool.sources.live.libpcap import sniffs_rdma
from ibcmtool.sources.live.ports import ROOT, Port, ports
from ibcmtool.sources.live.source import Deliver, LiveSource
from ibcmtool.sources.live.umad import abi
from ibcmtool.sources.live.umad.discovery import UmadPort, abi_version, own_address, umad_ports
from ibcmtool.wire.synthetic import Packets

POLL = 0.1  # seconds between two looks at `stop`
BATCH = 4096  # MADs
FRESH = 10.0  # seconds that our own addresses are believed
GONE = "its device was removed or its driver unloaded"


class UmadSource(LiveSource):
    """One port, all ports of a device, or all there are. root: where sysfs and devices are (tests have their own)."""

    silence = "only what others send to this port is seen, and nobody here answers it"
    made_up = True

    def __init__(self, name: str, rest: str, root: Path = ROOT) -> None:
        super().__init__(name)
        self._device, _, number = rest.partition(":")
        self._number = int(number) if number.isdigit() else None
        if (number and self._number is None) or (not self._device and ":" in name):
            raise self.refusal("names no port", "write umad, umad:mlx5_0 or umad:mlx5_0:1")
        self._root = root
        self._open: dict[int, Port] = {}  # by file descriptor
        self._in_use = threading.Lock()
        self._packets = Packets()
        self._own: dict[tuple[int, int | None, int], Address] = {}
        self._looked = 0.0

    def open(self) -> None:
        refusals = [refusal for one in self._chosen() if (refusal := self._refused(one)) is not None]
        if not self._open:
            raise refusals[0]
        # One port of several is refused: the others will do.
        self.notes += [str(refusal) for refusal in refusals]
        self._packets.frame(0, Address(), Address(), b"")  # loads what it takes: no MAD shall wait for that

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        poll = select.poll()
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        stopped = False
        while not stopped:
            stopped = stop.is_set()  # what came before is still delivered
            events = poll.poll(0 if stopped else POLL * 1000)
            with self._in_use:
                ready = [(fd, self._open[fd], event) for fd, event in events if fd in self._open]
                frames = [frame for fd, port, _ in ready for frame in self._received(fd, port)]
                gone = [fd for fd, _, event in ready if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL)]
            if frames:
                deliver(frames)
            for fd in gone:
                poll.unregister(fd)
                self._lose(fd)

    def close(self) -> None:
        with self._in_use:
            for fd in self._open:
                os.close(fd)
            self._open.clear()

    def _received(self, fd: int, port: Port) -> Iterable[Frame]:
        """What waits at one port."""
        for _ in range(BATCH):
            try:
                received = abi.receive(fd)
            except OSError:  # there is no more, or the port has gone: `poll` tells which
                return
            now = time.time_ns()
            if received.status:  # of a MAD that we sent; we send none
                continue
            source = Address(received.gid, received.lid if port.link_layer != "Ethernet" else None)
            destination = self._own_address(fd, port, received.gid_index, received.path_bits)
            yield self._packets.frame(now, source, destination, received.mad)._replace(direction="in")

    def _own_address(self, fd: int, port: Port, gid_index: int | None, path_bits: int) -> Address:
        now = time.monotonic()
        if now - self._looked > FRESH:
            self._looked = now
            self._own.clear()
        key = fd, gid_index, path_bits
        address = self._own.get(key)
        if address is None:
            address = self._own[key] = own_address(port, gid_index, path_bits)
        return address

    def _lose(self, fd: int) -> None:
        """A port whose device was removed. Raises SourceError when it was the last one."""
        with self._in_use:
            port = self._open.pop(fd)
            os.close(fd)
        if not self._open:
            raise self.refusal(f"{port.name} has gone", GONE)
        self.note(f"{port.name} has gone; going on with the others")

    def _chosen(self) -> list[UmadPort]:
        """The ports that are meant. Raises SourceError where there are none, or ib_umad is not there."""
        known = ports(self._root)
        offered = umad_ports(self._root)
        if not known and not offered:
            raise self.refusal("this host has no RDMA device", "rdma link add rxe0 type rxe netdev eth0 makes one")
        meant = [port for port in known if self._means(port)]
        chosen = [one for one in offered if self._means(one.port)]
        if not meant and not chosen:
            names = ", ".join(dict.fromkeys(port.name for port in [*known, *(one.port for one in offered)]))
            raise self.refusal("there is no such port", f"there are {names}")
        if meant and all(is_iwarp(port, self._root) for port in meant):
            raise self.refusal(f"{meant[0].name} is iWARP, whose connections are TCP's, without CM messages")
        if not chosen and all(port.managed for port in meant):
            raise self._taken(meant[0])  # ib_umad would not help
        version = abi_version(self._root)
        if version is None:
            raise self.refusal("ib_umad is not loaded", "run modprobe ib_umad")
        if version != abi.ABI_VERSION:
            problem = f"ib_umad speaks version {version} of its ABI, {abi.ABI_VERSION} expected"
            raise self.refusal(problem, self._other(meant))
        if not chosen:
            raise self.refusal(f"ib_umad does not offer {meant[0].name}", self._other(meant))
        return chosen

    def _means(self, port: Port) -> bool:
        return self._device in ("", port.device) and self._number in (None, port.number)

    def _refused(self, one: UmadPort) -> SourceError | None:
        """Open a port and become the owner of the class; why not, where that fails."""
        if one.port.managed:
            return self._taken(one.port)
        fd = -1
        try:
            fd = abi.open_port(one.node)
            abi.register(fd)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            return self._refusal(one, error)
        self._open[fd] = one.port
        return None

    def _taken(self, port: Port, owner: str = "ib_cm") -> SourceError:
        problem = f"{owner} owns the CM messages of {port.name}, and the kernel gives each to one owner"
        return self.refusal(problem, self._other([port]))

    def _refusal(self, one: UmadPort, error: OSError) -> SourceError:
        """What an error of open or ioctl means here."""
        name, node = one.port.name, one.node
        if error.errno == errno.EINVAL:
            return self._taken(one.port, "another program, or ib_cm,")
        if error.errno == errno.EACCES:
            return self.refusal(f"{node} may be opened by root only", f"run sudo ibcmtool live {self.name}")
        if error.errno == errno.EPERM:
            hint = "run it there: ip netns exec NAME ibcmtool ..."
            return self.refusal(f"{name} belongs to another network namespace", hint)
        if error.errno == errno.ENOENT:
            hint = "in a container, hand in the device file"
            return self.refusal(f"{node} does not exist, though ib_umad is loaded", hint)
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.EIO):
            return self.refusal(f"{name} has gone", GONE)
        return self.refusal(f"{name} cannot be used: {error.strerror or error}", self._other([one.port]))

    def _other(self, meant: list[Port]) -> str:
        """A hint: what shows the messages of these ports instead."""
        try:
            sniffs = sniffs_rdma(self.name)
        except SourceError:
            sniffs = False
        ways = other_ways(meant[0], self._root, pcap_sniffs_rdma=sniffs) if meant else ""
        return ways or "ibcmtool sources says what else there is"
