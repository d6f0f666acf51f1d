"""Single frames from the future: their date is wrong, not the capture, and they must not move the clock of the others.

A frame that is dated far ahead of the one before is either the first after a long pause or a stray. The next frame
tells: it goes on from there, or is far earlier. So such a frame waits for the next one. A stray is taken as of the time
of the frame before it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from ibcmtool.connections.port_trace import LATEST
from ibcmtool.packets import Frame

LEAP: Final = LATEST  # ns ahead; by less, a packet may have been overtaken
ALWAYS: Final = 1 << 63  # ns; later than any time
NEVER: Final = -ALWAYS


class _Every:
    """Contains everything."""

    def __contains__(self, _: object) -> bool:
        return True


EVERY_QPN: Final[Container[int]] = _Every()  # to be watched while a frame waits: any frame behind it will do


class Taken(NamedTuple):
    """A frame, and the time (ns) by which it is to be taken: its own, unless it is a stray."""

    frame: Frame
    time: int


class Strays:
    """The frames of one input, in its order. Times are ns.

    A frame that is not later than `limit`, as nearly all are, can be taken as it is; its time plus LEAP is the new
    limit. `take` is asked about the others.
    """

    def __init__(self) -> None:
        self.limit = ALWAYS
        self.held: Frame | None = None  # it waits for the next one
        self._last = 0  # while it waits: the time by which the one before was taken
        self._doubted: tuple[int, int] | None = None  # time of one that waited in vain, and the limit behind it

    def take(self, frame: Frame, *, expected: bool = False) -> list[Taken]:
        """Those that can be taken, now that this one came. expected: after a pause that is known to have been."""
        waited = self.release(stray=self.held is not None and self.held.time - frame.time > LEAP)
        if self._doubted is not None:
            doubted, limit = self._doubted
            expected |= self.limit == limit and abs(frame.time - doubted) <= LEAP  # it was right
        if frame.time > self.limit and not expected:
            self.held, self._last, self.limit = frame, self.limit - LEAP, NEVER
            return waited
        self.limit = frame.time + LEAP
        return [*waited, Taken(frame, frame.time)]

    def release(self, *, stray: bool) -> list[Taken]:
        """The frame that waits, if one does: as what it is to be taken, now that nothing more is waited for."""
        held, self.held = self.held, None
        if held is None:
            return []
        time = self._last if stray else held.time
        self.limit = time + LEAP
        if stray:
            self._doubted = (held.time, self.limit)
        return [Taken(held, time)]
