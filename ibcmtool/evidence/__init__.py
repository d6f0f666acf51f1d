"""What a finding rests on, and how sure that makes it: no rule chooses its confidence.

A rule names its grounds; each was proved by frames, or has nothing against it, or has a sign that weakens it. The
confidence follows: certain where all are proved, probable where none is contradicted, possible where one is weakened.
Where one is refuted there is no finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from ibcmtool.connections.port_trace import LATEST, NEAR_ZERO, numbered_before
from ibcmtool.connections.traces import DISORDER
from ibcmtool.model import Confidence, Connection, End, Implementation, Step, Timewait
from ibcmtool.packets import CmMessage

Assumption = Literal[
    "order",  # one frame came before another
    "complete",  # no CM message of a host was missed in an interval
    "same machine",  # the CM at this address is the one from before
    "same life",  # it has not restarted since
    "same use",  # a QPN or id still belongs to the connection that it was given to
    "received",  # what was seen arrived
    "not a copy",
    "timer",  # how long somebody waited
    "meaning",  # a field, or an answer, means what we take it for
]
Strength = Literal["proved", "unopposed", "weakened", "refuted"]
_STRENGTHS: dict[Confidence, Strength] = {"certain": "proved", "probable": "unopposed", "possible": "weakened"}


class Ground(NamedTuple):
    """One assumption that a finding rests on, and what the frames say of it."""

    assumption: Assumption
    strength: Strength
    sign: str = ""  # what speaks against it, in words
    frames: tuple[tuple[int, int], ...] = ()  # (file, frame number) that show it


def proved(assumption: Assumption) -> Ground:
    """It holds in every course of events that fits the frames."""
    return Ground(assumption, "proved")


def unopposed(assumption: Assumption) -> Ground:
    """Nothing that was captured speaks against it."""
    return Ground(assumption, "unopposed")


def weakened(assumption: Assumption) -> Ground:
    """Something that was captured, or that could not be, makes it doubtful."""
    return Ground(assumption, "weakened")


def established(connection: Connection) -> Ground:
    """Both ends took the connection for open: an RTU or data were seen."""
    return Ground("received", "proved" if connection.established is not None else "unopposed")


def timer(timewait: Timewait) -> Ground:
    """The fields that this timewait is computed from were captured."""
    return Ground("timer", "weakened" if timewait.assumed else "proved")


def one_clock(*steps: Step, otherwise: Strength = "unopposed") -> Ground:
    """One input holds all these messages, so that one clock stamped their times.

    otherwise: what it makes of the ground that their order, or the time between them, is by several clocks.
    """
    return Ground("order", "proved" if len({step.message.file for step in steps}) == 1 else otherwise)


def in_order(earlier: CmMessage, later: CmMessage) -> Ground:
    """One was sent before the other: by their port's numbers, or as messages that cross are not so far apart."""
    if numbered_before(earlier, later):
        return proved("order")
    if numbered_before(later, earlier):
        if (later.psn or 0) >= NEAR_ZERO:
            return Ground("order", "refuted")
        return Ground("order", "weakened", "by its number it may have been sent before, and held up")
    if later.time - earlier.time <= DISORDER:
        return weakened("order")
    return proved("order") if earlier.file == later.file else unopposed("order")


def not_held_up(said: Iterable[Step], since: int, last: int) -> Ground:
    """What came of a port at `last` was sent after `since`, as messages of it show, or one packet.

    A single packet may have been held up, or doubled; not two messages with PSNs of their own.
    """
    if last - since < LATEST and sum(step.message.time > since for step in said) < 2:
        return Ground("order", "weakened", "a single packet may be that late")
    return unopposed("order")


def begun(connection: Connection, end: End, timewait: Timewait, time: int) -> Ground:
    """A timewait of an end was not over at `time`, even if it began before the message that shows it.

    An answer may have been held up since its DREQ. And who destroys its id with a DREQ waits for no answer: Linux
    (cm_destroy_id) begins its timewait then.
    """
    start = timewait.start
    dreqs = [step for step in connection.steps if step.message.type == "DREQ" and step.message.time <= start]
    answer = any(step.message.time == start and step.sender == end.role for step in connection.steps)
    newest = {step.sender: step.message.time for step in dreqs if answer or step.sender == end.role}
    if newest and time >= min(newest.values()) + timewait.likely - start:
        return Ground("timer", "weakened", "it may have begun with the DREQ")
    begins = dreqs[0].message.time if answer and dreqs else start
    if end.role not in newest and time >= begins + timewait.likely - start:
        return Ground("timer", "weakened", "the answer that shows its begin may have been held up since the DREQ")
    return Ground("timer", "proved" if time < begins + timewait.minimum - start else "unopposed")


def in_timewait(timewait: Timewait, time: int) -> Ground:
    """A timewait is not over at `time`: not the shortest that fits, or not the one that its owner is likely to keep."""
    if timewait.assumed or time >= timewait.likely:
        return weakened("timer")
    return Ground("timer", "proved" if time < timewait.minimum else "unopposed")


def recognised(implementation: Implementation) -> Ground:
    """It is that one, whose messages look like this."""
    return Ground("meaning", _STRENGTHS[implementation.confidence])


def refuted(grounds: Iterable[Ground]) -> bool:
    """Whether one of these does not hold: then nothing rests on them."""
    return any(ground.strength == "refuted" for ground in grounds)


def confidence(grounds: Iterable[Ground]) -> Confidence:
    """How sure a finding is that rests on these."""
    strengths = {ground.strength for ground in grounds}
    if "weakened" in strengths:
        return "possible"
    return "probable" if "unopposed" in strengths else "certain"
