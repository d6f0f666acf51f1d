"""What is noted while an input is read, and what is done at its end."""

from __future__ import annotations

from ibcmtool.analysis import InputInfo
from ibcmtool.sources.errors import DamageError
from ibcmtool.sources.files.streams import Window
from ibcmtool.wire import link_types
from ibcmtool.wire.links import LINK_TYPES


def note_times(info: InputInfo, earliest: int, latest: int) -> None:
    """Frames of these times (ns; 0 is no time) were read."""
    if earliest and (info.first_time is None or earliest < info.first_time):
        info.first_time = earliest
    if latest > (info.last_time or 0):
        info.last_time = latest
    info.end_time = latest or info.end_time


class InputEnd:
    """A context manager for the frames of an input.

    At their end, whatever brought it, the input is closed. Damage goes into the info, and is no error. An input
    of foreign link types only is refused.
    """

    def __init__(self, window: Window, info: InputInfo) -> None:
        self._window = window
        self._info = info

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        info, window = self._info, self._window
        window.close()
        if error is not None and not isinstance(error, DamageError):
            return False
        if info.link_types and LINK_TYPES.keys().isdisjoint(info.link_types):
            raise window.refusal(link_types.problem(info.link_types), link_types.HINT, None) from None
        info.damage = "; ".join(filter(None, (window.damage, str(error or ""))))
        info.truncated = bool(info.damage)
        return True
