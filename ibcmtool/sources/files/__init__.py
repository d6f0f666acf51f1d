"""Where frames come from: capture files and streams, recognised by their first bytes, never by their name.

`open_capture` gives a `Capture`; iterating it reads the frames one by one, however large the input. An input that is
cut or damaged gives every frame before the damage; `Capture.info` tells where and what.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

from ibcmtool.analysis import InputInfo
from ibcmtool.packets import Frame
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files import compressed, erf, foreign, pcap, pcapng
from ibcmtool.sources.files.records import RecordReader
from ibcmtool.sources.files.scan import ScanRequest
from ibcmtool.sources.files.streams import ByteStream, FileStream, Window
from ibcmtool.sources.files.timeless import frames_at_hand, timeless
from ibcmtool.wire.links.erf import ERF

__all__ = ["Capture", "ScanRequest", "SourceError", "open_capture", "open_stream"]

MAX_COMPRESSIONS = 2  # a .pcap.gz inside a .zst, and no further


class Capture:
    """An open input. Its frames come once, by iterating it or by one `scan`; `info` is final at their end.

    SourceError can still come on the way, from a pcapng input that turns out to hold foreign link types only. The input
    is closed at the end of the frames, by `close`, and by `with`; on the way `info` is brought up to date now and then.
    """

    def __init__(self, info: InputInfo, reader: RecordReader, window: Window) -> None:
        self.info = info
        self._window = window
        self._reader = reader
        self._frames: Iterator[Frame] | None = None

    def __iter__(self) -> Iterator[Frame]:
        """Every frame."""
        return self.scan(ScanRequest(everything=True))

    def scan(self, scan_request: ScanRequest) -> Iterator[Frame]:
        """The frames in which the decoder can find a CM message or what else has the scan_request, and few others."""
        if self._frames is None:
            self._frames = self._reader.frames(scan_request)
        return self._frames

    def at_hand(self) -> Iterator[Frame]:
        """The first frames, as far as they are in memory; asked before any is read, they come once more."""
        return frames_at_hand(self._reader, self._window)

    def close(self) -> None:
        if isinstance(self._frames, Generator):
            self._frames.close()
        self._window.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_capture(path: str, file: int) -> Capture:
    """Open a capture: a path, or "-" for standard input. `file` is the index that its frames carry.

    Raises SourceError when it cannot be opened, is no capture, or has a link type that is not supported.
    """
    known = _timeless(path)
    capture = open_stream(FileStream(path), path, file)
    capture.info.timeless = timeless(capture.at_hand()) if known is None else known
    return capture


def _timeless(path: str) -> bool | None:
    """Whether the frames of a file have no times; None for what cannot be read twice. Raises SourceError as above."""
    try:
        if path == "-" or not Path(path).is_file():
            return None
    except OSError:
        return None
    with open_stream(FileStream(path), path, 0) as capture:
        return timeless(iter(capture))


def open_stream(stream: ByteStream, path: str, file: int) -> Capture:
    """The capture that a stream holds; `path` is what messages call it. Errors as in `open_capture`."""
    window = Window(stream, path)
    try:
        return _identify(path, file, window)
    except BaseException:
        window.close()
        raise


def _identify(path: str, file: int, window: Window) -> Capture:
    compressions: list[str] = []
    window.more(0, 4)
    while (method := compressed.method(window.head(4))) is not None:
        if len(compressions) == MAX_COMPRESSIONS:
            raise window.refusal(f"compressed more than {MAX_COMPRESSIONS} times over", foreign.UNPACK)
        compressions.append(method)
        window = Window(compressed.DecompressedStream(method, window, path), path, decompressed=True)
        window.more(0, 4)
    info = InputInfo(path)
    reader: RecordReader
    magic = window.head(4)
    if magic in pcap.MAGICS:
        header = pcap.read_header(window)
        info.format = "pcap"
        info.link_types.append(header.link_type)
        reader = pcap.PcapReader(window, header, file, info)
    elif magic == pcapng.MAGIC:
        pcapng.check(window)
        info.format = "pcapng"
        reader = pcapng.PcapngReader(window, file, info)
    else:
        _refuse_foreign(window, compressions)
        info.format = "erf"
        info.link_types.append(ERF.number)
        reader = erf.ErfReader(window, file, info)
    info.format = "+".join([info.format, *compressions])
    return Capture(info, reader, window)


def _refuse_foreign(window: Window, compressions: list[str]) -> None:
    """Raise SourceError unless the bytes are ERF records; the error names what they are, as far as that is known."""
    window.more(0, foreign.ENOUGH)
    if not window.size:
        inside = f"holds nothing ({compressions[-1]} stream)" if compressions else "is empty"
        raise window.refusal(inside, "did the capture write anything? tcpdump writes out late without -U", None)
    head = window.head(foreign.SAMPLE)
    known = foreign.recognize(head)
    if known is not None:
        raise window.refusal(*known, None)
    if not erf.plausible(window):
        raise window.refusal(f"unknown format: begins with the bytes {head[:16].hex(' ')}", foreign.UNKNOWN_HINT)
