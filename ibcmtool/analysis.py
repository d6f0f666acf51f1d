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
    Finding,
    InputInfo,
    Policy,
    rank,
)
from ibcmtool.rules import Judge
from ibcmtool.rules.quality import capture_findings
from ibcmtool.services import endpoint_names
from ibcmtool.sources import Attention, Capture, open_capture

Progress = Callable[[int], None]
MAD_LENGTH = 256


def stream(
    paths: Sequence[str], policy: Policy = "relaxed", progress: Progress | None = None, *, thorough: bool = False
) -> Iterator[InputInfo | Connection | Finding]:
    """Findings as they come, connections as they end, the inputs last. Raises SourceError for an unreadable one.

    `thorough` decodes every frame of the inputs instead of those that can hold a CM message; the result is the same.
    `progress` is called with the number of the frame that was reached.
    """
    tracker, judge = Tracker(endpoint_names), Judge(policy)
    with ExitStack() as stack:
        captures = [stack.enter_context(open_capture(path, number)) for number, path in enumerate(paths)]
        align(captures)
        for item in _merged(captures, tracker, thorough, progress):
            events = tracker.feed(item) if isinstance(item, CmMessage) else tracker.feed_data(item)
            for event in events:
                found = judge.judge(event)
                if found:
                    yield from found
                if event.kind == "ENDED":
                    yield event.connection
        infos = [capture.info for capture in captures]
        last = max((info.last_time for info in infos if info.last_time is not None), default=0)
        for event in chain(tracker.advance(last), tracker.finish()):
            yield from judge.judge(event)
            if event.kind == "ENDED":
                yield event.connection
        yield from capture_findings(infos, tracker.overruns)
        yield from infos


def analyze(
    paths: Sequence[str], policy: Policy = "relaxed", progress: Progress | None = None, *, thorough: bool = False
) -> Analysis:
    """Everything that a report needs, connections by number, findings worst first. Raises SourceError."""
    analysis = Analysis(policy, [], [], [])
    for record in stream(paths, policy, progress, thorough=thorough):
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
    captures: Sequence[Capture], tracker: Tracker, thorough: bool, progress: Progress | None
) -> Iterator[CmMessage | DataPacket]:
    streams = [_messages(capture, tracker, thorough, progress) for capture in captures]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=attrgetter("time"))


def _messages(
    capture: Capture, tracker: Tracker, thorough: bool, progress: Progress | None
) -> Iterator[CmMessage | DataPacket]:
    """What is worth feeding in one capture."""
    decode, info = Decoder(), capture.info
    attention = Attention(tracker.watched, everything=thorough, progress=progress)
    for frame in capture.scan(attention):
        message = decode(frame, attention.watched if frame.number <= attention.until else ())
        if message is None:
            continue
        if isinstance(message, CmMessage):
            attention.heard(frame.number)
            info.cm_messages += 1
            info.cut_messages += len(message.mad) < MAD_LENGTH
        yield message._replace(time=message.time - info.clock_offset) if info.clock_offset else message
