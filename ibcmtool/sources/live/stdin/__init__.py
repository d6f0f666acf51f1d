"""`-`: a capture that another program writes to our standard input."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.stdin.source import StandardInput

    return StandardInput(name, rest)


def _offers(host: Host) -> Iterator[Offer]:
    from ibcmtool.sources.live.stdin.offers import offers

    return offers(host)


SOURCE = SourceKind(
    sees="a capture on standard input: `ibdump -w -`, `tcpdump -U --immediate-mode -w -`, over ssh",
    needs="",
    create=_create,
    offers=_offers,
    extcap=False,
)
