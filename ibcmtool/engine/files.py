"""The whole way from captures to a verdict: sources, decoder, tracker and judges in one line.

`stream` hands on each connection as it ends and each finding as it comes, and keeps neither; `analyze` collects
them. Several inputs are one analysis: their messages are merged by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import NamedTuple

from dissectors.recognition import MAD_SIZE
from ibcmtool.connections.tracker import Tracker
from ibcmtool.engine.clocks import align
from ibcmtool.model import (
    Analysis,
    CmMessage,
    Connection,
    DataPacket,
    Event,
    Finding,
    Frame,
    InputInfo,
    Neighbour,
    Policy,
    TimewaitModel,
    rank,
)
from ibcmtool.rules import Judge
from ibcmtool.rules.facts.coverage import Coverage
from ibcmtool.services import endpoint_names
from ibcmtool.sources.files import Capture, ScanRequest, open_capture
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.neighbours import neighbour

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
    records: list[Connection | Finding] = []

    def emit(event: Event) -> None:
        records.extend(judge.judge(event))
        if event.kind == "ENDED":
            records.append(event.connection)

    with ExitStack() as stack:
        captures = [stack.enter_context(open_capture(path, number)) for number, path in enumerate(paths)]
        coverage = Coverage(paths, align(captures, clock_offsets))
        judge = Judge(policy, coverage)
        tracker = Tracker(emit, endpoint_names, timewait_model, covered=judge.context.covered)
        scan = Scan(tracker, coverage, thorough, progress, _redactor() if redact else None)
        for item in _merged(captures, scan):
            if isinstance(item, CmMessage):
                judge.message(item)
                tracker.feed(item)
            elif isinstance(item, Neighbour):
                judge.neighbour(item)
            else:
                tracker.feed_data(item)
            if records:
                yield from records
                records.clear()
        infos = [capture.info for capture in captures]
        ends = (info.last_time - info.clock_offset for info in infos if info.last_time is not None)
        tracker.advance(max(ends, default=0))
        tracker.finish()
        yield from records
        yield from judge.capture_end(infos, tracker.overruns)
        yield from infos


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


class Scan(NamedTuple):
    """What the reading of all inputs shares."""

    tracker: Tracker
    coverage: Coverage
    thorough: bool
    progress: Progress | None
    redact: Callable[[Frame], Frame] | None


def _redactor() -> Callable[[Frame], Frame]:
    from ibcmtool.redaction import Redactor  # loads Scapy

    return Redactor()


def _merged(captures: Sequence[Capture], scan: Scan) -> Iterator[CmMessage | DataPacket | Neighbour]:
    streams = [_messages(capture, file, scan) for file, capture in enumerate(captures)]
    return streams[0] if len(streams) == 1 else _noted(heapq.merge(*streams, key=attrgetter("time")), scan.coverage)


def _noted(
    items: Iterator[CmMessage | DataPacket | Neighbour], coverage: Coverage
) -> Iterator[CmMessage | DataPacket | Neighbour]:
    for item in items:
        if isinstance(item, CmMessage):
            coverage.note(item)
        yield item


def _messages(capture: Capture, file: int, scan: Scan) -> Iterator[CmMessage | DataPacket | Neighbour]:
    """What is worth feeding in one capture."""
    decode, info, redact = Decoder(), capture.info, scan.redact
    scan_request = ScanRequest(scan.tracker.watched, everything=scan.thorough, progress=scan.progress)
    for frame in capture.scan(scan_request):
        if redact is not None:
            frame = redact(frame)
        item = decode(frame, scan_request.watched if frame.number <= scan_request.until else ()) or neighbour(frame)
        if item is None:
            continue
        if isinstance(item, CmMessage):
            scan_request.heard(frame.number)
            info.cm_messages += 1
            info.cut_messages += len(item.mad) < MAD_SIZE
        yield item._replace(time=item.time - info.clock_offset) if info.clock_offset else item
    scan.coverage.end(file, None if info.last_time is None else info.last_time - info.clock_offset)
