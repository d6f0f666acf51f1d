"""What the QP1 of each port counted: the best witness of what a capture misses, and of hosts that restarted.

Where the time of an input goes back, a new stretch of it begins, and nothing is compared across. Bounded by the number
of ports and inputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from ibcmtool.connections.matching import same_mad
from ibcmtool.connections.port_trace import (
    FEW,
    LATEST,
    LONGEST_GAP,
    MOST_BREAKS,
    NEAR_ZERO,
    PSN_RANGE,
    Break,
    Standing,
    Trace,
    anew,
)
from ibcmtool.connections.watched_hosts import WatchedHosts
from ibcmtool.model import Step
from ibcmtool.packets import Address, CmMessage, Transport

DISORDER: Final = 50_000_000  # ns by which messages that cross on the wire, or are captured out of order, are apart
MOST_JUMPS: Final = 64  # back in time, of one input, that are remembered, the newest


class Count(NamedTuple):
    """What one port's QP1 numbered, by one input."""

    transport: Transport
    seen: int  # packets
    missing: int  # packets whose numbers were skipped


class Input:
    """Who speaks in one input, and how its times go."""

    def __init__(self, time: int) -> None:
        self.traces: dict[Address, Trace] = {}  # of the newest stretch of time
        self._earlier: dict[Address, Count] = {}  # of the stretches before it
        self.latest = self.previous = time
        self.jumps: deque[int] = deque(maxlen=MOST_JUMPS)  # frames at which time goes back, and around strays
        self.largest = 0  # step back, in ns
        self.frame = self.time = 0  # of the message that makes it
        self.steps = 0  # messages that are earlier than one before them by more than DISORDER
        self.ahead: tuple[int, int, int] | None = None  # the first stray: frame, ns ahead, time by which it is taken
        self.strays = 0

    def step_back(self, message: CmMessage) -> None:
        """A message that is earlier than one before it."""
        back = self.latest - message.time
        self.steps += back > DISORDER
        if self.previous - message.time > DISORDER:
            self.jump(message.frame)
        if back > self.largest:
            self.largest, self.frame, self.time = back, message.frame, message.time

    def jump(self, frame: int) -> None:
        """A new stretch of time begins with this frame."""
        self.jumps.append(frame)
        self._earlier.update(self.counts())
        self.traces.clear()

    def stray(self, number: int, ahead: int, time: int) -> None:
        """A frame from the future: it belongs to no stretch of time."""
        self.ahead = self.ahead or (number, ahead, time)
        self.strays += 1
        self.jumps += [number, number + 1]

    def goes_on(self, frame: int) -> bool:
        """Whether time has not gone back since this frame."""
        return not self.jumps or frame >= self.jumps[-1]

    def counts(self) -> dict[Address, Count]:
        """How many packets of each port were seen, and how many are missing."""
        counts = dict(self._earlier)
        for address, trace in self.traces.items():
            known = counts.get(address, Count(trace.first.transport, 0, 0))
            counts[address] = Count(known.transport, known.seen + trace.seen, known.missing + trace.missing)
        return counts

    def shows(self, address: Address) -> bool:
        """Whether this port sent any of its messages."""
        return address in self.traces or address in self._earlier


class Traces:
    """The traces of all ports. Messages of live probes, which know no PSN, leave none."""

    def __init__(self) -> None:
        self.inputs: dict[int, Input] = {}
        self.hosts = WatchedHosts()
        self.cloned: set[int] = set()  # CA GUIDs that were shown to be at two machines (stale_duties.py)
        self._moves: dict[
            Address, tuple[int, int]
        ] = {}  # the newest of each: last of the old machine, first of the new
        self._unnumbered: set[Address] = set()

    def note(self, message: CmMessage) -> Standing:
        """A CM message, in the order of its input."""
        time = message.time
        known = self.inputs.get(message.file)
        if known is None:
            known = self.inputs[message.file] = Input(time)
        if time < known.latest:
            known.step_back(message)
        else:
            known.latest = time
        known.previous = time
        psn = message.psn
        if psn is None:
            self._unnumbered.add(message.source)
            return "next"
        trace = known.traces.get(message.source)
        if trace is None:
            trace = known.traces[message.source] = Trace(message, psn)
            return self._begins(trace, message, psn)
        standing = trace.note(message, psn)
        if standing == "restart" and any(same_mad(gap.after, message) for gap in self._restarts(message)):
            return "copy"  # another input has shown it already
        return standing

    def stray(self, file: int, number: int, ahead: int, time: int) -> None:
        """A frame, of a number yet to come, is dated so far (ns) ahead; it is taken as of `time`."""
        self.inputs.setdefault(file, Input(time)).stray(number, ahead, time)

    def moved(self, before: CmMessage, after: CmMessage) -> None:
        """Another machine has a port's address since: its numbers are others, even where they seem to run on."""
        self._moves[after.source] = (before.time, after.time)

    def speakers(self) -> set[Address]:
        """Whoever sent a CM message, in any input."""
        return self._unnumbered.union(*(known.counts() for known in self.inputs.values()))

    def in_one_stretch(self, steps: Iterable[Step]) -> bool:
        """Whether time went on as it should while these messages were captured.

        Once it has, in one of several inputs, its clock is no longer that of the others.
        """
        if not any(known.jumps for known in self.inputs.values()):
            return True
        stretches = {
            (file, bisect_right(self.inputs[file].jumps, frame))
            for step in steps
            for file, frame in ((step.message.file, step.message.frame), *((s.file, s.frame) for s in step.sightings))
            if file in self.inputs
        }
        if len(self.inputs) > 1:
            return not any(jumps for _, jumps in stretches)
        return len(stretches) <= 1

    def by_clock_of(self, step: Step) -> set[int]:
        """The inputs that captured it, and whose clocks were not set since."""
        seen = ((step.message.file, step.message.frame), *((copy.file, copy.frame) for copy in step.sightings))
        return {file for file, frame in seen if file in self.inputs and self.inputs[file].goes_on(frame)}

    def restart(self, address: Address, start: int, end: int) -> Break | None:
        """The first restart of a port that happened between two messages of it, the later one in (start, end]."""
        for gap in self._breaks(address):
            if gap.restart and start < gap.after.time <= end:
                return gap
        return None

    def gap(self, address: Address, start: int, end: int, *, new_lives: bool = True) -> Break | None:
        """Where packets of a port are missing between two times, in every input that shows the port there.

        new_lives: those too that were missed between a restart and the first packet that shows it.
        """
        found: Break | None = None
        for trace in self._of(address):
            gaps = [
                gap
                for gap in trace.breaks
                if gap.missing and gap.touches(start, end) and (new_lives or not gap.restart)
            ]
            if gaps:
                found = found or gaps[0]
            elif trace.first.time <= start and trace.last.time >= end:
                return None  # this one has all of it
        return found or self._between_inputs(address, start, end)

    def _between_inputs(self, address: Address, start: int, end: int) -> Break | None:
        """Where packets of a port are missing that it sent when one input had ended and the next had not begun."""
        known: Trace | None = None
        for trace in sorted(self._of(address), key=lambda each: each.first.time):
            if known is not None and known.last.time < trace.first.time:
                skipped = ((trace.first.psn or 0) - known.next) % PSN_RANGE
                gap = Break(known.last, trace.first, skipped, restart=False)
                if 0 < skipped < LONGEST_GAP and gap.touches(start, end):
                    return gap
            if known is None or known.last.time < trace.last.time:
                known = trace
        return None

    def fall(self, address: Address, start: int, end: int) -> Break | None:
        """Where the numbers of a port began anew as by a wrap or a late message: a restart may look the same."""
        for gap in self._breaks(address):
            if not gap.restart and start < gap.after.time <= end and (gap.after.psn or 0) < (gap.before.psn or 0):
                return gap
        return None

    def runs_on(self, address: Address, start: int, end: int, inputs: Container[int] | None = None) -> bool:
        """Whether some input shows that nothing of this port was missed from `start` to `end`, and that it lived on.

        inputs: those that may show it, if not all.
        """
        left, came = self._moves.get(address, (end, start))
        if left < end and came > start:
            return False
        for trace in self._of(address):
            if inputs is not None and trace.first.file not in inputs:
                continue
            if trace.first.time > start or trace.last.time < end:
                continue
            if len(trace.breaks) == MOST_BREAKS and trace.breaks[0].before.time > start:
                continue
            if not any(
                (gap.missing or gap.restart or (gap.after.psn or 0) < FEW) and gap.touches(start, end)
                for gap in trace.breaks
            ):
                return True
        return False

    def outlives(self, address: Address, start: int, time: int) -> bool:
        """Whether a port was heard after `time`, and has not begun to count anew since `start`, when it was heard."""
        for trace in self._of(address):
            if trace.first.time > start or trace.last.time <= time:
                continue
            if not any(anew(gap) and gap.touches(start, time) for gap in trace.breaks):
                return True
        return False

    def _begins(self, trace: Trace, message: CmMessage, psn: int) -> Standing:
        """The first message of a port in an input. Another input may have shown it before; has it restarted since?"""
        known: Trace | None = None
        for other in self._of(message.source):
            if other is not trace and (known is None or other.last.time > known.last.time):
                known = other
        if known is None or message.time <= known.last.time:
            return "next"
        if psn >= NEAR_ZERO:
            older = 0 < ((known.first.psn or 0) - psn) % PSN_RANGE < LONGEST_GAP
            if older and message.time - known.last.time > LATEST:  # as a clock was set that stamped one of the inputs
                self.inputs[known.first.file].jump(known.last.frame + 1)
            return "next"
        if known.continues(message, psn):
            if psn < (known.last.psn or 0) and not known.has_sent(message, psn):
                trace.breaks.append(Break(known.last, message, 0, restart=False))
            return "next"
        trace.breaks.append(Break(known.last, message, 0, restart=True))
        return "restart"

    def _restarts(self, message: CmMessage) -> Iterator[Break]:
        """Those of its sender that other inputs have shown."""
        for trace in self._of(message.source):
            if trace.first.file != message.file:
                yield from (gap for gap in trace.breaks if gap.restart)

    def knows(self, address: Address) -> bool:
        """Whether this port was heard, by messages with a PSN or, from live probes, without."""
        return address in self._unnumbered or any(known.shows(address) for known in self.inputs.values())

    def newest(self, address: Address) -> CmMessage | None:
        """The newest message of this port in any input."""
        return max((trace.last for trace in self._of(address)), key=lambda message: message.time, default=None)

    def delay(self, message: CmMessage) -> int:
        """How far (ns) this message, the newest of its input, stands behind one that was sent after it."""
        return self.inputs[message.file].traces[message.source].delay

    def disorder(self, file: int) -> int:
        """How far (ns) messages of an input stand behind others that their sender sent later."""
        return max((trace.late for trace in self.inputs[file].traces.values()), default=0)

    def _breaks(self, address: Address) -> Iterator[Break]:
        for trace in self._of(address):
            yield from trace.breaks

    def _of(self, address: Address) -> Iterator[Trace]:
        """What each input shows of a port."""
        for known in self.inputs.values():
            if address in known.traces:
                yield known.traces[address]
