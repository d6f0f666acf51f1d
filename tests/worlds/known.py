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
    Known("F16", 7, "passive_reboot", 20, "a copy, with another snap length or clock, counts as a new connection"),
    Known("H01", 7, "hung", 37, "the REQ was lost before the tap, or a clock was set back"),
    Known("H02", 2, "refused", 230, "the REQ that was accepted was not captured"),
    Known("H03", 355, "user_space", 0, "fixed ids: the next REQ is taken into the closed connection", ("user_space",)),
    Known("H04", 17, "passive_reboot", 164, "the REP that the RTU answers was late, or not captured"),
    Known("H05", 12, "quiet", 16, "a doubled REQ opened a phantom; or certain, though an RTU was sent and lost"),
    Known("H07", 55, "user_space", 4, "fixed ids: as H03", ("user_space",)),
    Known("H07", 4, "deaf", 286, "a phantom that a doubled REQ opened"),
    Known("H08", 250, "user_space", 0, "fixed ids: as H03", ("user_space",)),
    Known("H08", 17, "killed", 56, "a phantom that a doubled REQ opened, seen by two taps"),
    Known("H11", 2, "killed", 548, "a REJ that was late on its way, as its PSN shows"),
    Known("H12", 2, "killed", 179, "the REP was lost before the tap"),
    Known("H18", 14, "hung", 29, "one direction only: the MRAs of the target were not captured"),
    Known("H21", 5, "killed", 237, "a killed server: the REQ that is repeated meets no listener any more"),
    Known("R02", 12, "crowd", 34, "a late packet, whose PSN is older than the last one's, was not sent again"),
    Known(
        "R03", 42, "hung", 6, "a kernel that applies an MRA once; late copies of a REP", ("hung", "illumos", "broken")
    ),
    Known("R06", 2, "hung", 354, "the REJ that answers in time was lost before the tap"),
    Known("R07", 9, "reboot", 32, "certain, though DREPs were sent and lost before the tap: the PSNs skip"),
    Known("R08", 4, "user_space", 41, "fixed ids: as H03", ("user_space",)),
    Known(
        "S01",
        115,
        "reboot",
        4,
        "a restart of the receiver; or REJ 10, DREQ, DREP, and the REQ again",
        ("reboot", "no_dreq", "deaf"),
    ),
    Known("S01", 644, "outage", 0, "both have restarted: REQ and REP have PSN 0 and new ids", ("outage",)),
    Known("S01", 9, "clones", 92, "as in the line before"),
    Known("S02", 15, "hasty", 5, "it was in timewait: the DREP was lost before the tap, or out of order"),
    Known("S03", 5, "reboot", 67, "the DREQ was lost before the tap, and the PSNs skip"),
    Known(
        "S04",
        85,
        "nvme",
        5,
        "the passive side has restarted: the PSN of its REP is 0",
        ("nvme", "deaf", "no_dreq", "reboot"),
    ),
    Known("S04", 599, "outage", 0, "both have restarted", ("outage",)),
    Known("S04", 4, "passive_reboot", 166, "as in the line before"),
    Known("S05", 45, "hasty", 2, "the REQ was refused in timewait; its repetition, accepted, came later", ("hasty",)),
    Known("S05", 2, "reboot", 48, "disorder: as S06"),
    Known("S06", 4, "reboot", 48, "disorder: the DREQ that follows a REJ 10 stands before its REQ"),
    Known("S11", 10, "no_dreq", 5, "a late packet, or the closing message was not captured"),
    Known("S12", 67, "quiet", 6, "DREP or repetitions were not captured: the PSNs skip, or one direction only"),
    Known(
        "T01",
        44,
        "mirrored",
        10,
        "two machines of one CA GUID; a restart; an earlier DREP was lost",
        ("mirrored", "reboot", "hasty", "clones"),
    ),
    Known("T01", 7, "passive_reboot", 20, "a restart; disorder"),
    Known("T02", 12, "clones", 56, "two machines with one CA GUID"),
    Known("T03", 264, "user_space", 0, "fixed ids: as H03", ("user_space",)),
    Known("T03", 4, "quiet", 32, "a copy that the snap length of another capture cut"),
    Known("T05", 314, "user_space", 1, "fixed ids: as H03", ("user_space",)),
    Known("T05", 2, "passive_reboot", 464, "the QPN of a REP that was refused as stale stays"),
    Known("T06", 10, "illumos", 7, "the repeated DREQs were lost behind the tap, or came after the timewait"),
    Known("T09", 7, "no_dreq", 5, "as S11"),
    Known("X09", 2, "failover", 575, "the address moved after the last REQ"),
)

MISSED = (
    Known("H05", 14, "deaf", 24, "a phantom that a doubled REQ opened"),
    Known("H18", 2, "passive_reboot", 391, "the REPs were lost behind one of two taps, and the last refused"),
    Known("R07", 5, "illumos", 306, "the DREPs were lost behind one of two taps"),
    Known("S03", 12, "no_dreq", 44, "the REJ 10 was late on its way"),
    Known("S05", 10, "hasty", 43, "the owner was quicker than the DREP"),
    Known("S06", 2, "hasty", 512, "as S05"),
    Known("S12", 5, "hasty", 93, "the connection was refused as stale later"),
    Known("T01", 20, "hasty", 43, "the owner was quicker than the DREP: it destroyed the connection"),
    Known("T07", 14, "refused", 4, "a doubled REQ that was late"),
    Known("X03", 57, "nvme", 0, "a reloaded driver at a passive side: PSN 0, but the ids go on"),
)
