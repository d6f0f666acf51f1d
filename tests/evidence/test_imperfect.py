"""Captures whose truth is known, made worse: nothing is said louder of them, and nothing more for certain.

One frame is left out, doubled, or swapped with its neighbour, the capture begins late or ends early, its clock is set.
IBCMTOOL_PLACES=1000000 tries every frame of every capture, not some of each; `worse(path, kind, place)` shows a case.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from evidence.frames import records

from ibcmtool.engine.files import analyze

ROOT = Path(__file__).parents[2]
PATHS = sorted(path for folder in ("tests/evidence/captures", "captures") for path in (ROOT / folder).rglob("*.pcap"))
PLACES = int(os.environ.get("IBCMTOOL_PLACES", "4"))  # frames of each capture, drawn by its name

NANOSECONDS = b"\x4d\x3c\xb2\xa1"
# A capture may lack what proves the graver breach: the same reuse is then told as the lighter one.
LIGHTER = {"T01": "T02"}

Frames = list[bytes]


class Clock:
    """Sets the times of frames."""

    def __init__(self, header: bytes) -> None:
        self._second = 1_000_000_000 if header.startswith(NANOSECONDS) else 1_000_000

    def time(self, frame: bytes) -> float:
        seconds, fraction = struct.unpack_from("<II", frame)
        return float(seconds) + float(fraction) / self._second

    def later(self, frame: bytes, by: float) -> bytes:
        seconds, fraction = struct.unpack_from("<II", frame)
        seconds, fraction = divmod(seconds * self._second + fraction + round(by * self._second), self._second)
        return struct.pack("<II", seconds, fraction) + frame[8:]


def left_out(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[:at] + frames[at + 1 :]


def swapped(frames: Frames, at: int, clock: Clock) -> Frames:
    """With their times, as two receive queues do it."""
    return frames[:at] + frames[at : at + 2][::-1] + frames[at + 2 :]


def doubled(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[: at + 1] + frames[at:]


def doubled_late(frames: Frames, at: int, clock: Clock) -> Frames:
    copy = clock.later(frames[at], 5)
    place = next((n for n in range(at, len(frames)) if clock.time(frames[n]) > clock.time(copy)), len(frames))
    return [*frames[:place], copy, *frames[place:]]


def begun_late(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[at:]


def ended_early(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[: at + 1]


def set_back(frames: Frames, at: int, clock: Clock) -> Frames:
    """By an hour, so that it shows."""
    return frames[:at] + [clock.later(frame, -3600) for frame in frames[at:]]


def set_back_a_little(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[:at] + [clock.later(frame, -10) for frame in frames[at:]]


def set_forward(frames: Frames, at: int, clock: Clock) -> Frames:
    return frames[:at] + [clock.later(frame, 3600) for frame in frames[at:]] if at else frames


def one_from_the_future(frames: Frames, at: int, clock: Clock) -> Frames:
    return [*frames[:at], clock.later(frames[at], 3600), *frames[at + 1 :]] if at else frames


def one_from_the_past(frames: Frames, at: int, clock: Clock) -> Frames:
    return [*frames[:at], clock.later(frames[at], -10), *frames[at + 1 :]]


KINDS = (
    left_out,
    swapped,
    doubled,
    doubled_late,
    begun_late,
    ended_early,
    set_back,
    set_back_a_little,
    set_forward,
    one_from_the_future,
    one_from_the_past,
)


def accusations(path: Path, *, certain: bool) -> Counter[str]:
    """How many errors and warnings of each code a capture gets, or how many of these are certain."""
    loud = [finding for finding in analyze([str(path)]).findings if finding.severity != "info"]
    return Counter(finding.code for finding in loud if finding.confidence == "certain" or not certain)


def worse(path: Path, places: Sequence[int]) -> Iterator[tuple[str, bytes]]:
    """Every worse capture that one of these frames makes, with what was done."""
    header, frames = records(path)
    clock = Clock(header)
    for place in places:
        for kind in KINDS:
            yield f"{kind.__name__} at frame {place + 1}", header + b"".join(kind(frames, place, clock))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_worse_capture_accuses_nobody_more(path: Path, tmp_path: Path) -> None:
    whole = {certain: accusations(path, certain=certain) for certain in (False, True)}
    for graver, lighter in LIGHTER.items():
        whole[False][lighter] += whole[False][graver]
    frames = len(records(path)[1])
    places = Random(path.stem).sample(range(frames), min(PLACES, frames))
    copy = tmp_path / "worse.pcap"
    for done, content in worse(path, places):
        copy.write_bytes(content)
        for certain, known in whole.items():
            assert accusations(copy, certain=certain) - known == {}, f"{done}, certain: {certain}"
