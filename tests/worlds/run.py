"""Try many worlds, or look at one.

tests/worlds/run.py --count 2000 [--seed FIRST] [--kind KIND]
tests/worlds/run.py --seed 17 [--kind KIND] [--shrink CODE]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (1, 2)]

from worlds import scenes  # noqa: E402
from worlds.report import ladder, table  # noqa: E402
from worlds.shrink import misjudged, shrunk  # noqa: E402
from worlds.tally import Tally  # noqa: E402
from worlds.world import World  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="so many worlds, from --seed on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=scenes.KINDS)
    parser.add_argument("--code", help="show the failures of this code only")
    parser.add_argument("--shrink", metavar="CODE", help="make the world smaller while this code is judged wrong in it")
    options = parser.parse_args()
    if not options.count:
        world = World(options.seed, options.kind)
        if options.shrink:
            world = shrunk(world, lambda smaller: misjudged(smaller, options.shrink))
        print(ladder(world))
        return
    tally, begin = Tally(), time.process_time()
    for seed in range(options.seed, options.seed + options.count):
        tally.add(World(seed, options.kind))
    took = time.process_time() - begin
    print(table(tally, options.code))
    print(f"{options.count} worlds, {options.count / took:.0f}/s, {tally.messages / options.count:.1f} messages each")


if __name__ == "__main__":
    main()
