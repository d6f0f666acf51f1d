"""What the QP1 of each port counted: the best witness of what a capture misses, and of hosts that restarted.

Each MAD that a port's QP1 sends has the next BTH PSN, a repetition and a REJ or DREP too (IBA 9.8.1; Linux begins at 0
when the port's QP1 is made). So numbers that run on prove that no message in between was missed and that the CM has
lived on; a gap says how many packets were not captured, not all of which need be CM messages; a number that was used
before, or that falls back near 0, shows a new life. Bounded by the number of ports and inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ibcmtool.connections.matching import same_mad
from ibcmtool.packets import Address, CmMessage

PSN_RANGE: Final = 1 << 24
LONGEST_GAP: Final = 1 << 12  # a larger step is a restart, or hours without a CM message
NEAR_ZERO: Final = 1 << 10  # PSNs that a restarted port's QP1 has within its first MADs
DISORDER: Final = 50_000_000  # ns by which messages that cross on the wire, or are captured out of order, are apart
LATEST: Final = 10_000_000_000  # ns that a packet may be late
OVERTAKEN: Final = 64  # packets that may overtake one
MOST_BREAKS: Final = 256  # of one port that are remembered, the newest

Standing = Literal["next", "gap", "late", "copy", "restart"]  # of a message towards those of its sender before it


@dataclass(slots=True, eq=False)
class Break:
    """Two messages of a port, one captured after the other, whose PSNs do not follow each other."""

    before: CmMessage
    after: CmMessage
    missing: int  # packets between them that were not captured; late ones are taken off
    restart: bool  # the port's QP1 began to count anew


class Trace:
    """What one port's QP1 sent, as one input shows it."""

    def __init__(self, message: CmMessage, psn: int) -> None:
        self.first = self.last = message  # the last one in the order of PSNs
        self.next = 0  # what would leave no gap
        self.late = 0  # ns that the message which came latest stands behind one that was sent after it
        self.breaks: deque[Break] = deque(maxlen=MOST_BREAKS)
        self.delay = 0  # ns that the newest late message stands behind the first one that overtook it
        self._open: deque[Break] = deque(maxlen=MOST_BREAKS)  # gaps of this life that late messages may fill
        # What this life sent with its first PSNs. A restarted port uses them again, for other messages.
        self._early: dict[int, int] = {}
        self._go_on(message, psn)

    def note(self, message: CmMessage, psn: int) -> Standing:
        """The next message of this port in the input."""
        if psn == self.next and psn:  # 0 after the last number may also be a new life
            self._go_on(message, psn)
            return "next"
        return self._jump(message, psn)

    def _go_on(self, message: CmMessage, psn: int) -> None:
        self.last, self.next = message, (psn + 1) % PSN_RANGE
        if psn < NEAR_ZERO:
            self._early[psn] = hash(message.mad)

    def continues(self, message: CmMessage, psn: int) -> bool:
        """Whether this message, of another input, can be of the same life."""
        if (psn - self.next) % PSN_RANGE < LONGEST_GAP:
            return True
        if psn in self._early:
            return self._early[psn] == hash(message.mad)
        return (self.first.psn or 0) < NEAR_ZERO

    def _jump(self, message: CmMessage, psn: int) -> Standing:
        last, skipped = self.last, (psn - self.next) % PSN_RANGE
        if psn == last.psn and message.mad == last.mad:
            return "copy"
        if skipped < LONGEST_GAP:
            gap = Break(last, message, skipped, restart=False)
            self.breaks.append(gap)
            if skipped:
                self._open.append(gap)
            self._go_on(message, psn)
            return "gap" if skipped else "next"
        if psn == last.psn:  # this QP1 does not count: nothing can be said of it
            return self._lose_count(message, psn)
        if skipped >= PSN_RANGE - LONGEST_GAP:
            if self._early.get(psn) == hash(message.mad):
                return "copy"
            if psn not in self._early and self._is_late(message, psn):
                return "late"
        if psn >= NEAR_ZERO:
            return self._lose_count(message, psn)
        self.breaks.append(Break(last, message, 0, restart=True))
        self._early.clear()
        self._open.clear()
        self._go_on(message, psn)
        return "restart"

    def _lose_count(self, message: CmMessage, psn: int) -> Standing:
        """Neither a gap of known size nor the first numbers of a new life: anything may have been missed."""
        self.breaks.append(Break(self.last, message, 1, restart=False))
        self._go_on(message, psn)
        return "gap"

    def _is_late(self, message: CmMessage, psn: int) -> bool:
        """Whether it was sent before others that were captured before it."""
        self.late = max(self.late, message.time - self.last.time, 1)
        self.delay = message.time - self.last.time
        for gap in self._open:  # mostly the oldest
            if _is_within(psn, gap):
                self.delay = message.time - gap.after.time
                gap.missing -= 1
                if not gap.missing:
                    self._open.remove(gap)
                    if gap in self.breaks:
                        self.breaks.remove(gap)
                return True
        # Before the first that was captured, or a copy of one that is not remembered.
        if message.time - self.last.time > LATEST:
            return False
        return psn >= NEAR_ZERO or ((self.first.psn or 0) - psn) % PSN_RANGE < OVERTAKEN


def _is_within(psn: int, gap: Break) -> bool:
    begin = (gap.before.psn or 0) + 1
    return (psn - begin) % PSN_RANGE < ((gap.after.psn or 0) - begin) % PSN_RANGE


def _anew(gap: Break) -> bool:
    """Whether the numbers do not run on over a gap: a restart, or so many missing that it may be one."""
    return gap.restart or ((gap.after.psn or 0) - (gap.before.psn or 0)) % PSN_RANGE > LONGEST_GAP


class Traces:
    """The traces of all ports. Messages of live probes, which know no PSN, leave none."""

    def __init__(self) -> None:
        self.inputs: dict[int, dict[Address, Trace]] = {}  # by input and sender
        self.cloned: set[int] = set()  # CA GUIDs that were shown to be at two machines (stale_duties.py)
        self._unnumbered: set[Address] = set()

    def note(self, message: CmMessage) -> Standing:
        """A CM message, in the order of its input."""
        psn = message.psn
        if psn is None:
            self._unnumbered.add(message.source)
            return "next"
        sources = self.inputs.get(message.file)
        if sources is None:
            sources = self.inputs[message.file] = {}
        trace = sources.get(message.source)
        if trace is None:
            trace = sources[message.source] = Trace(message, psn)
            return self._begins(trace, message, psn)
        standing = trace.note(message, psn)
        if standing == "restart" and any(same_mad(gap.after, message) for gap in self._restarts(message)):
            return "copy"  # another input has shown it already
        return standing

    def restart(self, address: Address, start: int, end: int) -> Break | None:
        """The first restart of a port that happened between two messages of it, the later one in (start, end]."""
        for gap in self._breaks(address):
            if gap.restart and start < gap.after.time <= end:
                return gap
        return None

    def gap(self, address: Address, start: int, end: int) -> Break | None:
        """Where packets of a port are missing between two times, in every input that shows the port there."""
        found: Break | None = None
        for sources in self.inputs.values():
            trace = sources.get(address)
            if trace is None or trace.first.time > start:
                continue
            gaps = [gap for gap in trace.breaks if gap.missing and gap.after.time > start and gap.before.time < end]
            if gaps:
                found = found or gaps[0]
            elif trace.last.time >= end:
                return None  # this one has all of it
        return found

    def runs_on(self, address: Address, start: int, end: int) -> bool:
        """Whether some input shows that nothing of this port was missed from `start` to `end`, and that it lived on."""
        for sources in self.inputs.values():
            trace = sources.get(address)
            if trace is None or trace.first.time > start or trace.last.time < end:
                continue
            if len(trace.breaks) == MOST_BREAKS and trace.breaks[0].before.time > start:
                continue
            if not any(
                (gap.missing or gap.restart or gap.after.psn == 0) and gap.after.time > start and gap.before.time < end
                for gap in trace.breaks
            ):
                return True
        return False

    def outlives(self, address: Address, start: int, time: int) -> bool:
        """Whether a port was heard after `time`, and has not begun to count anew since `start`, when it was heard."""
        for sources in self.inputs.values():
            trace = sources.get(address)
            if trace is None or trace.first.time > start or trace.last.time <= time:
                continue
            if not any(_anew(gap) and gap.after.time > start and gap.before.time < time for gap in trace.breaks):
                return True
        return False

    def _begins(self, trace: Trace, message: CmMessage, psn: int) -> Standing:
        """The first message of a port in an input. Another input may have shown it before; has it restarted since?"""
        known: Trace | None = None
        for sources in self.inputs.values():
            other = sources.get(message.source, trace)
            if other is not trace and (known is None or other.last.time > known.last.time):
                known = other
        if known is None or psn >= NEAR_ZERO or message.time <= known.last.time or known.continues(message, psn):
            return "next"
        trace.breaks.append(Break(known.last, message, 0, restart=True))
        return "restart"

    def _restarts(self, message: CmMessage) -> Iterator[Break]:
        """Those of its sender that other inputs have shown."""
        for file, sources in self.inputs.items():
            if file != message.file and message.source in sources:
                yield from (gap for gap in sources[message.source].breaks if gap.restart)

    def knows(self, address: Address) -> bool:
        """Whether this port was heard, by messages with a PSN or, from live probes, without."""
        return address in self._unnumbered or any(address in sources for sources in self.inputs.values())

    def delay(self, message: CmMessage) -> int:
        """How far (ns) this message, the newest of its input, stands behind one that was sent after it."""
        return self.inputs[message.file][message.source].delay

    def disorder(self, file: int) -> int:
        """How far (ns) messages of an input stand behind others that their sender sent later."""
        return max((trace.late for trace in self.inputs.get(file, {}).values()), default=0)

    def _breaks(self, address: Address) -> Iterator[Break]:
        for sources in self.inputs.values():
            if address in sources:
                yield from sources[address].breaks
