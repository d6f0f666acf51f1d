"""What the judge is known to get wrong in the worlds of test_worlds.py: a short list that ought to become empty.

`most`: in how many of a thousand worlds of one kind a code is wrong, where that is most often. `kind` and `seed` give a
world that shows it: `tests/worlds/run.py --kind KIND --seed SEED --shrink CODE`. `kinds`: where it may be that often
(nothing: in worlds of any kind). Whoever mends one strikes its line, and a test says so: a line whose world is judged
right fails.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """One shortcoming."""

    code: str
    most: int
    kind: str
    seed: int
    why: str
    kinds: tuple[str, ...] = ()


FALSE = (
    Known("H01", 6, "hung", 37, "the REQ was lost before the tap, or a clock was set back"),
    Known("H02", 2, "refused", 230, "the REQ that was accepted was not captured"),
    Known(
        "H03", 14, "user_space", 0, "fixed ids and disorder: an answer is taken into the life before", ("user_space",)
    ),
    Known("H04", 10, "passive_reboot", 164, "the REP that the RTU answers was late, or not captured"),
    Known("H05", 8, "crowd", 187, "a doubled REQ opened a phantom"),
    Known("H07", 2, "user_space", 837, "the capture has the RTU at both ends, not that it was dropped"),
    Known("H08", 28, "user_space", 0, "fixed ids: as H03", ("user_space",)),
    Known(
        "H18", 12, "hung", 29, "one direction only: the answers of the target were not captured", ("hung", "illumos")
    ),
    Known("H18", 4, "broken", 173, "one direction only: the answers of the target were not captured"),
    Known("R03", 12, "hung", 110, "a kernel that applies an MRA once", ("hung",)),
    Known("R03", 4, "broken", 404, "a kernel that applies an MRA once"),
    Known("R06", 2, "hung", 354, "the REJ that answers in time was lost before the tap"),
    Known("R08", 2, "user_space", 41, "fixed ids: as H03"),
    Known(
        "S01",
        14,
        "outage",
        86,
        "a restart that no PSN shows, or an attempt that never got through",
        ("outage", "no_dreq"),
    ),
    Known("S01", 4, "deaf", 284, "a restart that no PSN shows, or an attempt that never got through"),
    Known("S02", 2, "hasty", 6, "it was in timewait: the DREP was lost before the tap, or out of order"),
    Known("S03", 2, "clones", 23, "the DREQ was lost before the tap"),
    Known("S04", 4, "no_dreq", 2545, "as S01"),
    Known("S05", 36, "hasty", 2, "the REQ was refused in timewait; its repetition, accepted, came later", ("hasty",)),
    Known("S05", 4, "orderly", 34, "the REQ was refused in timewait; its repetition, accepted, came later"),
    Known("S11", 2, "hasty", 127, "a late packet, or the closing message was not captured"),
    Known("S12", 2, "nvme", 285, "the DREP was lost before the tap"),
    Known("T01", 8, "hasty", 208, "an earlier DREP was lost before the tap"),
    Known("T03", 24, "user_space", 0, "fixed ids: a close that was not captured", ("user_space",)),
    Known("T05", 2, "passive_reboot", 1043, "the QPN of a REP that was refused as stale stays"),
    Known("T06", 4, "illumos", 306, "the repeated DREQs were lost behind the tap"),
)

MISSED = (
    Known("H05", 2, "hasty", 93, "a phantom that a doubled REQ opened"),
    Known("H18", 2, "broken", 304, "the REPs were lost behind one of two taps, and the last refused"),
    Known("R07", 4, "illumos", 306, "the DREPs were lost behind one of two taps"),
    Known("S02", 2, "hasty", 472, "the DREQ that follows was captured by one of two taps only"),
    Known("S03", 22, "no_dreq", 21, "the REJ 10 was late on its way", ("no_dreq",)),
    Known("S05", 12, "ghosts", 45, "the owner was quicker than the DREP", ("ghosts", "hasty", "mirrored")),
    Known("S05", 4, "clones", 8, "the owner was quicker than the DREP"),
    Known("S06", 2, "illumos", 471, "as S05"),
    Known("S12", 6, "orderly", 92, "the connection was refused as stale later"),
    Known("T01", 6, "hasty", 258, "the owner was quicker than the DREP: it destroyed the connection"),
    Known("T07", 10, "refused", 4, "a doubled REQ that was late"),
    Known("X03", 6, "reboot", 212, "a restart before the first message of the port was captured"),
)
