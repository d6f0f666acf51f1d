"""What the judge is known to get wrong in the worlds of test_worlds.py: a short list that ought to become empty.

`most` is how many false findings of a code the worlds of one kind may show, and `kind` and `seed` give a world that
shows one: `tests/worlds/run.py --kind KIND --seed SEED --shrink CODE`. Whoever mends a kind strikes its line, and a
test says so: a line whose world is judged right fails.
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


FALSE = (
    Known("F16", 2, "passive_reboot", 20, "the frames of a clock that was set back count as a reuse"),
    Known("H01", 4, "hung", 37, "the REQ was lost before the tap"),
    Known("H03", 65, "user_space", 0, "fixed ids: the next REQ is taken for one of the connection that was closed"),
    Known("H04", 3, "user_space", 4, "the REP that the RTU answers was late, or not captured"),
    Known("H05", 3, "quiet", 16, "a doubled REQ opened a phantom; the active side has no part in it"),
    Known("H07", 4, "user_space", 4, "fixed ids: as H03"),
    Known("H08", 42, "user_space", 0, "fixed ids: as H03"),
    Known("H18", 6, "hung", 29, "one direction only: the MRAs of the target were not captured"),
    Known("R02", 3, "crowd", 34, "a late packet, whose PSN is older than the last one's, was not sent again"),
    Known("R03", 16, "hung", 6, "a kernel that applies an MRA once; late copies of a REP"),
    Known("R07", 2, "reboot", 32, "certain, though DREPs were sent and lost before the tap: the PSNs skip"),
    Known("R08", 2, "user_space", 41, "fixed ids: as H03"),
    Known(
        "S01", 19, "reboot", 4, "the receiver has restarted; or REJ 10, DREQ and DREP are done and the REQ came again"
    ),
    Known("S02", 4, "hasty", 5, "it was in timewait: the DREP was lost before the tap, or out of order"),
    Known("S03", 2, "reboot", 67, "the DREQ was lost before the tap, and the PSNs skip"),
    Known("S04", 13, "nvme", 5, "the passive side has restarted: the PSN of its REP is 0"),
    Known("S05", 10, "hasty", 2, "the REQ was refused in timewait; its repetition, accepted, came later"),
    Known("S06", 2, "reboot", 48, "disorder: the DREQ that follows a REJ 10 stands before its REQ"),
    Known("S11", 2, "no_dreq", 5, "a late packet, or the closing message was not captured"),
    Known(
        "S12",
        38,
        "quiet",
        6,
        "the DREP or the repetition was not captured: the PSNs skip, or there is one direction only",
    ),
    Known("T01", 8, "mirrored", 10, "two machines with one CA GUID; disorder at a restart"),
    Known("T02", 3, "clones", 56, "two machines with one CA GUID"),
    Known("T03", 42, "quiet", 32, "fixed ids: as H03; a copy that the snap length of another capture cut"),
    Known("T05", 51, "user_space", 1, "fixed ids: as H03; the QPN of a REP that was refused as stale stays"),
    Known("T06", 2, "illumos", 7, "the repeated DREQs were lost behind the tap"),
    Known("T09", 2, "no_dreq", 5, "as S11"),
)

MISSED = (
    Known("H05", 2, "deaf", 24, "a phantom that a doubled REQ opened"),
    Known("S03", 2, "no_dreq", 44, "the REJ 10 was late on its way"),
    Known("S05", 2, "hasty", 43, "the owner was quicker than the DREP"),
    Known("T01", 3, "hasty", 43, "the owner was quicker than the DREP: it destroyed the connection"),
    Known("T07", 2, "refused", 4, "a doubled REQ that was late"),
)
