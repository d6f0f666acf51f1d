"""Try many worlds, or look at one.

tests/worlds/run.py --count 2000 [--seed FIRST] [--kind KIND] [--both-ends] [--jobs PROCESSES]
tests/worlds/run.py --seed 17 [--kind KIND] [--both-ends] [--shrink CODE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (1, 2)]

from worlds import scenes  # noqa: E402
from worlds.report import ladder, table  # noqa: E402
from worlds.shrink import misjudged, shrunk  # noqa: E402
from worlds.tally import Tally  # noqa: E402
from worlds.world import World  # noqa: E402

PART = 250  # worlds that a process tries in one go


def tried(kind: str | None, both_ends: bool, seeds: Sequence[int]) -> Tally:
    """What the judge makes of these worlds."""
    tally = Tally()
    for seed in seeds:
        tally.add(World(seed, kind, both_ends=both_ends))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="so many worlds, from --seed on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=scenes.KINDS)
    parser.add_argument("--both-ends", action="store_true", help="a whole capture at each of two hosts")
    parser.add_argument("--jobs", type=int, help="so many processes (as there are processors)")
    parser.add_argument("--code", help="show the failures of this code only")
    parser.add_argument("--shrink", metavar="CODE", help="make the world smaller while this code is judged wrong in it")
    options = parser.parse_args()
    if not options.count:
        world = World(options.seed, options.kind, both_ends=options.both_ends)
        if options.shrink:
            world = shrunk(world, lambda smaller: misjudged(smaller, options.shrink))
        print(ladder(world))
        return
    tally, begin = Tally(), time.monotonic()
    seeds = range(options.seed, options.seed + options.count)
    with ProcessPoolExecutor(options.jobs) as pool:
        parts = [seeds[at : at + PART] for at in range(0, len(seeds), PART)]
        for part in pool.map(partial(tried, options.kind, options.both_ends), parts):
            tally.take(part)
    took = time.monotonic() - begin
    print(table(tally, options.code))
    for confidence in ("certain", "probable"):
        true, false = (sum(n for key, n in of.items() if key[2] == confidence) for of in (tally.true, tally.false))
        print(f"{confidence}: {true:,} true, {false:,} false")
    print(f"{options.count} worlds, {options.count / took:.0f}/s, {tally.messages / options.count:.1f} messages each")


if __name__ == "__main__":
    main()
