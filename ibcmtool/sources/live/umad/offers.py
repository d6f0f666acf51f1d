"""Which ports ib_umad would give us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ibcmtool.sources.live.alternatives import is_iwarp, other_ways
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.ports import Port, ports
from ibcmtool.sources.live.source import Offer
from ibcmtool.sources.live.umad.discovery import umad_ports


def offers(host: Host) -> Iterator[Offer]:
    """One for each port of the host: no agent is registered for it."""
    known = ports(host.root)
    if not known:
        yield Offer("umad", False, "no RDMA device is here", "")
    for port in known:
        yield _of_port(port, host.root)


def _of_port(port: Port, root: Path) -> Offer:
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
