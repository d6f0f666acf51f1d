"""`kernel`: every CM MAD that ib_cm of this host sends or receives, by probes in the running kernel."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.kernel.source import KernelSource

    return KernelSource(name, rest)


def _offers(host: Host) -> Iterator[Offer]:
    from ibcmtool.sources.live.kernel.offers import offers

    return offers(host)


SOURCE = SourceKind(
    sees="every CM MAD that ib_cm sends or receives on this host, on InfiniBand and RoCE, whole, with the program that "
    "sent it",
    needs="root, kprobes, tracefs",
    create=_create,
    offers=_offers,
)
