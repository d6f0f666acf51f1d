"""Make a failing world smaller: without consumers, events and flaws that the failure does not need."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from worlds.tally import Tally
from worlds.world import World

FLAWS = ("late", "doubled", "loss", "drops", "disorder", "cut", "direction", "step", "span")


def misjudged(world: World, code: str) -> bool:
    """Whether a finding of this code is not true there, or a deed of it is not told."""
    counts = Tally()
    counts.add(world)
    return any(failure.code == code for failure in counts.failures)


def shrunk(world: World, fails: Callable[[World], bool]) -> World:
    """The smallest world that fails in the same way, as far as leaving out one thing after the other finds it."""
    if not fails(world):
        return world
    left_out: tuple[int, ...] = ()
    mended: tuple[str, ...] = ()
    again = partial(World, world.seed, world.kind, both_ends=world.both_ends)
    for flaw in FLAWS:
        smaller = again(left_out=left_out, mended=(*mended, flaw))
        if fails(smaller):
            world, mended = smaller, (*mended, flaw)
    for number in range(world.events_planned, 0, -1):
        smaller = again(left_out=(*left_out, number), mended=mended)
        if fails(smaller):
            world, left_out = smaller, (*left_out, number)
    return world
