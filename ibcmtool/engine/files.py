"""Captures in, records out: the driver of the engine for files.

`stream` hands on each connection as it ends and each finding as it comes, and keeps neither; `analyze` collects
them. Several inputs are one analysis: their frames are merged by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter

from ibcmtool.analysis import Analysis, Finding, InputInfo, Policy, rank
from ibcmtool.engine.clocks import align
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.sink import Sink
from ibcmtool.model import Connection, Event, TimewaitModel
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.sources.files import Capture, ScanRequest, open_capture
from ibcmtool.sources.files.strays import EVERY_QPN, LEAP, Strays, Taken
from ibcmtool.sources.files.survey import survey

Progress = Callable[[int], None]


def stream(
    paths: Sequence[str],
    policy: Policy = "relaxed",
    progress: Progress | None = None,
    *,
    thorough: bool = False,
    clock_offsets: Mapping[str, int] | None = None,
    timewait_model: TimewaitModel = "auto",
    redact: bool = False,
) -> Iterator[InputInfo | Connection | Finding]:
    """Findings as they come, connections as they end, the inputs last. Raises SourceError for an unreadable one.

    `thorough` decodes every frame of the inputs instead of those that can hold a CM message; the result is the same.
    `progress` is called with the number of the frame that was reached. `clock_offsets`: how far (ns) the clocks of
    inputs are ahead, by path, where that is not to be estimated. `timewait_model`: see connections/timewait_models.py.
    `redact`: addresses, GUIDs and private data come replaced (redaction).
    """
    with ExitStack() as stack:
        captures = [stack.enter_context(open_capture(path, number)) for number, path in enumerate(paths)]
        infos = [capture.info for capture in captures]
        records = _Records()
        starts = align(captures, clock_offsets)
        engine = Engine(infos, records, policy, timewait_model, redact=redact)
        for file, start in enumerate(starts):
            if start is not None:
                engine.begins(file, start)
        requests = [ScanRequest(engine.watched, everything=thorough, progress=progress) for _ in captures]
        for frame in _merged(captures, requests, engine):
            request = requests[frame.file]
            if isinstance(engine.feed(frame, watch=frame.number <= request.until), CmMessage):
                request.heard(frame.number)
            if records.held:
                yield from records.held
                records.held.clear()
        ends = (info.end_time - info.clock_offset for info in infos if info.end_time is not None)
        engine.advance(max(ends, default=0))
        for info in infos:
            if info.frames and not info.cm_messages:
                info.traffic = survey(info.path)
        engine.finish()
        yield from records.held


def analyze(
    paths: Sequence[str],
    policy: Policy = "relaxed",
    progress: Progress | None = None,
    *,
    thorough: bool = False,
    clock_offsets: Mapping[str, int] | None = None,
    timewait_model: TimewaitModel = "auto",
    redact: bool = False,
) -> Analysis:
    """Everything that a report needs, connections by number, findings worst first. Raises SourceError."""
    analysis = Analysis(policy, [], [], [])
    records = stream(
        paths,
        policy,
        progress,
        thorough=thorough,
        clock_offsets=clock_offsets,
        timewait_model=timewait_model,
        redact=redact,
    )
    for record in records:
        if isinstance(record, Connection):
            analysis.connections.append(record)
        elif isinstance(record, Finding):
            analysis.findings.append(record)
        else:
            analysis.inputs.append(record)
    analysis.connections.sort(key=attrgetter("id"))
    analysis.findings.sort(key=rank)
    return analysis


class _Records(Sink):
    """Holds records until they are handed on."""

    follows = False

    def __init__(self) -> None:
        self.held: list[InputInfo | Connection | Finding] = []

    def finding(self, finding: Finding, event: Event | None) -> None:
        self.held.append(finding)

    def connection(self, connection: Connection) -> None:
        self.held.append(connection)

    def input(self, info: InputInfo) -> None:
        self.held.append(info)


def _merged(captures: Sequence[Capture], requests: Sequence[ScanRequest], engine: Engine) -> Iterator[Frame]:
    """The frames of all captures in the order of their times, which are by the common clock."""
    streams = [
        _frames(capture, file, request, engine)
        for file, (capture, request) in enumerate(zip(captures, requests, strict=True))
    ]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("time"))


def _frames(capture: Capture, file: int, request: ScanRequest, engine: Engine) -> Iterator[Frame]:
    """The frames of one capture that can tell of something; its end is told to the engine."""
    info, strays = capture.info, Strays()
    for frame in capture.scan(request):
        if frame.time <= strays.limit:
            strays.limit = frame.time + LEAP
            yield frame._replace(time=frame.time - info.clock_offset) if info.clock_offset else frame
            continue
        for taken in strays.take(frame):
            yield _as_taken(taken, engine, info.clock_offset)
        request.watched = engine.watched if strays.held is None else EVERY_QPN
        request.heard(frame.number)
    for taken in strays.release(stray=False):
        yield _as_taken(taken, engine, info.clock_offset)
    engine.ends(file, None if info.last_time is None else info.last_time - info.clock_offset)


def _as_taken(taken: Taken, engine: Engine, clock_offset: int) -> Frame:
    """A frame by the common clock; a stray is told to the engine."""
    frame = taken.frame._replace(time=taken.time - clock_offset)
    if taken.time != taken.frame.time:
        engine.stray(frame.file, frame.number, taken.frame.time - taken.time, frame.time)
    return frame
