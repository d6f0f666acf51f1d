"""What is noted while an input is read, and what is done at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibcmtool.sources.errors import DamageError
from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES

if TYPE_CHECKING:
    from types import TracebackType

    from ibcmtool.model import InputInfo
    from ibcmtool.sources.files.streams import Window


def note_times(info: InputInfo, earliest: int, latest: int) -> None:
    """Frames of these times (ns; 0 is no time) were read.

    The readers call this once for each run of records: as long as the upper half of a time stays the same and the lower
    one does not decrease, only the first and the last time count, and no other need be computed. A run begins with a
    known time; run_start is that, the other run_ variables are the halves of its last.
    """
    if earliest and (info.first_time is None or earliest < info.first_time):
        info.first_time = earliest
    if latest > (info.last_time or 0):
        info.last_time = latest


class Ending:
    """A context manager for the frames of an input.

    At their end, whatever brought it, the input is closed. Damage is told in the info, and not as an error. An input
    of foreign link types only is refused.
    """

    def __init__(self, window: Window, info: InputInfo) -> None:
        self._window = window
        self._info = info

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        info, window = self._info, self._window
        window.close()
        if error is not None and not isinstance(error, DamageError):
            return False
        if info.link_types and LINK_TYPES.keys().isdisjoint(info.link_types):
            raise window.refusal(link_types.problem(info.link_types), link_types.HINT, None) from None
        info.damage = "; ".join(filter(None, (window.damage, str(error or ""))))
        info.truncated = bool(info.damage)
        return True
