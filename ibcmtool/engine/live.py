"""What happens now: the driver of the engine for live sources. Batches of packets in, bounded memory, for weeks.

The time that counts is that of the packets. While none arrive it goes on at the pace of the source, a little behind, so
that a packet on its way is not overtaken by the verdict that it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ibcmtool.analysis import LIVE, InputInfo, Policy
from ibcmtool.connections.traces import DISORDER
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Sink
from ibcmtool.formatting import SECOND, duration
from ibcmtool.model import TimewaitModel
from ibcmtool.packets import CmMessage, DataPacket, Frame
from ibcmtool.sources.files.strays import LEAP, Strays, Taken
from ibcmtool.sources.live import LiveSource

PATIENCE: Final = 5.0  # seconds that a packet which may be a stray waits for the next one
FAR: Final = 60 * SECOND  # ahead of the time at its source: by less, a program may hand on an old capture in fits
GRACE: Final = SECOND // 2  # how far time stays behind the last packet's when it goes on without packets


@dataclass(slots=True)
class SourceStatus:
    """How one source does."""

    info: InputInfo
    source: LiveSource
    last: int | None = None  # time of its newest packet
    arrived: float = 0.0  # monotonic seconds when that came
    ended: bool = False
    strays: Strays = field(default_factory=Strays)
    waits_since: float | None = None  # monotonic seconds when a packet was found to wait that may be a stray
    back: int = 0  # ns by which its time went back at most

    def goes_on(self, now: int) -> None:
        """A packet of this time came."""
        if self.last is None:
            self.info.first_time = now
        back = 0 if self.last is None else self.last - now
        if back > DISORDER and back > 2 * self.back:
            self.back = back
            self.note(f"time went back by {duration(back)}: nothing is judged across that")
        if self.last is None or back < 0 or back > DISORDER:
            self.last = now
            self.info.last_time = max(self.info.last_time or now, now)
            self.arrived = time.monotonic()

    def expects(self, moment: int) -> bool:
        """Whether a packet may have this time: as much as that has passed, or it is of now."""
        now = self.now()
        return (now is not None and moment - now <= LEAP) or abs(moment - time.time_ns()) <= LEAP

    def is_far(self, moment: int) -> bool:
        """Whether a packet that none followed is a stray, if it has this time."""
        return moment - (self.now() or 0) > FAR

    def note(self, text: str) -> None:
        """Something happened that the user must know."""
        self.source.notes.append(f"{self.source.name}: {text}")

    def now(self) -> int | None:
        """The time at the source, as far as its packets tell; None before the first one."""
        if self.last is None:
            return None
        return self.last + int((time.monotonic() - self.arrived) * self.source.speed * SECOND)


class Watched:
    """The QPNs whose data packets are worth delivering: those that the engine watches."""

    def __init__(self, qpns: Container[int]) -> None:
        self.every = False  # any: a packet waits for the next one
        self._qpns = qpns

    def __bool__(self) -> bool:
        return self.every or bool(self._qpns)

    def __contains__(self, qpn: object) -> bool:
        return self.every or qpn in self._qpns


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
        self.watched = Watched(self.engine.watched)
        self._kept = 0  # packets that were numbered

    def take(self, index: int, frames: Sequence[Frame]) -> None:
        """A batch of one source. Messages and data packets of all sources are numbered anew, from 1."""
        status = self.sources[index]
        if not status.info.frames and frames:
            self.engine.begins(index, frames[0].time)
        status.info.frames += len(frames)
        status.info.sees_host = status.source.sees_host
        self._count_losses(index, max((frame.time for frame in frames), default=None))
        for frame in frames:
            if frame.time <= status.strays.limit:
                status.strays.limit = frame.time + LEAP
                self._feed(index, frame, None)
            else:
                self._take(index, status.strays.take(frame, expected=status.expects(frame.time)))
        status.waits_since = None

    def _take(self, index: int, several: Iterable[Taken]) -> None:
        """Frames some of which may be strays."""
        for frame, moment in several:
            ahead, number = frame.time - moment, self._kept + 1
            if ahead:
                self.engine.stray(index, number, ahead, moment)
                self.sources[index].note(
                    f"message {number} is dated {duration(ahead)} ahead of the one before, and taken as of that"
                )
            self._feed(index, frame, moment)
        self.watched.every = any(status.strays.held is not None for status in self.sources)

    def _feed(self, index: int, frame: Frame, moment: int | None) -> None:
        """One frame, taken as of `moment` instead of its own time."""
        item = self.engine.feed(frame, (index, self._kept + 1), time=moment)
        if isinstance(item, (CmMessage, DataPacket)):
            self._kept += 1
            self.sources[index].goes_on(item.time)

    def end(self, index: int) -> None:
        """A source has ended; the others go on."""
        status = self.sources[index]
        status.ended = True
        self._take(index, status.strays.release(stray=False))
        reached = status.source.end_time or status.last
        self.engine.ends(index, reached)
        if reached is not None and all(one.ended for one in self.sources):
            self.engine.advance(reached)

    def pass_time(self) -> None:
        """Let the time go on without packets: what is overdue comes to light."""
        for index in range(len(self.sources)):
            self._wait(index)
        now = self.now()
        if now is not None and all(status.strays.held is None for status in self.sources):
            self.engine.advance(now - GRACE)

    def _wait(self, index: int) -> None:
        """Tell of a packet that may be a stray, and wait for the one behind it; not for ever."""
        status, moment = self.sources[index], time.monotonic()
        held = status.strays.held
        if held is None or status.last is None:
            return
        if status.waits_since is None:
            status.waits_since = moment
            ahead = duration(held.time - status.last)
            status.note(
                f"a packet is dated {ahead} ahead of the one before; its time counts if the next one goes on there"
            )
        elif moment - status.waits_since > PATIENCE:
            self._take(index, status.strays.release(stray=status.is_far(held.time)))

    def now(self) -> int | None:
        """The time at the sources (ns); None before the first packet."""
        return max((now for status in self.sources if (now := status.now()) is not None), default=None)

    def finish(self) -> None:
        """The end: every connection that is still open as it stands, then what concerns the whole."""
        for index, status in enumerate(self.sources):
            held = status.strays.held
            self._take(index, status.strays.release(stray=held is not None and status.is_far(held.time)))
            self._count_losses(index)
        self.engine.finish()

    def _count_losses(self, index: int, before: int | None = None) -> None:
        """before: the time of what came behind that which was lost."""
        status = self.sources[index]
        if status.source.dropped != status.info.dropped:
            self.engine.lost(index, status.source.dropped, before)
