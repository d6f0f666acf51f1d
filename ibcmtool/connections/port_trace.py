"""What the QP1 of one port counted, as one input shows it.

Each MAD that a port's QP1 sends has the next BTH PSN, a repetition and a REJ or DREP too (IBA 9.8.1; Linux begins at 0
when the port's QP1 is made). So numbers that run on prove that no message in between was missed and that the CM has
lived on; a gap says how many packets were not captured, not all of which need be CM messages; a number that was used
before, or that falls back near 0, shows a new life.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from ibcmtool.packets import CmMessage

PSN_RANGE: Final = 1 << 24
LONGEST_GAP: Final = 1 << 12  # a larger step is a restart, or hours without a CM message
NEAR_ZERO: Final = 1 << 10  # PSNs that a restarted port's QP1 has within its first MADs
FEW: Final = 4  # so many MADs of a new life may all be missing, so that its numbers seem to run on from the old one's
QUICKEST_RESTART: Final = 100_000_000  # ns
LATEST: Final = 10_000_000_000  # ns that a packet may be late
OVERTAKEN: Final = 64  # packets that may overtake one
MOST_BREAKS: Final = 256  # of one port that are remembered, the newest

Standing = Literal["next", "gap", "late", "copy", "restart"]  # of a message towards those of its sender before it


@dataclass(slots=True, eq=False)
class Break:
    """Two messages of a port, one captured after the other, whose PSNs do not follow each other."""

    before: CmMessage
    after: CmMessage
    missing: int  # packets between them, of a new life those before `after`, not captured; late ones are taken off
    restart: bool  # the port's QP1 began to count anew

    def touches(self, start: int, end: int) -> bool:
        """Whether some of the time between the two messages lies between these times (ns)."""
        return self.after.time > start and self.before.time < end


def numbered_before(one: CmMessage, two: CmMessage) -> bool:
    """Whether one message was sent before another of its port, by their numbers, if both are of one life."""
    if one.source != two.source or one.psn is None or two.psn is None:
        return False
    return 0 < (two.psn - one.psn) % PSN_RANGE < LONGEST_GAP


class Trace:
    """What one port's QP1 sent, as one input shows it."""

    def __init__(self, message: CmMessage, psn: int) -> None:
        self.first = self.last = message  # the last one in the order of PSNs
        self.next = 0  # what would leave no gap
        self.late = 0  # ns that the message which came latest stands behind one that was sent after it
        self.breaks: deque[Break] = deque(maxlen=MOST_BREAKS)
        self.delay = 0  # ns that the newest late message stands behind the first one that overtook it
        self._open: deque[Break] = deque(maxlen=MOST_BREAKS)  # gaps of this life that late messages may fill
        self._filled: deque[int] = deque(maxlen=MOST_BREAKS)  # PSNs that came late; their copies fill no other gap
        # What this life sent with its first PSNs. A restarted port uses them again, for other messages.
        self._early: dict[int, int] = {}
        self.seen = self.missing = 0  # packets, of all lives
        self._go_on(message, psn)

    def note(self, message: CmMessage, psn: int) -> Standing:
        """The next message of this port in the input."""
        if psn == self.next and psn >= FEW:
            self._go_on(message, psn)
            return "next"
        return self._jump(message, psn)

    def _go_on(self, message: CmMessage, psn: int) -> None:
        self.last, self.next = message, (psn + 1) % PSN_RANGE
        self.seen += 1
        if psn < NEAR_ZERO:
            self._early[psn] = hash(message.mad)

    def continues(self, message: CmMessage, psn: int) -> bool:
        """Whether this message, of another input, can be of the same life."""
        if (psn - self.next) % PSN_RANGE < LONGEST_GAP:
            return True
        if psn in self._early:
            return self.has_sent(message, psn)
        return (self.first.psn or 0) < NEAR_ZERO

    def has_sent(self, message: CmMessage, psn: int) -> bool:
        """Whether it is one of the first messages of this life."""
        return self._early.get(psn) == hash(message.mad)

    def _jump(self, message: CmMessage, psn: int) -> Standing:
        last, skipped = self.last, (psn - self.next) % PSN_RANGE
        if psn == last.psn and message.mad == last.mad:
            return "copy"
        if skipped < LONGEST_GAP:
            gap = Break(last, message, skipped, restart=False)
            if skipped:
                self._open.append(gap)
                self.missing += skipped
            if skipped or message.time - last.time > QUICKEST_RESTART:
                self.breaks.append(gap)
            self._go_on(message, psn)
            return "gap" if skipped else "next"
        if psn == last.psn:  # this QP1 does not count: nothing can be said of it
            return self._lose_count(message, psn)
        if skipped >= PSN_RANGE - LONGEST_GAP:
            if psn in self._filled or self.has_sent(message, psn):
                return "copy"
            if psn not in self._early and self._is_late(message, psn):
                self.seen += 1
                return "late"
        if psn >= NEAR_ZERO:
            return self._lose_count(message, psn)
        restart = Break(last, message, psn, restart=True)
        self.breaks.append(restart)
        self._early.clear()
        self._filled.clear()
        self._open.clear()
        if psn:
            self._open.append(restart)
            self.missing += psn
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
                self.missing -= 1
                self._filled.append(psn)
                if not gap.missing:
                    self._open.remove(gap)
                    wraps = (gap.after.psn or 0) < (gap.before.psn or 0)  # or is a new life
                    if gap in self.breaks and not wraps:
                        self.breaks.remove(gap)
                return True
        # Before the first that was captured, or a copy of one that is not remembered.
        if message.time - self.last.time > LATEST:
            return False
        if psn >= NEAR_ZERO:
            return True
        self.breaks.append(Break(self.last, message, 0, restart=False))  # or a new life's
        return ((self.first.psn or 0) - psn) % PSN_RANGE < OVERTAKEN


def _is_within(psn: int, gap: Break) -> bool:
    begin = (gap.before.psn or 0) + 1
    return (psn - begin) % PSN_RANGE < ((gap.after.psn or 0) - begin) % PSN_RANGE


def anew(gap: Break) -> bool:
    """Whether the numbers do not run on over a gap: a restart, or so many missing that it may be one."""
    return gap.restart or ((gap.after.psn or 0) - (gap.before.psn or 0)) % PSN_RANGE > LONGEST_GAP
