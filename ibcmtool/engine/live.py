"""One live analysis: packets in, events, findings and ended connections out, in bounded memory, for weeks.

The time that counts is that of the packets. While none arrive it goes on at the pace of the source, a little behind, so
that a packet on its way is not overtaken by the verdict that it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from dissectors.recognition import MAD_SIZE
from ibcmtool.connections.tracker import Tracker
from ibcmtool.formatting import SECOND
from ibcmtool.model import (
    LIVE,
    CmMessage,
    Connection,
    DataPacket,
    Event,
    Finding,
    Frame,
    InputInfo,
    Neighbour,
    Policy,
    TimewaitModel,
)
from ibcmtool.rules import Judge
from ibcmtool.services import endpoint_names
from ibcmtool.sources.live import LiveSource
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.neighbours import neighbour

CHUNK = 256  # messages decoded at once
new = tuple.__new__  # Received(...) takes twice as long
GRACE = SECOND // 2  # how far time stays behind the last packet's when it goes on without packets


class Received(NamedTuple):
    """One message or data packet as the session took it, with what the source alone knows."""

    number: int  # of what was kept, from 1: the frame number that findings name
    frame: Frame  # as its source delivered it
    item: CmMessage | DataPacket


class Listener:
    """Whom a session tells what happens, in this order: what it heard, its events, the findings that each brought."""

    follows = True  # whether it wants to be told what was heard and each event, not only what came of them

    def hear(self, heard: Received) -> None:
        """A message or data packet was captured."""

    def event(self, event: Event) -> None:
        """Something happened to a connection."""

    def finding(self, finding: Finding, event: Event | None) -> None:
        """The event, or the whole capture, showed this."""

    def connection(self, connection: Connection) -> None:
        """It has ended."""

    def input(self, info: InputInfo) -> None:
        """All that came from one source; the last of all, when the session ends."""


@dataclass(slots=True)
class Progress:
    """How one source does."""

    info: InputInfo
    source: LiveSource
    last: int | None = None  # time of its newest packet
    arrived: float = 0.0  # monotonic seconds when that came
    ended: bool = False

    def takes(self, messages: Sequence[CmMessage]) -> None:
        """These messages came, one at least."""
        self.info.cm_messages += len(messages)
        self.info.cut_messages += sum(len(message.mad) < MAD_SIZE for message in messages)
        self.goes_on(messages[0].time, max(map(attrgetter("time"), messages)))

    def goes_on(self, first: int, newest: int) -> None:
        """Packets of these times came."""
        if self.last is None:
            self.info.first_time = first
        if self.last is None or newest > self.last:
            self.last = self.info.last_time = newest
            self.arrived = time.monotonic()

    def now(self) -> int | None:
        """The time at the source, as far as its packets tell; None before the first one."""
        if self.last is None:
            return None
        return self.last + int((time.monotonic() - self.arrived) * self.source.speed * SECOND)


class Session:
    """Takes batches of packets from any number of sources, and tells `listener`, which is set before the first one."""

    listener: Listener

    def __init__(
        self,
        sources: Sequence[LiveSource],
        policy: Policy,
        timewait_model: TimewaitModel = "auto",
        *,
        most: int | None = None,
        redact: bool = False,
    ) -> None:
        self.tracker = Tracker(self._emit, endpoint_names, timewait_model, most=most)
        self.sources = [Progress(InputInfo(source.name, LIVE), source) for source in sources]
        self._judge = Judge(policy)
        self._decode = Decoder().__call__  # a bound method costs less to call than an instance
        self._redact: Callable[[Frame], Frame] | None = None
        if redact:
            from ibcmtool.redaction import Redactor  # loads Scapy

            self._redact = Redactor()
        self._kept = 0

    def take(self, index: int, frames: Sequence[Frame]) -> None:
        """A batch of one source.

        Of the messages that come without another packet between them some hundred are decoded at once, then fed: code
        that runs many times in a row runs a quarter faster on today's processors than code that takes turns.
        """
        progress = self.sources[index]
        redact, decode, made_up = self._redact, self._decode, progress.source.made_up
        progress.info.frames += len(frames)
        messages: list[CmMessage] = []
        heard: list[Received] = []  # the same ones, if somebody wants them
        number, follows = self._kept, self.listener.follows
        for frame in frames:
            if redact is not None:
                frame = redact(frame)
            message = decode(frame, (), (index, number + 1))
            if isinstance(message, CmMessage):
                if made_up:  # what a source makes up around a MAD proves nothing
                    message = message._replace(psn=None, icrc_ok=None, headers=b"")
                number += 1
                messages.append(message)
                if follows:
                    heard.append(new(Received, (number, frame, message)))
                if len(messages) == CHUNK:
                    self._feed(progress, messages, heard)
            else:
                # Whether it is worth a look may have been decided by the message before it.
                self._feed(progress, messages, heard)
                self._other(progress, index, frame)
                number = self._kept
        self._feed(progress, messages, heard)

    def pass_time(self) -> None:
        """Let the time go on without packets: what is overdue comes to light."""
        now = self.now()
        if now is not None:
            self.tracker.advance(now - GRACE)

    def now(self) -> int | None:
        """The time at the sources (ns); None before the first packet."""
        return max((now for progress in self.sources if (now := progress.now()) is not None), default=None)

    def finish(self) -> None:
        """The end: every connection that is still open as it stands, then what concerns the whole."""
        self.tracker.finish()
        for progress in self.sources:
            progress.info.dropped = progress.source.dropped
        infos = [progress.info for progress in self.sources]
        for finding in self._judge.capture_end(infos, self.tracker.overruns):
            self.listener.finding(finding, None)
        for info in infos:
            self.listener.input(info)

    def _feed(self, progress: Progress, messages: list[CmMessage], heard: list[Received]) -> None:
        """Messages that are decoded; then none waits any more."""
        if not messages:
            return
        self._kept += len(messages)
        progress.takes(messages)
        note, hear, feed = self._judge.message, self.listener.hear, self.tracker.feed
        for message in messages:
            note(message)
        if heard:
            for one, message in zip(heard, messages, strict=True):
                hear(one)
                feed(message)
        else:
            for message in messages:
                feed(message)
        messages.clear()
        heard.clear()

    def _other(self, progress: Progress, index: int, frame: Frame) -> None:
        """A packet that holds no CM message."""
        numbered = Frame(index, self._kept + 1, *frame[2:])
        item = self._decode(numbered, self.tracker.watched) or neighbour(numbered)
        if isinstance(item, Neighbour):
            self._judge.neighbour(item)
        elif isinstance(item, DataPacket):
            self._kept += 1
            progress.goes_on(item.time, item.time)
            self.listener.hear(Received(self._kept, frame, item))
            self.tracker.feed_data(item)

    def _emit(self, event: Event) -> None:
        listener = self.listener
        if listener.follows:
            listener.event(event)
        for finding in self._judge.judge(event):
            listener.finding(finding, event)
        if event.kind == "ENDED":
            listener.connection(event.connection)
