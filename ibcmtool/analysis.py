"""The whole way from captures to a verdict: sources, decoder, tracker and judges in one line.

`stream` hands on each connection as it ends and each finding as it comes, and keeps neither; `analyze` collects
them. Several inputs are one analysis: their messages are merged by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from operator import attrgetter

from ibcmtool.clocks import align
from ibcmtool.connections.tracker import Tracker
from ibcmtool.decode import Decoder
from ibcmtool.model import (
    Analysis,
    CmMessage,
    Connection,
    DataPacket,
    Event,
    Finding,
    InputInfo,
    Policy,
    rank,
)
from ibcmtool.rules import Judge
from ibcmtool.rules.quality import capture_findings
from ibcmtool.services import endpoint_names
from ibcmtool.sources import Capture, open_capture

Progress = Callable[[int], None]
MAD_LENGTH = 256
PROGRESS_STEP = 4096  # frames between two calls of the progress function


def stream(
    paths: Sequence[str], policy: Policy = "relaxed", progress: Progress | None = None
) -> Iterator[InputInfo | Connection | Finding]:
    """Findings as they come, connections as they end, the inputs last. Raises SourceError for an unreadable one."""
    tracker, judge = Tracker(endpoint_names), Judge(policy)
    with ExitStack() as stack:
        captures = [stack.enter_context(open_capture(path, number)) for number, path in enumerate(paths)]
        align(captures)
        for item in _merged(captures, tracker, progress):
            events = tracker.feed(item) if isinstance(item, CmMessage) else tracker.feed_data(item)
            for event in events:
                yield from _tell(event, judge)
        infos = [capture.info for capture in captures]
        last = max((info.last_time for info in infos if info.last_time is not None), default=0)
        for event in chain(tracker.advance(last), tracker.finish()):
            yield from _tell(event, judge)
        yield from capture_findings(infos)
        yield from infos


def _tell(event: Event, judge: Judge) -> Iterator[Connection | Finding]:
    yield from judge.judge(event)
    if event.kind == "ENDED":
        yield event.connection


def analyze(paths: Sequence[str], policy: Policy = "relaxed", progress: Progress | None = None) -> Analysis:
    """Everything that a report needs, connections by number, findings worst first. Raises SourceError."""
    analysis = Analysis(policy, [], [], [])
    for record in stream(paths, policy, progress):
        if isinstance(record, Connection):
            analysis.connections.append(record)
        elif isinstance(record, Finding):
            analysis.findings.append(record)
        else:
            analysis.inputs.append(record)
    analysis.connections.sort(key=attrgetter("id"))
    analysis.findings.sort(key=rank)
    return analysis


def _merged(
    captures: Sequence[Capture], tracker: Tracker, progress: Progress | None
) -> Iterator[CmMessage | DataPacket]:
    streams = [_messages(capture, tracker, progress) for capture in captures]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("time"))


def _messages(capture: Capture, tracker: Tracker, progress: Progress | None) -> Iterator[CmMessage | DataPacket]:
    """What is worth feeding in one capture."""
    decode, watched, info = Decoder(), tracker.watched, capture.info
    for frame in capture:
        message = decode(frame, watched)
        if message is not None:
            if isinstance(message, CmMessage):
                info.cm_messages += 1
                info.cut_messages += len(message.mad) < MAD_LENGTH
            if info.clock_offset:
                message = message._replace(time=message.time - info.clock_offset)
            yield message
        if progress is not None and frame.number % PROGRESS_STEP == 0:
            progress(frame.number)
