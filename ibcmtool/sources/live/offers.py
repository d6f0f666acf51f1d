"""What this host offers: each live source, whether it would work here, why (not), and the command to type.

Nothing is opened that could be seen elsewhere: no probe is set, no agent registered. Works without privileges, and then
says where they are what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from ibcmtool.sources.live import SOURCES
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.ports import ports
from ibcmtool.sources.live.source import Offer


def offers(host: Host | None = None) -> list[Offer]:
    """Of every source, those of this host's devices one by one; at last the kernel's counters, which are none."""
    return list(_offers(Host() if host is None else host))


def _offers(host: Host) -> Iterator[Offer]:
    for kind in SOURCES.values():
        if kind.offer is not None:
            yield kind.offer
        else:
            package = kind.made_by.partition(".")[0]
            yield from import_module(f"ibcmtool.sources.live.{package}.offers").offers(host)
    yield _counters(host)


def _counters(host: Host) -> Offer:
    known = ports(host.root)
    held = [port.name for port in known if port.managed]
    if not held:
        return Offer("counters", False, "ib_cm counts on no port of this host", "run modprobe ib_cm" if known else "")
    return Offer("counters", True, f"numbers of messages on {', '.join(held)}", "ibcmtool counters --watch")
