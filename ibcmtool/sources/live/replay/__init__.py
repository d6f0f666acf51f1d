"""`replay:FILE[@SPEED]`: a capture at the pace at which it was taken, or faster."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.source import LiveSource, Offer, SourceKind


def _create(name: str, rest: str) -> LiveSource:
    from ibcmtool.sources.live.replay.source import Replay

    return Replay(name, rest)


def _offers(_host: Host) -> Iterator[Offer]:
    yield Offer("replay:FILE", True, "a capture played again", "ibcmtool live replay:FILE")


SOURCE = SourceKind(
    sees="a capture at its own pace, or faster (0: without pauses)",
    needs="",
    create=_create,
    offers=_offers,
)
