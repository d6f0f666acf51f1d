"""How long timewait lasts, by whose CM it is. A model is one function here; whatever lists them is derived.

A timewait depends on the REQ's Local ACK Timeout, on the REP's Target ACK Delay (`delay`, 0 where it is not known), and
on the role. Packet life is not on the wire; it is at most Local ACK Timeout - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ibcmtool.connections.timers import cm_ack_timeout, exponent, linux
from ibcmtool.model import Role

LONGEST_EXPONENT: Final = 31


class Interval(NamedTuple):
    """How long (ns) a timewait lasts."""

    minimum: int  # no implementation that fits the model ends it earlier
    likely: int
    maximum: int


Compute = Callable[[int, int, Role], Interval]  # Local ACK Timeout, Target ACK Delay, role


class Model(NamedTuple):
    """One way in which timewait is kept."""

    name: str  # as --timewait-model takes it
    owner: str  # whose timewait it is
    meaning: str  # for the option's help
    interval: Compute


MODELS: dict[str, Model] = {}  # by name, in the order of the help


def model(name: str, owner: str, meaning: str) -> Callable[[Compute], Compute]:
    """Enter a model."""

    def enter(interval: Compute) -> Compute:
        MODELS[name] = Model(name, owner, meaning, interval)
        return interval

    return enter


@model("auto", "Linux", "as the software recognised of each side has it, Linux where unknown")
def _auto(ack_timeout: int, delay: int, role: Role) -> Interval:
    """Minimum and likely value of Linux, and a maximum one step above the larger of the two fields.

    It covers every implementation known.
    """
    minimum, likely, _ = _linux(ack_timeout, delay, role)
    return Interval(minimum, likely, exponent(min(LONGEST_EXPONENT, max(ack_timeout, delay) + 1)))


@model("linux", "Linux", "Linux since 2.6.19")
def _linux(ack_timeout: int, delay: int, role: Role) -> Interval:
    """Since 2.6.19. Passive side: the Local ACK Timeout exactly.

    Active side: ack delay of the peer (Target ACK Delay) and twice the packet life of its path (cm_ack_timeout, at the
    REP). So the minimum holds for any packet life; the likely value is exact for equal ack delays on both sides.
    """
    if role == "passive":
        exact = linux(ack_timeout)
        return Interval(exact, exact, exact)
    longest = max(ack_timeout - 1, 0)
    likely = _likely_exponent(ack_timeout, delay)
    return Interval(linux(max(delay, 1)), linux(likely), linux(cm_ack_timeout(delay, longest)))


@model("linux-2.6", "Linux up to 2.6.18", "Linux up to 2.6.18")
def _linux_2_6(ack_timeout: int, delay: int, role: Role) -> Interval:
    """The Local ACK Timeout exactly, on both sides."""
    exact = linux(ack_timeout)
    return Interval(exact, exact, exact)


@model("illumos", "illumos", "illumos")
def _illumos(ack_timeout: int, delay: int, role: Role) -> Interval:
    """As Linux, but the sum and the times are nominal, neither rounded up nor 4.6 % short."""
    if role == "passive":
        exact = exponent(ack_timeout)
        return Interval(exact, exact, exact)
    likely, longest = _packet_lives(ack_timeout)
    shortest = exponent(delay)
    return Interval(shortest, shortest + 2 * exponent(likely), shortest + 2 * exponent(longest))


@model("iba", "IBA", "the spec's nominal times")
def _iba(ack_timeout: int, delay: int, role: Role) -> Interval:
    """Ack delay of the peer and twice the packet life, nominal (the specification's own number is not known to us).

    For the passive side this sum is what the Local ACK Timeout holds, rounded up to a power of two.
    """
    interval = _illumos(ack_timeout, delay, role)
    return interval if role == "active" else interval._replace(minimum=exponent(max(ack_timeout - 1, 0)))


def _likely_exponent(ack_timeout: int, delay: int) -> int:
    """What Linux makes of `delay` and the packet life that the REQ was made of.

    The REQ's Local ACK Timeout is the same sum with the requester's own ack delay, mostly the peer's as well: then the
    two are equal. Where no packet life gives that sum with `delay`, the packet life is guessed.
    """
    if any(cm_ack_timeout(delay, life) == ack_timeout for life in range(ack_timeout)):
        return ack_timeout
    return cm_ack_timeout(delay, _packet_lives(ack_timeout)[0])


def _packet_lives(ack_timeout: int) -> tuple[int, int]:
    """The exponents of the packet life that are likely and the largest possible."""
    return max(ack_timeout - 2, 0), max(ack_timeout - 1, 0)
