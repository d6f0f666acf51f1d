"""Which programs of this host can write captures into a pipe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from ibcmtool.sources.live.alternatives import IBDUMP_DRIVERS, driver
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.ports import Port, ports
from ibcmtool.sources.live.source import Offer
from ibcmtool.wire.bpf import TYPED


def offers(host: Host) -> Iterator[Offer]:
    """ibdump for each port that it knows, then whatever else writes captures."""
    for port in ports(host.root):
        if driver(port, host.root) in IBDUMP_DRIVERS:
            yield _ibdump(port)
    yield Offer(
        "-",
        True,
        "a capture that another program writes, here or on another host",
        f"ssh HOST \"tcpdump -U --immediate-mode -i NAME -w - '{TYPED}'\" | ibcmtool live -",
    )


def _ibdump(port: Port) -> Offer:
    command = f"ibdump -d {port.device} -i {port.number} -w - | ibcmtool live -"
    if shutil.which("ibdump") is None:
        return Offer(
            f"ibdump {port.name}", False, "ibdump is not installed", "it comes with NVIDIA's firmware tools (MFT)"
        )
    return Offer(f"ibdump {port.name}", True, "what the adapter sends and receives", command)
