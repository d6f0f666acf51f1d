"""What this host offers: each live source, whether it would work here, why (not), and the command to type.

Nothing is opened that could be seen elsewhere: no probe is set, no agent registered. Works without privileges, and then
says where they are what is missing.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.instead import IBDUMP_DRIVERS, driver, is_iwarp, is_software, other_ways
from ibcmtool.sources.live.kernel.host import Host
from ibcmtool.sources.live.libpcap import sniffs_rdma
from ibcmtool.sources.live.ports import Port, net_devices, ports
from ibcmtool.sources.live.umad.discovery import umad_ports


class Offer(NamedTuple):
    """One source."""

    source: str
    available: bool
    reason: str  # what it shows, or why it is not to be had
    command: str  # what to type; where it is not available, what to do about it ("" where nothing helps)


def offers(host: Host | None = None) -> list[Offer]:
    """Every source that this program knows, those of this host's devices one by one."""
    host = Host() if host is None else host
    return list(_offers(host, ports(host.root)))


def _offers(host: Host, known: list[Port]) -> Iterator[Offer]:
    yield _kernel(host)
    if not known:
        yield Offer("umad", False, "no RDMA device is here", "")
    for port in known:
        yield _umad(port, host.root)
    yield from _interfaces(host, known)
    for port in known:
        if driver(port, host.root) in IBDUMP_DRIVERS:
            yield _ibdump(port)
    yield Offer(
        "-",
        True,
        "a capture that another program writes, here or on another host",
        "ssh HOST tcpdump -U --immediate-mode -i NAME -w - udp port 4791 | ibcmtool live -",
    )
    yield Offer("follow:FILE", True, "a capture file that grows", "ibcmtool live follow:FILE")
    yield Offer("replay:FILE", True, "a capture played again", "ibcmtool live replay:FILE")
    yield _counters(known)


def _kernel(host: Host) -> Offer:
    try:
        host.tracefs()
        layout = host.layout()
    except SourceError as error:
        return Offer("kernel", False, error.problem, error.hint)
    found = f"every CM message that ib_cm sends or receives, and the program that sent it (offsets by {layout.origin})"
    return Offer("kernel", True, found, "ibcmtool live kernel")


def _umad(port: Port, root: Path) -> Offer:
    source = f"umad:{port.device}:{port.number}"
    if is_iwarp(port, root):
        return Offer(source, False, "an iWARP device has no MADs", "")
    if port.managed:
        return Offer(source, False, "ib_cm owns the CM messages of this port", other_ways(port, root))
    nodes = [one.node for one in umad_ports(root) if (one.port.device, one.port.number) == (port.device, port.number)]
    if not nodes:
        return Offer(source, False, "ib_umad is not loaded", "run modprobe ib_umad")
    if not os.access(nodes[0], os.R_OK | os.W_OK):
        return Offer(source, False, f"{nodes[0]} may not be opened by this user", f"run sudo ibcmtool live {source}")
    return Offer(source, True, "CM messages that are sent to this port", f"ibcmtool live {source}")


def _interfaces(host: Host, known: list[Port]) -> Iterator[Offer]:
    """Interfaces that carry RoCE packets, RDMA devices that libpcap can capture from, and any other one."""
    try:
        sniffs = sniffs_rdma()
    except OSError:
        yield Offer("iface:NAME", False, "libpcap is not installed", "apt install libpcap0.8, or dnf install libpcap")
        return
    missing = "" if _may_capture() else "capturing needs CAP_NET_RAW"
    carriers: dict[str, Port] = {}
    for port in known:
        if port.link_layer != "Ethernet" or is_iwarp(port, host.root):
            continue
        for name in net_devices(port):
            carriers.setdefault(name, port)
        if not is_software(port, host.root):
            yield _device(port, host.root, missing, sniffs=sniffs)
    for name, port in carriers.items():
        source = f"iface:{name}"
        if not is_software(port, host.root):
            reason = f"{port.device} takes its packets off the wire unseen by the host"
            yield Offer(source, False, reason, other_ways(port, host.root, pcap_sniffs_rdma=sniffs))
        else:
            yield _interface(source, f"what {port.device} sends and receives", missing)
    names = [name for _, name in socket.if_nameindex() if name not in carriers and name != "lo"]
    if names:
        yield _interface("iface:NAME", f"packets of a mirror port, or of a bridge: {', '.join(names)}", missing)


def _interface(source: str, shows: str, missing: str) -> Offer:
    if missing:
        return Offer(source, False, missing, f"run sudo ibcmtool live {source}")
    return Offer(source, True, shows, f"ibcmtool live {source}")


def _device(port: Port, root: Path, missing: str, *, sniffs: bool) -> Offer:
    source = f"iface:{port.device}"
    if not sniffs:
        return Offer(source, False, "libpcap was built without RDMA support", other_ways(port, root))
    if driver(port, root) not in IBDUMP_DRIVERS:
        return Offer(source, False, f"the driver of {port.device} lets libpcap see no packets", other_ways(port, root))
    return _interface(source, f"what {port.device} sends and receives", missing)


def _ibdump(port: Port) -> Offer:
    command = f"ibdump -d {port.device} -i {port.number} -w - | ibcmtool live -"
    if shutil.which("ibdump") is None:
        return Offer(
            f"ibdump {port.name}", False, "ibdump is not installed", "it comes with NVIDIA's firmware tools (MFT)"
        )
    return Offer(f"ibdump {port.name}", True, "what the adapter sends and receives", command)


def _counters(known: list[Port]) -> Offer:
    held = [port.name for port in known if port.managed]
    if not held:
        return Offer("counters", False, "ib_cm counts on no port of this host", "run modprobe ib_cm" if known else "")
    return Offer("counters", True, f"numbers of messages on {', '.join(held)}", "ibcmtool counters --watch")


def _may_capture() -> bool:
    """Whether a packet socket may be opened."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True
