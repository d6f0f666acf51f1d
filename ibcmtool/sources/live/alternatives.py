"""The alternatives of a host: what else of it shows the CM messages of a port, for the lines that refuse one way."""

from __future__ import annotations

import shutil
from pathlib import Path

from ibcmtool.sources.live.ports import DEVICES, ROOT, Port, net_devices, ports, text_of

RNIC = "4"  # node type of an iWARP device: it has no CM MADs
IBDUMP_DRIVERS = frozenset({"mlx4_core", "mlx5_core"})
SNIFFED_DRIVERS = IBDUMP_DRIVERS  # those that let libpcap see RoCE packets


def is_software(port: Port, root: Path = ROOT) -> bool:
    """Whether its packets pass the network stack of the host (rxe), so that they are seen on its interface."""
    return not (root / DEVICES / port.device / "device").exists()


def is_iwarp(port: Port, root: Path = ROOT) -> bool:
    """Whether it is an iWARP device, which has no MADs."""
    return text_of(root / DEVICES / port.device / "node_type").startswith(RNIC)


def driver(port: Port, root: Path = ROOT) -> str:
    """The kernel driver of its device, "" of a software one."""
    return (root / DEVICES / port.device / "device" / "driver").resolve().name if not is_software(port, root) else ""


def offloading(interface: str, root: Path = ROOT) -> list[str]:
    """RDMA devices that send and take their packets on this interface without showing them to the host."""
    found = {
        port.device
        for port in ports(root)
        if port.link_layer == "Ethernet" and not is_software(port, root) and interface in net_devices(port)
    }
    # Below a bond or a VLAN, the GIDs belong to the upper interface.
    found.update(path.name for path in (root / "sys/class/net" / interface / "device/infiniband").glob("*"))
    return sorted(found)


def other_ways(port: Port, root: Path = ROOT, *, pcap_sniffs_rdma: bool = False) -> str:
    """A hint: the commands that show this port's CM messages here. "" where there are none."""
    commands = []
    if port.managed and any((root / place / "tracing").exists() for place in ("sys/kernel", "sys/kernel/debug")):
        commands.append("ibcmtool live kernel")
    ethernet = port.link_layer == "Ethernet"
    if ethernet and is_software(port, root) and not is_iwarp(port, root):
        commands += [f"ibcmtool live iface:{name}" for name in net_devices(port)[:1]]
    if ethernet and pcap_sniffs_rdma and driver(port, root) in SNIFFED_DRIVERS:
        commands.append(f"ibcmtool live iface:{port.device}")
    if driver(port, root) in IBDUMP_DRIVERS and shutil.which("ibdump"):
        commands.append(f"ibdump -d {port.device} -i {port.number} -w - | ibcmtool live -")
    if port.managed:
        commands.append("ibcmtool counters (numbers only)")
    return "use " + ", or ".join(commands) if commands else ""
