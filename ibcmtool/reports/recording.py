"""Live packets written to a capture file while they come: findings as comments, in files of bounded size or time.

A packet is held back until the next one, or for a moment, so that the findings that it brings stand with it. Findings
that come later, when a time is over, go to the next packet, and name the frames that they are about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ibcmtool.analysis import Finding
from ibcmtool.engine.sink import Received
from ibcmtool.formatting import SECOND
from ibcmtool.model import Event
from ibcmtool.reports.sink import Sink
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.files.pcapng_writer import PcapngWriter

if TYPE_CHECKING:
    from ibcmtool.engine.live import SourceStatus


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a new file is begun, and how many are kept; 0 is no limit."""

    size: int = 0  # bytes
    time: int = 0  # ns of capture time
    keep: int = 0  # files; older ones are deleted

    def __bool__(self) -> bool:
        return bool(self.size or self.time)


class Recording(Sink):
    """Writes to one file, or to a row of them named FILE_00001_20261129174000.pcapng and so on, as dumpcap does.

    Raises SourceError when a file cannot be begun; OSError when writing fails.
    """

    follows = True

    def __init__(self, path: str, rotation: Rotation, sources: Sequence[SourceStatus]) -> None:
        self._path = Path(path)
        self._rotation = rotation
        self._sources = sources
        self._files: deque[Path] = deque()
        self._count = 0
        self._out: BinaryIO | None = None
        self._writer: PcapngWriter | None = None
        self._size = 0
        self._begun = 0
        self._held: Received | None = None
        self._comments: list[str] = []
        if not rotation:
            self._begin(0)

    def received(self, received: Received) -> None:
        self._write()
        self._held = received
        process = received.frame.process
        if process:
            self._comments.append(f"sent by {process}")

    def finding(self, finding: Finding, event: Event | None) -> None:
        """A finding: a comment of the packet that brought it, or of the next one."""
        frames = ", ".join(str(frame) for _, frame in finding.frames)
        about = f" (frames {frames})" if frames else ""
        self._comments.append(
            f"{finding.severity} {finding.code} {finding.name} ({finding.confidence}): {finding.message}{about}"
        )

    def refresh(self, now: int | None) -> None:
        """Everything to the file, so that others can read it."""
        self._write()
        if self._out is not None:
            self._out.flush()

    def _write(self) -> None:
        """Write the packet that is held back."""
        held = self._held
        if held is None:
            return
        frame = held.frame
        if self._writer is None or self._full(frame.time):
            self._end(frame.time)
            self._begin(frame.time)
        assert self._writer is not None
        source = self._sources[held.item.file].source
        about = "CM MADs of this host; the headers around them are made up" if source.made_up else ""
        self._size += self._writer.write(frame, source.name, self._comments, frame.direction, about)
        self._held, self._comments = None, []

    def close(self) -> None:
        """Everything to the file, and the file closed."""
        self._write()
        self._end(max((now for status in self._sources if (now := status.now()) is not None), default=0))

    def _full(self, time: int) -> bool:
        limit = self._rotation
        return bool(limit.size and self._size >= limit.size) or bool(limit.time and time - self._begun >= limit.time)

    def _begin(self, time: int) -> None:
        path = self._path
        if self._rotation:
            self._count += 1
            moment = datetime.fromtimestamp(time / SECOND).astimezone()
            path = path.with_name(f"{path.stem}_{self._count:05d}_{moment:%Y%m%d%H%M%S}{path.suffix or '.pcapng'}")
        try:
            self._out = path.open("wb")
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}"
            raise SourceError(str(path), problem, "name a file where you may write") from None
        self._writer = PcapngWriter(self._out)
        self._size, self._begun = 0, time
        self._files.append(path)
        while self._rotation.keep and len(self._files) > self._rotation.keep:
            self._files.popleft().unlink(missing_ok=True)

    def _end(self, time: int) -> None:
        if self._writer is not None and self._out is not None:
            dropped = [(status.source.name, status.source.dropped) for status in self._sources]
            self._writer.close(time, dropped, self._comments if self._held is None else ())
            self._out.close()
            self._writer = self._out = None
