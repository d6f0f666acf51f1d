"""The walk over the records of an input, which is the same for every format.

Most records are data packets that nobody wants. A reader passes over those whose header looks like that of the packets
before and whose destination QP is none that is looked for, in a loop of its own: this loop is where large captures take
their time. Every other record comes out of it, is counted and looked at here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from ibcmtool.packets import Frame
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.input_end import InputEnd, note_times
from ibcmtool.sources.files.prescan import with_prescan
from ibcmtool.sources.files.scan import ScanRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.analysis import InputInfo
    from ibcmtool.sources.files.scan import FrameFilter
    from ibcmtool.sources.files.streams import Window

Record = tuple[int, int, int, int, int]
"""Time (ns), where the packet begins and ends in the window, its length on the wire, its destination QP or UNKNOWN."""

UNKNOWN: Final = -1
GSI_QP: Final = 1
NO_RUN: Final = -1


class RecordReader(ABC):
    """The records of one input from data[position] of a window on.

    `info` is up to date whenever the window reads more, and what the window adds to it counts.

    Times stand in records in two halves. As long as the upper half stays the same and the lower one does not decrease
    (a run), only the first and the last time matter to `info`, and no other need be computed. run_high and run_low are
    the halves of a run's last time (run_high NO_RUN: there is none), run_start is its first time.
    """

    link_type: int  # of the record that came last
    frame_filter: FrameFilter  # for that and those like it

    def __init__(self, window: Window, file: int, info: InputInfo, position: int) -> None:
        self.window = window
        self.file = file
        self.info = info
        self.scan_request = ScanRequest()
        self.position = position  # of the next record
        self.run_high, self.run_low, self.run_start = NO_RUN, 0, 0
        self.watched_until = 0  # number of the last frame whose QP may be a watched one

    @abstractmethod
    def next_record(self) -> Record | None:
        """The next record that may be wanted; those in front of it are counted. None at the end; raises DamageError."""

    @abstractmethod
    def time(self, high: int, low: int) -> int:
        """ns since the epoch."""

    @abstractmethod
    def elsewhere(self, window: Window, info: InputInfo) -> RecordReader:
        """A reader of records that begin at data[0] of another window on the same input."""

    @abstractmethod
    def follow(self, window: Window, position: int, time: int) -> int:
        """Where the record ends that seems to begin at data[position]; 0 where none does. time: of another record."""

    def frames(self, scan_request: ScanRequest) -> Iterator[Frame]:
        """All that is wanted."""
        self.window = with_prescan(self.window, self.info, scan_request, self.walk_elsewhere, self.follow)
        return self.walk(scan_request)

    def walk_elsewhere(self, window: Window, info: InputInfo) -> Iterator[Frame]:
        """The frames of another window on the same input that hold a candidate."""
        return self.elsewhere(window, info).walk(ScanRequest())

    def walk(self, scan_request: ScanRequest) -> Iterator[Frame]:
        self.scan_request = scan_request
        info, window, file = self.info, self.window, self.file
        new = tuple.__new__  # Frame(...) takes three times as long
        everything = scan_request.everything
        with InputEnd(window, info):
            try:
                while True:
                    self.watched_until = scan_request.until if scan_request.watched else 0
                    record = self.next_record()
                    if record is None:
                        return
                    time, begin, end, wire_length, qpn = record
                    info.frames = number = info.frames + 1
                    if wire_length > end - begin:
                        info.cut_frames += 1
                    packet = window.view[begin:end]
                    if qpn != GSI_QP and not everything:
                        now_watched = scan_request.watched if number <= self.watched_until else ()
                        if qpn == UNKNOWN:
                            wanted = self.frame_filter.wants(packet, number, now_watched)
                        else:
                            wanted = qpn in now_watched
                        if not wanted:
                            continue
                    yield new(Frame, (file, number, time, self.link_type, packet.tobytes(), wire_length, None, ""))
            finally:
                self.end_run()

    def header_at_hand(self, size: int) -> bool:
        """Let the header of the next record be at hand, at data[0]. False when the file ends; raises DamageError."""
        self.end_run()
        self.show_progress()
        window, position = self.window, self.position
        self.position = 0
        if window.more(position, size):
            return True
        if not window.size:
            return False
        raise DamageError(window.cut(0, size, f"the record header of frame {self.info.frames + 1}"))

    def begin_run(self, high: int, low: int) -> None:
        """A record of this time does not go on with the run."""
        self.end_run()
        time = self.time(high, low)
        if time:  # 0 is no time
            self.run_high, self.run_low, self.run_start = high, low, time

    def end_run(self) -> None:
        """Bring the times of `info` up to date."""
        if self.run_high != NO_RUN:
            note_times(self.info, self.run_start, self.time(self.run_high, self.run_low))
            self.run_high = NO_RUN

    def show_progress(self) -> None:
        if self.scan_request.progress is not None:
            self.scan_request.progress(self.info.frames)
