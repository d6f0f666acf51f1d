"""What the judge is known to get wrong in the worlds of test_worlds.py: a short list that ought to become empty.

`most`: in how many of a thousand worlds of one kind a code is wrong, where that is most often; 1 stands for a few of
200,000 worlds (docs/truth.md). `kind` and `seed` give a world that shows it: `tests/worlds/run.py --kind KIND
--seed SEED --shrink CODE`. `kinds`: where it may be that often (nothing: in worlds of any kind). Whoever mends one
strikes its line, and a test says so: a line whose world is judged right fails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from worlds.tally import MISSED as NOT_TOLD
from worlds.tally import Failure, Tally


class Known(NamedTuple):
    """One shortcoming."""

    code: str
    most: int
    kind: str
    seed: int
    why: str
    kinds: tuple[str, ...] = ()


FALSE = (
    Known("H05", 1, "outage", 470397, "the RTU was dropped; only a DREQ behind the last wait shows that there was one"),
    Known("H18", 1, "outage", 599965, "three REQs were lost behind the tap, and the REPs to the last before it"),
    Known("R06", 1, "hung", 506362, "the REJ that answers in time was not captured, and nothing came after it"),
    Known("R07", 1, "quiet", 804708, "of four DREQs two were lost, one DREP before the tap, and one was not captured"),
    Known(
        "S05",
        8,
        "hasty",
        600,
        "possible only: the first REQ was lost behind the tap, its repetition accepted",
        ("hasty",),
    ),
    Known("S05", 1, "hasty", 29, "possible only: the first REQ was lost behind the tap, its repetition accepted"),
    Known("T01", 1, "crowd", 38185, "the clock of one of two captures was set, which only a later copy shows"),
    Known("X03", 1, "illumos", 109322, "the clock of one of two captures was set, and TransactionIDs tell the time"),
)

MISSED = (
    Known("H05", 1, "xrc", 196327, "the RTUs were lost behind the tap, and the REQ came again"),
    Known(
        "H18", 1, "nvme", 16375, "it gave up at once when its own timeout was over, which the judge takes for longer"
    ),
    Known("R02", 1, "broken", 139631, "an MRA came in between"),
    Known("S01", 1, "deaf", 49434, "the DREQ of the old connection was captured, and lost behind the tap"),
    Known("S02", 2, "hasty", 1678, "a copy of an ended REQ was refused: the QPN has a new connection"),
    Known("S03", 1, "no_dreq", 67914, "several connections are refused in turn; not understood yet"),
    Known("S05", 3, "hasty", 16287, "the REQ and its REP were captured before the DREP of the old connection"),
    Known("S06", 3, "hasty", 81658, "as S05"),
    Known("S12", 6, "orderly", 10843, "the connection was refused as stale later"),
    Known("T01", 1, "hasty", 9450, "a phantom, which took a late copy for a REQ, uses a QPN too early"),
    Known("T07", 5, "refused", 1850, "the copy was refused, too"),
    Known("X03", 3, "no_dreq", 8535, "a restart before the first message of the port was captured"),
)


def unknown(counts: Tally, kind: str, *, missed: bool) -> list[Failure]:
    """The failures of codes that are wrong in more worlds of a kind than is known."""
    most: dict[str, float] = {}
    for known in MISSED if missed else FALSE:
        if not known.kinds or kind in known.kinds:
            most[known.code] = max(_at_most(known, counts.worlds), most.get(known.code, 0))
    wrong = {code for code, count in counts.worlds_with(missed=missed).items() if count > most.get(code, 0)}
    return [each for each in counts.failures if each.code in wrong and (each.severity == NOT_TOLD) == missed]


def _at_most(known: Known, worlds: int) -> float:
    """In how many of these worlds it may show: the average, and three standard deviations for chance."""
    average = known.most * worlds / 1000
    return average + 3 * math.sqrt(average) + 1
