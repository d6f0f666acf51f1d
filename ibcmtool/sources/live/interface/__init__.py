"""`iface:NAME`: the CM packets on a network interface, or on an RDMA device where libpcap can capture from such."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.interface.source import InterfaceSource

    return InterfaceSource(name, rest)


def _offers(host: Host) -> Iterator[Offer]:
    from ibcmtool.sources.live.interface.offers import offers

    return offers(host)


SOURCE = SourceKind(
    sees="soft RoCE, a mirror port; RDMA devices where libpcap can (mlx4, mlx5)",
    needs="CAP_NET_RAW",
    create=_create,
    offers=_offers,
)
