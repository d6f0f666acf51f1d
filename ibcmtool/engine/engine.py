"""The engine: frames in, records out. It knows no file, socket or clock.

Here, and nowhere else, decoder, redaction, tracker and judge are put together. A driver (files.py, live.py) feeds it
the frames of its inputs in the order of their times, tells it what it knows of the inputs themselves (when they begin
and end, what they lost), lets time pass, and finishes it. All that comes of it goes to a `Sink`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from dissectors.recognition import MAD_SIZE
from ibcmtool.analysis import InputInfo, Policy
from ibcmtool.connections.traces import Traces
from ibcmtool.connections.tracker import Tracker
from ibcmtool.engine.sink import Received, Sink
from ibcmtool.model import Event, TimewaitModel
from ibcmtool.packets import CmMessage, DataPacket, Frame, Neighbour, Undelivered
from ibcmtool.rules import Judge, Rule
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.services import endpoint_names
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.notices import notice

Item = CmMessage | DataPacket | Neighbour | Undelivered  # what a frame can tell of


class Engine:
    """One analysis, of one input or of several.

    `inputs` has an entry for each input, whose index is the `file` of its frames; messages are counted there.
    `timewait_model`: see connections/timers.py. `most`: connections remembered at once (None: any number); the oldest
    end early when there are more. `redact`: addresses, GUIDs and private data come replaced (redaction). `rules`: those
    that are asked (None: the whole catalogue).
    `sink` may be set anew before the first frame. Times are ns by the common clock of the inputs.
    """

    def __init__(
        self,
        inputs: Sequence[InputInfo],
        sink: Sink,
        policy: Policy = "relaxed",
        timewait_model: TimewaitModel = "auto",
        *,
        most: int | None = None,
        redact: bool = False,
        rules: Iterable[Rule] | None = None,
    ) -> None:
        self.inputs = inputs
        self.sink = sink
        self._coverage = Coverage([info.path for info in inputs])
        self._traces = traces = Traces()
        timeless = any(info.timeless for info in inputs)
        self.judge = Judge(policy, self._coverage, rules, traces, timeless=timeless)
        self._tracker = Tracker(
            self._emit,
            endpoint_names,
            timewait_model,
            traces=traces,
            most=most,
            covered=self.judge.context.covered,
            timeless=timeless,
        )
        self._decoder = Decoder()
        self._redact = _redactor() if redact else None

    @property
    def watched(self) -> Container[int]:
        """The QPNs whose data packets are worth feeding; changes with every message."""
        return self._tracker.watched.qpns

    @property
    def evicted(self) -> int:
        """Connections that ended early because there were more than `most`."""
        return self._tracker.evicted

    # -- what is known of an input --------------------------------------------------------------------------------

    def begins(self, file: int, time: int) -> None:
        """An input was recording from this time on. Without it, its first CM message tells."""
        self._coverage.begin(file, time)

    def ends(self, file: int, time: int | None) -> None:
        """An input was read to its end, which is told before anything later is fed; None: it held no frame."""
        self._coverage.end(file, time)

    def lost(self, file: int, packets: int, before: int | None = None) -> None:
        """So many packets of an input were lost so far, before they could be read; the newest before this time."""
        info = self.inputs[file]
        if before is not None:
            self._traces.hosts.lost(file, before, packets - info.dropped)
        info.dropped = packets

    def stray(self, file: int, number: int, ahead: int, time: int) -> None:
        """A frame of an input, told before it is fed, is dated so far (ns) ahead; it is taken as of `time`."""
        self._traces.stray(file, number, ahead, time)

    # -- frames and time ------------------------------------------------------------------------------------------

    def feed(
        self, frame: Frame, place: tuple[int, int] | None = None, *, watch: bool = True, time: int | None = None
    ) -> Item | None:
        """One frame, with all the records that it and its time bring. Returns what it told of; None: nothing.

        place: input and frame number that records name instead of the frame's. watch: whether data packets count.
        time: by which the frame is taken instead of its own.
        """
        if self._redact is not None:
            frame = self._redact(frame)
        taken = frame if time is None else frame._replace(time=time)
        item: Item | None = self._decoder(taken, self._tracker.watched.qpns if watch else (), place)
        if item is None:
            item = notice(taken if place is None else taken._replace(file=place[0], number=place[1]))
        if item is not None:
            self.take(item, frame)
        return item

    def take(self, item: Item, frame: Frame | None = None) -> None:
        """What was decoded already, and the frame that it came from."""
        if isinstance(item, CmMessage):
            info = self.inputs[item.file]
            info.cm_messages += 1
            if len(item.mad) < MAD_SIZE:
                info.cut_messages += 1
            if info.made_up:  # what a source makes up around a MAD proves nothing
                item = replace(item, psn=None, icrc_ok=None, headers=b"")
                if info.sees_host and frame is not None:
                    own = item.source if frame.direction == "out" else item.destination
                    self._traces.hosts.note(item.file, own, item.time)
            if self._coverage.several:
                self._coverage.note(item)
            if frame is not None and self.sink.follows:
                self.sink.received(Received(item.frame, frame, item))
            self._tracker.feed(item)
        elif isinstance(item, Neighbour):
            self.judge.neighbour(item)
        elif isinstance(item, Undelivered):
            self.judge.undelivered(item)
        else:
            if frame is not None and self.sink.follows:
                self.sink.received(Received(item.frame, frame, item))
            self._tracker.feed_data(item)

    def advance(self, time: int) -> None:
        """Time passes without a frame: what is overdue comes to light. It never goes back."""
        self._tracker.advance(time)

    def finish(self) -> None:
        """The end: every connection that is still open as it stands, what concerns whole inputs, and the inputs."""
        self._tracker.finish()
        for finding in self.judge.capture_end(self.inputs, self._tracker.overruns):
            self.sink.finding(finding, None)
        for info in self.inputs:
            self.sink.input(info)

    def _emit(self, event: Event) -> None:
        sink = self.sink
        if sink.follows:
            sink.event(event)
        for finding in self.judge.judge(event):
            sink.finding(finding, event)
        if event.kind == "ENDED":
            sink.connection(event.connection)


def _redactor() -> Callable[[Frame], Frame]:
    from ibcmtool.redaction import Redactor  # loads Scapy

    return Redactor()
