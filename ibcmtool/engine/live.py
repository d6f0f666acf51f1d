"""What happens now: the driver of the engine for live sources. Batches of packets in, bounded memory, for weeks.

The time that counts is that of the packets. While none arrive it goes on at the pace of the source, a little behind, so
that a packet on its way is not overtaken by the verdict that it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Sink
from ibcmtool.formatting import SECOND
from ibcmtool.model import LIVE, InputInfo, Policy, TimewaitModel
from ibcmtool.packets import CmMessage, DataPacket, Frame
from ibcmtool.sources.live import LiveSource

GRACE: Final = SECOND // 2  # how far time stays behind the last packet's when it goes on without packets


@dataclass(slots=True)
class SourceStatus:
    """How one source does."""

    info: InputInfo
    source: LiveSource
    last: int | None = None  # time of its newest packet
    arrived: float = 0.0  # monotonic seconds when that came
    ended: bool = False

    def goes_on(self, now: int) -> None:
        """A packet of this time came."""
        if self.last is None:
            self.info.first_time = now
        if self.last is None or now > self.last:
            self.last = self.info.last_time = now
            self.arrived = time.monotonic()

    def now(self) -> int | None:
        """The time at the source, as far as its packets tell; None before the first one."""
        if self.last is None:
            return None
        return self.last + int((time.monotonic() - self.arrived) * self.source.speed * SECOND)


class Session:
    """Takes batches of packets from any number of sources. The engine's sink is to be set before the first one."""

    def __init__(
        self,
        sources: Sequence[LiveSource],
        policy: Policy,
        timewait_model: TimewaitModel = "auto",
        *,
        most: int | None = None,
        redact: bool = False,
    ) -> None:
        self.sources = [SourceStatus(InputInfo(one.name, LIVE, made_up=one.made_up), one) for one in sources]
        infos = [status.info for status in self.sources]
        self.engine = Engine(infos, Sink(), policy, timewait_model, most=most, redact=redact)
        self._kept = 0  # packets that were numbered

    def take(self, index: int, frames: Sequence[Frame]) -> None:
        """A batch of one source. Messages and data packets of all sources are numbered anew, from 1."""
        status, feed = self.sources[index], self.engine.feed
        if not status.info.frames and frames:
            self.engine.begins(index, frames[0].time)
        status.info.frames += len(frames)
        for frame in frames:
            item = feed(frame, (index, self._kept + 1))
            if isinstance(item, (CmMessage, DataPacket)):
                self._kept += 1
                status.goes_on(item.time)
        self._count_losses(index)

    def end(self, index: int) -> None:
        """A source has ended; the others go on."""
        status = self.sources[index]
        status.ended = True
        self.engine.ends(index, status.last)

    def pass_time(self) -> None:
        """Let the time go on without packets: what is overdue comes to light."""
        now = self.now()
        if now is not None:
            self.engine.advance(now - GRACE)

    def now(self) -> int | None:
        """The time at the sources (ns); None before the first packet."""
        return max((now for status in self.sources if (now := status.now()) is not None), default=None)

    def finish(self) -> None:
        """The end: every connection that is still open as it stands, then what concerns the whole."""
        for index in range(len(self.sources)):
            self._count_losses(index)
        self.engine.finish()

    def _count_losses(self, index: int) -> None:
        status = self.sources[index]
        if status.source.dropped != status.info.dropped:
            self.engine.lost(index, status.source.dropped)
