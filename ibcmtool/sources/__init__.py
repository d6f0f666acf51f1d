"""Where frames come from: capture files and streams, recognised by their first bytes, never by their name.

`open_capture` gives a `Capture`; iterating it reads the frames one by one, however large the input. An input that is
cut or damaged gives every frame before the damage; `Capture.info` tells where and what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibcmtool.model import Frame, InputInfo
from ibcmtool.sources import compressed, erf, foreign, link_types, pcap, pcapng
from ibcmtool.sources.errors import DamageError, SourceError
from ibcmtool.sources.streams import FileStream, Window

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Capture", "SourceError", "open_capture"]

MAX_COMPRESSIONS = 2  # a .pcap.gz inside a .zst, and no further


class Capture:
    """An open input. Iterating it gives its frames, once; `info` grows on the way and is final at the end.

    SourceError can still come while iterating, from a pcapng input that turns out to hold foreign link types only.
    The input is closed at the end of the frames, by `close`, and by `with`.
    """

    def __init__(self, info: InputInfo, frames: Iterator[Frame], window: Window) -> None:
        self.info = info
        self._window = window
        self._frames = self._counted(frames)

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def _counted(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        info = self.info
        earliest, latest = 1 << 128, 0
        damage = ""
        try:
            for frame in frames:
                _file, info.frames, time, _link_type, data, wire_length = frame
                if wire_length > len(data):
                    info.cut_frames += 1
                if time > latest:
                    info.last_time = latest = time
                if time < earliest and time:  # 0: no time known
                    info.first_time = earliest = time
                yield frame
        except DamageError as error:
            damage = str(error)
        finally:
            self.close()
        if info.link_types and link_types.SUPPORTED.isdisjoint(info.link_types):
            raise self._window.refusal(link_types.problem(info.link_types), link_types.HINT, None)
        info.damage = "; ".join(filter(None, (self._window.damage, damage)))
        info.truncated = bool(info.damage)

    def close(self) -> None:
        self._window.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_capture(path: str, file: int) -> Capture:
    """Open a capture: a path, or "-" for standard input. `file` is the index that its frames carry.

    Raises SourceError when it cannot be opened, is no capture, or has a link type that is not supported.
    """
    window = Window(FileStream(path), path)
    try:
        return _identify(path, file, window)
    except BaseException:
        window.close()
        raise


def _identify(path: str, file: int, window: Window) -> Capture:
    compressions: list[str] = []
    window.more(0, 4)
    while (method := compressed.method(window.data)) is not None:
        if len(compressions) == MAX_COMPRESSIONS:
            raise window.refusal(f"compressed more than {MAX_COMPRESSIONS} times over", foreign.UNPACK)
        compressions.append(method)
        window = Window(compressed.DecompressedStream(method, window, path), path, decompressed=True)
        window.more(0, 4)
    info = InputInfo(path)
    frames: Iterator[Frame]
    magic = window.data[:4]
    if magic in pcap.MAGICS:
        header = pcap.read_header(window)
        info.format = "pcap"
        info.link_types.append(header.link_type)
        frames = pcap.frames(window, header, file)
    elif magic == pcapng.MAGIC:
        pcapng.check(window)
        info.format = "pcapng"
        frames = pcapng.frames(window, file, info)
    else:
        _refuse_foreign(window, compressions)
        info.format = "erf"
        info.link_types.append(link_types.ERF)
        frames = erf.frames(window, file)
    info.format = "+".join([info.format, *compressions])
    return Capture(info, frames, window)


def _refuse_foreign(window: Window, compressions: list[str]) -> None:
    """Raise SourceError unless the bytes are ERF records; the error names what they are, as far as that is known."""
    window.more(0, foreign.ENOUGH)
    if not window.data:
        inside = f"holds nothing ({compressions[-1]} stream)" if compressions else "is empty"
        raise window.refusal(inside, "did the capture write anything? tcpdump writes out late without -U", None)
    known = foreign.recognize(window.data)
    if known is not None:
        raise window.refusal(*known, None)
    if not erf.plausible(window):
        raise window.refusal(foreign.unknown(window.data), foreign.UNKNOWN_HINT)
