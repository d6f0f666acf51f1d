"""`follow:FILE`: a capture that is still being written, rotated, or replaced by the next one."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.follow.source import GrowingFile

    return GrowingFile(name, rest)


def _offers(_host: Host) -> Iterator[Offer]:
    yield Offer("follow:FILE", True, "a capture file that grows", "ibcmtool live follow:FILE")


SOURCE = SourceKind(
    sees="a capture that grows, is rotated or replaced",
    needs="",
    create=_create,
    offers=_offers,
)
