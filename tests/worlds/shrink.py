"""Make a failing world smaller: without consumers, events and flaws that the failure does not need."""

from __future__ import annotations

from worlds.world import World

FLAWS = ("late", "doubled", "loss", "drops", "disorder", "cut", "direction", "step", "span")


def fails(world: World, code: str) -> bool:
    """Whether a finding of this code is not true there, or a deed of it is not told."""
    judgements, missed = world.judge()
    wrong = {judgement.finding.code for judgement in judgements if judgement.verdict != "true"}
    return code in wrong | {deed.code for deed in missed}


def shrunk(world: World, code: str) -> World:
    """The smallest world that fails in the same way, as far as leaving out one thing after the other finds it."""
    if not fails(world, code):
        return world
    left_out: tuple[int, ...] = ()
    mended: tuple[str, ...] = ()
    for flaw in FLAWS:
        smaller = World(world.seed, world.kind, left_out=left_out, mended=(*mended, flaw))
        if fails(smaller, code):
            world, mended = smaller, (*mended, flaw)
    for number in range(world.events_planned, 0, -1):
        smaller = World(world.seed, world.kind, left_out=(*left_out, number), mended=mended)
        if fails(smaller, code):
            world, left_out = smaller, (*left_out, number)
    return world
