"""Whether captures show both directions, as far as their connections tell.

No single message shows it. Bounded by the number of ports.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Step
from ibcmtool.packets import Address

ANSWERS: Final = frozenset({"MRA", "REP", "RTU", "DREP", "APR", "SIDR_REP"})  # there was a message that they answer
ABOUT_A_MESSAGE: Final = (0, 1)  # Message Rejected: REQ, REP

SETTLED: Final = 10_000_000_000  # ns after the first message; until then connections have begun before the capture
FRAMES_KEPT: Final = 8


class Completeness:
    """Counts exchanges that show one direction."""

    def __init__(self) -> None:
        self.exchanges = 0  # connections that have ended
        self.one_sided = 0  # those of which one direction was seen
        self.surely_one_sided = 0  # and not because the capture began inside them
        self.silent: dict[Address, Silence] = {}  # by the address that should have spoken

    def ended(self, connection: Connection, start: int) -> None:
        """A connection with all that was seen of it. start: of the capture, in ns."""
        self.exchanges += 1
        history = connection.history
        if not (history.isupper() or history.islower()):  # one letter for each message, capitals for one of the sides
            return
        answers = [step for step in connection.steps if _answers(step)]
        if answers:
            self.one_sided += 1
            self.surely_one_sided += connection.request is not None or connection.opened > start + SETTLED
            silence = self.silent.setdefault(answers[0].message.destination, Silence())
            silence.exchanges += 1
            silence.answers += len(answers)
            if len(silence.frames) < FRAMES_KEPT:
                silence.frames += tuple((step.message.file, step.message.frame) for step in answers)


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
