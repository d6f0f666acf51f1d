"""Which interfaces can show CM packets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.alternatives import SNIFFED_DRIVERS, driver, is_iwarp, is_software, other_ways
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.libpcap import sniffs_rdma
from ibcmtool.sources.live.ports import Port, net_devices, ports
from ibcmtool.sources.live.source import Offer


def offers(host: Host) -> Iterator[Offer]:
    """Interfaces that carry RoCE packets, RDMA devices that libpcap can capture from, and any other one."""
    try:
        sniffs = sniffs_rdma("iface:NAME")
    except SourceError as error:
        yield Offer("iface:NAME", False, error.problem, error.hint)
        return
    missing = "" if _may_capture() else "capturing needs CAP_NET_RAW"
    carriers: dict[str, Port] = {}
    for port in ports(host.root):
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
    if driver(port, root) not in SNIFFED_DRIVERS:
        return Offer(source, False, f"the driver of {port.device} lets libpcap see no packets", other_ways(port, root))
    return _interface(source, f"what {port.device} sends and receives", missing)


def _may_capture() -> bool:
    """Whether a packet socket may be opened."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True
