"""One live analysis: packets in, events, findings and ended connections out, in bounded memory, for weeks.

The time that counts is that of the packets. While none arrive it goes on at the pace of the source, a little behind, so
that a packet on its way is not overtaken by the verdict that it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dissectors.recognition import MAD_SIZE
from ibcmtool.connections.tracker import Tracker
from ibcmtool.decode import Decoder
from ibcmtool.model import LIVE, CmMessage, Connection, DataPacket, Event, Finding, Frame, InputInfo, Neighbour, Policy
from ibcmtool.neighbours import neighbour
from ibcmtool.rules import Judge
from ibcmtool.rules.completeness import Census
from ibcmtool.rules.quality import capture_findings
from ibcmtool.services import endpoint_names
from ibcmtool.sources.live import Arrival, LiveSource
from ibcmtool.words import SECOND

GRACE = SECOND // 2  # how far time stays behind the last packet's when it goes on without packets


@dataclass(slots=True)
class Heard:
    """One message or data packet as the session took it, with what the source alone knows."""

    number: int  # of what was kept, from 1: the frame number that findings name
    arrival: Arrival
    item: CmMessage | DataPacket


Record = Event | Finding | Connection | Heard
"""What the session hands on: Heard before its events; a Finding behind the event that brought it; a Connection when it
has ended."""


@dataclass(slots=True)
class Progress:
    """How one source does."""

    info: InputInfo
    source: LiveSource
    last: int | None = None  # time of its newest packet
    arrived: float = 0.0  # monotonic seconds when that came
    ended: bool = False

    def now(self) -> int | None:
        """The time at the source, as far as its packets tell; None before the first one."""
        if self.last is None:
            return None
        return self.last + int((time.monotonic() - self.arrived) * self.source.speed * SECOND)


class Session:
    """Takes batches of packets from any number of sources."""

    def __init__(
        self, sources: Sequence[LiveSource], policy: Policy, tracker: Tracker | None = None, *, redact: bool = False
    ) -> None:
        self.tracker = tracker or Tracker(endpoint_names)
        self.sources = [Progress(InputInfo(source.name, LIVE), source) for source in sources]
        self._judge = Judge(policy)
        self._census = Census()
        self._decode = Decoder()
        self._redact: Callable[[Frame], Frame] | None = None
        if redact:
            from ibcmtool.redaction import Redactor  # loads Scapy

            self._redact = Redactor()
        self._kept = 0

    def take(self, index: int, arrivals: Sequence[Arrival]) -> Iterator[Record]:
        """A batch of one source."""
        progress = self.sources[index]
        info, made_up, watched = progress.info, progress.source.made_up, self.tracker.watched
        decode, now = self._decode, time.monotonic()
        for arrival in arrivals:
            info.frames += 1
            if self._redact is not None:
                arrival = arrival._replace(frame=self._redact(arrival.frame), process="")
            # Numbered before it is decoded: a frame is made anew in a third of the time that a message takes.
            frame = Frame(index, self._kept + 1, *arrival.frame[2:])
            item = decode(frame, watched) or neighbour(frame)
            if item is None:
                continue
            if isinstance(item, Neighbour):
                self._judge.learn(item)
                continue
            self._kept += 1
            if isinstance(item, CmMessage):
                if made_up:
                    item = item._replace(psn=None, icrc_ok=None, headers=b"")
                info.cm_messages += 1
                info.cut_messages += len(item.mad) < MAD_SIZE
                self._census.note(item)
                events = self.tracker.feed(item)
            else:
                events = self.tracker.feed_data(item)
            if progress.last is None:
                info.first_time = item.time
            if progress.last is None or item.time > progress.last:
                progress.last = info.last_time = item.time
                progress.arrived = now
            yield Heard(self._kept, arrival, item)
            yield from self._judged(events)

    def pass_time(self) -> Iterator[Record]:
        """Let the time go on without packets: what is overdue comes to light."""
        now = self.now()
        if now is not None:
            yield from self._judged(self.tracker.advance(now - GRACE))

    def now(self) -> int | None:
        """The time at the sources (ns); None before the first packet."""
        return max((now for progress in self.sources if (now := progress.now()) is not None), default=None)

    def finish(self) -> Iterator[Finding | Connection | InputInfo]:
        """The end: every connection that is still open as it stands, then what concerns the whole."""
        for record in self._judged(self.tracker.finish()):
            if not isinstance(record, (Event, Heard)):
                yield record
        for progress in self.sources:
            progress.info.dropped = progress.source.dropped
        infos = [progress.info for progress in self.sources]
        yield from capture_findings(infos, self.tracker.overruns)
        yield from self._census.findings(infos, self._judge.view)
        yield from infos

    def _judged(self, events: Iterator[Event]) -> Iterator[Record]:
        judge: Callable[[Event], Sequence[Finding]] = self._judge.judge
        for event in events:
            yield event
            found = judge(event)
            if found:
                yield from found
            if event.kind == "ENDED":
                self._census.ended(event.connection)
                yield event.connection
