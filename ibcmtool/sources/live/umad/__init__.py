"""`umad[:DEV[:PORT]]`: the CM MADs that are sent to ports of this host, by ib_umad."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.umad.source import UmadSource

    return UmadSource(name, rest)


def _offers(host: Host) -> Iterator[Offer]:
    from ibcmtool.sources.live.umad.offers import offers

    return offers(host)


SOURCE = SourceKind(
    sees="CM MADs sent to this host, where ib_cm does not own the class",
    needs="root, ib_umad, no ib_cm",
    create=_create,
    offers=_offers,
)
