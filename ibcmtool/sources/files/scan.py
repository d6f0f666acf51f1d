"""Which frames of a capture are worth building: those that can hold a CM message, and what the reader asks for besides.

Most records of a large capture are data packets. To tell them from CM messages it is enough to look at the BTH: CM
messages go to QP 1. Where the BTH lies depends on a few bytes only, the same in nearly all frames of a capture: their
shape. So the format readers unpack these bytes and the destination QP together with the header of the record, and pass
over a frame whose shape is known and whose QP is another, without building anything. Whatever has another shape is
looked at with the finders that the decoder itself uses: tunnels among it. What tells of neighbours (ARP, neighbour
discovery) or of packets that were not delivered (ICMP) has no BTH, so it is always of another shape.

The test never refuses a frame in which the decoder finds a CM message, or that tells such a thing, and takes few
others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container
from typing import Final

from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.network import Found
from ibcmtool.wire.notices import told

PATIENCE = 10_000  # frames behind a CM message among which data packets are worth a look
REVIEW: Final = 64  # frames of other shapes; the shape is chosen anew if they were more than half of all
FARTHEST_BTH: Final = 256  # in a frame of a shape: what is unpacked must end within the slack of the window
QPN: Final = 4  # where the BTH has its destination QP, with a byte of other bits in front
LOWER_HALF: Final = 2  # of the QPN, in this word
GSI: Final = b"\0\1"  # the lower half of QP 1
QPN_MASK: Final = 0xFFFFFF

qpn_word: Final = struct.Struct("!I").unpack_from


class ScanRequest:
    """What the reader of a scan wants. It may change while the scan goes on.

    everything: the scan leaves out nothing. watched: QPNs; frames to them are handed out too, up to the frame number
    `until`, which `heard` moves on: a connection that stays half open must not slow down the reading of all that
    follows. progress: called with the number of the frame that was reached, every now and then.
    """

    def __init__(
        self, watched: Container[int] = (), *, everything: bool = False, progress: Callable[[int], None] | None = None
    ) -> None:
        self.watched = watched
        self.everything = everything
        self.progress = progress
        self.until = PATIENCE

    def heard(self, number: int) -> None:
        """The frame of this number held a CM message."""
        self.until = number + PATIENCE


class FrameFilter:
    """The test for the frames of one link type.

    unpack: reads the header of a record, the three fields of the shape, and the lower half of the destination QP.
    first, second, third: what the fields hold in frames of the shape. qpn_at: where the word with the QPN is in such a
    record. All of these may change in `wants`. gsi: the lower half of QP 1, as `unpack` reads it.
    """

    def __init__(self, link_type: int, header: str, inside: int = 0) -> None:
        """`header`: struct format of a record's header, byte order first, whose last `inside` bytes are the frame's."""
        self._link = LINK_TYPES[link_type]
        self._header = header
        self._inside = inside
        self._missed, self._since = REVIEW - 1, 0  # the first that has a BTH gives the shape
        (self.gsi,) = struct.unpack(header[0] + "H", GSI)
        self.unpack = struct.Struct(header + "BBBH").unpack_from
        self.first: int | bytes | None = None  # no field holds this
        self.second: int | bytes | None = None
        self.third: int | bytes | None = None
        self.qpn_at = 0

    def wants(self, frame: memoryview, number: int, watched: Container[int]) -> bool:
        """Whether a frame of another shape can be a CM message, goes to a watched QP, or tells something else.

        Chooses the shape.
        """
        try:
            found = self._link.find(frame)
            if found is None:
                return told(self._link.number, frame) is not None
            word = qpn_word(frame, found[2] + QPN)[0]
        except (IndexError, struct.error):
            return False
        self._missed += 1
        if self._missed == REVIEW:
            if number - self._since < 2 * REVIEW:
                self._choose(frame, found)
            self._missed, self._since = 0, number
        qpn = word & QPN_MASK
        return qpn == 1 or qpn in watched

    def _choose(self, frame: memoryview, found: Found) -> None:
        shape = self._link.pattern(frame, found)
        if shape is None or shape.bth > FARTHEST_BTH:
            return
        qpn_at = shape.bth + QPN
        self.qpn_at = struct.calcsize(self._header) - self._inside + qpn_at
        layout, at = "", self._inside
        for offset, code in (shape.first, shape.second, shape.third, (qpn_at + LOWER_HALF, "H")):
            if offset < self._inside:  # the reader sees to it that these frames agree in it
                layout += "0s"
                continue
            layout += f"{offset - at}x{code}"
            at = offset + struct.calcsize("=" + code)
        self.first, self.second, self.third, _ = struct.unpack_from(self._header[0] + layout, frame, self._inside)
        self.unpack = struct.Struct(self._header + layout).unpack_from
