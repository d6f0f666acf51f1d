"""How complete the captures are, as far as their CM messages tell: directions, numbers that a host skipped, disorder.

No single message shows it. Bounded by the number of ports and inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.traces import DISORDER, LONGEST_GAP, PSN_RANGE
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Step
from ibcmtool.packets import Address, CmMessage, Transport

ANSWERS: Final = frozenset({"MRA", "REP", "RTU", "DREP", "APR", "SIDR_REP"})  # there was a message that they answer
ABOUT_A_MESSAGE: Final = (0, 1)  # Message Rejected: REQ, REP

SETTLED: Final = 10_000_000_000  # ns after the first message; until then connections have begun before the capture
MOST_JUMPS: Final = 64
FRAMES_KEPT: Final = 8


class Completeness:
    """Counts what is in the captures."""

    def __init__(self) -> None:
        self.inputs: dict[int, Input] = {}
        self._start: int | None = None
        self.exchanges = 0  # connections that have ended
        self.one_sided = 0  # those of which one direction was seen
        self.surely_one_sided = 0  # and not because the capture began inside them
        self.silent: dict[Address, Silence] = {}  # by the address that should have spoken

    def note(self, message: CmMessage) -> None:
        """A CM message, in the order of its input."""
        time, source = message.time, message.source
        known = self.inputs.get(message.file)
        if known is None:
            known = self._begin(message.file, time)
        if time < known.latest:
            known.step_back(message)
        else:
            known.latest = time
        known.previous = time
        numbers, psn = known.sources.get(source), message.psn
        if numbers is None:
            known.sources[source] = Numbers(psn, message.transport)
        elif psn is not None:
            if psn == numbers.next:
                numbers.seen += 1
                numbers.next = psn + 1
            else:
                numbers.jump(psn)

    def stray(self, file: int, number: int, ahead: int, time: int) -> None:
        """A frame, of a number yet to come, is dated so far (ns) ahead; it is taken as of `time`."""
        if file not in self.inputs:
            self._begin(file, time)
        self.inputs[file].stray(number, ahead, time)

    def _begin(self, file: int, time: int) -> Input:
        self._start = time if self._start is None else min(self._start, time)
        known = self.inputs[file] = Input(time)
        return known

    def ended(self, connection: Connection) -> None:
        """A connection with all that was seen of it."""
        self.exchanges += 1
        history = connection.history
        if not (history.isupper() or history.islower()):  # one letter for each message, capitals for one of the sides
            return
        answers = [step for step in connection.steps if _answers(step)]
        if answers:
            self.one_sided += 1
            self.surely_one_sided += connection.request is not None or connection.opened > (self._start or 0) + SETTLED
            silence = self.silent.setdefault(answers[0].message.destination, Silence())
            silence.exchanges += 1
            silence.answers += len(answers)
            if len(silence.frames) < FRAMES_KEPT:
                silence.frames += tuple((step.message.file, step.message.frame) for step in answers)

    def in_one_stretch(self, connections: Iterable[Connection]) -> bool:
        """Whether time went on as it should while the messages of these connections were captured."""
        frames: dict[int, list[int]] = {}
        for connection in connections:
            for step in connection.steps:
                frames.setdefault(step.message.file, []).append(step.message.frame)
        return not any(
            min(numbers) < jump <= max(numbers)
            for file, numbers in frames.items()
            if file in self.inputs
            for jump in self.inputs[file].jumps
        )

    def speakers(self) -> set[Address]:
        """Whoever sent a CM message, in any input."""
        return {source for known in self.inputs.values() for source in known.sources}


class Input:
    """Who speaks in one input, and its times."""

    __slots__ = ("ahead", "frame", "jumps", "largest", "latest", "previous", "sources", "steps", "strays", "time")

    def __init__(self, time: int) -> None:
        self.sources: dict[Address, Numbers] = {}
        self.latest = self.previous = time
        self.jumps: list[int] = []  # frames at which time goes back, and around strays: the first ones
        self.largest = 0  # step back, in ns
        self.frame = self.time = 0  # of the message that makes it
        self.steps = 0  # messages that are earlier than one before them by more than DISORDER
        self.ahead: tuple[int, int, int] | None = None  # the first stray: frame, ns ahead, time by which it is taken
        self.strays = 0

    def step_back(self, message: CmMessage) -> None:
        """A message that is earlier than one before it."""
        back = self.latest - message.time
        self.steps += back > DISORDER
        if self.previous - message.time > DISORDER and len(self.jumps) < MOST_JUMPS:
            self.jumps.append(message.frame)
        if back > self.largest:
            self.largest, self.frame, self.time = back, message.frame, message.time

    def stray(self, number: int, ahead: int, time: int) -> None:
        """A frame from the future: it belongs to no stretch of time."""
        self.ahead = self.ahead or (number, ahead, time)
        self.strays += 1
        if len(self.jumps) < MOST_JUMPS:
            self.jumps += [number, number + 1]


class Numbers:
    """The BTH PSNs of one port's QP1 in one input."""

    __slots__ = ("missing", "next", "seen", "transport")

    def __init__(self, psn: int | None, transport: Transport) -> None:
        self.transport = transport
        self.next = None if psn is None else psn + 1  # what would leave no gap
        self.seen, self.missing = 1, 0

    def jump(self, psn: int) -> None:
        """A packet with another number than the next."""
        skipped = 0 if self.next is None else (psn - self.next) % PSN_RANGE
        if skipped == PSN_RANGE - 1:
            return  # the packet before, captured again
        self.seen += 1
        if skipped < LONGEST_GAP:
            self.missing += skipped
        elif skipped >= PSN_RANGE - LONGEST_GAP - 1:
            # Out of order, and taken for missing before; or captured again.
            self.missing = max(self.missing - 1, 0)
            return
        self.next = psn + 1


class Silence:
    """What was answered, but is not in the capture."""

    __slots__ = ("answers", "exchanges", "frames")

    def __init__(self) -> None:
        self.exchanges = self.answers = 0
        self.frames: tuple[tuple[int, int], ...] = ()


def _answers(step: Step) -> bool:
    """Whether its sender got a message of the other side before."""
    fields = step.message.fields
    if isinstance(fields, Rej):
        return fields.reason != TIMEOUT and fields.message_rejected in ABOUT_A_MESSAGE
    return step.message.type in ANSWERS
