"""What this host offers: each live source, whether it would work here, why (not), and the command to type.

Nothing is opened that could be seen elsewhere: no probe is set, no agent registered. Works without privileges, and then
says where they are what is missing.
"""

from __future__ import annotations

from ibcmtool.sources.live import SOURCES, source_kind
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.ports import ports
from ibcmtool.sources.live.source import Offer


def offers(host: Host | None = None) -> list[Offer]:
    """Of every source, those of this host's devices one by one; at last the kernel's counters, which are none."""
    host = Host() if host is None else host
    return [*(offer for source in SOURCES for offer in source_kind(source).offers(host)), _counters(host)]


def _counters(host: Host) -> Offer:
    known = ports(host.root)
    held = [port.name for port in known if port.managed]
    if not held:
        return Offer("counters", False, "ib_cm counts on no port of this host", "run modprobe ib_cm" if known else "")
    return Offer("counters", True, f"numbers of messages on {', '.join(held)}", "ibcmtool counters --watch")
