"""The running of a live session: until a signal, a limit, or the end of all sources; then everything in order."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ibcmtool.cli.output import warn
from ibcmtool.engine.live import Session
from ibcmtool.reports.hooks import notify
from ibcmtool.reports.sink import Sink
from ibcmtool.sources.live import LiveSource
from ibcmtool.sources.live.reading import Reading

WAIT = 0.1  # seconds between two looks at the clock while nothing arrives
TICK = 0.2  # seconds after which time passes for the tracker, and the output is brought up to date
STORM = 100  # packets at once; fewer are shown at once, more with the next tick
HINT_AFTER = 5.0  # seconds of silence


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop, if not before."""

    seconds: float | None
    messages: int | None


class Notes:
    """What the sources have to say that the user must know, each once. shown: a sink shows it meanwhile."""

    def __init__(self, sources: Sequence[LiveSource], *, shown: bool) -> None:
        self._sources = sources
        self._shown = shown
        self._told = [0] * len(sources)

    def tell(self, *, last: bool = False) -> None:
        """Write on stderr what is new; last: also what a sink has shown."""
        if self._shown and not last:
            return
        for at, source in enumerate(self._sources):
            for note in source.notes[self._told[at] :]:
                warn(note)
                self._told[at] += 1


class StopRequest:
    """Set by the first signal that asks us to end; the second one ends us at once."""

    def __init__(self) -> None:
        self.made = False

    def make(self, number: int, _frame: object) -> None:
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Signals that end a program become a flag, so that sources can put everything back in order.

    A reader of our output that goes away must not kill us either: the write fails instead.
    """
    stop = StopRequest()
    before = {number: signal.signal(number, stop.make) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    session: Session, reading: Reading, sink: Sink, stop: StopRequest, limits: Limits, notes: Notes, *, hints: bool
) -> BaseException | None:
    """The whole session. Returns why a source failed, if one did.

    However it ends, what was found so far is written. `notes`: what is told meanwhile. `hints`: say what to look at
    where nothing arrives.
    """
    session.engine.sink = sink
    notify("READY=1")
    try:
        return _watch(session, reading, sink, stop, limits, notes, hints=hints)
    finally:
        reading.stop()
        for batch in reading.rest():
            session.take(batch.source, batch.frames)
        notify("STOPPING=1")
        session.finish()
        sink.close()


def _watch(
    session: Session, reading: Reading, sink: Sink, stop: StopRequest, limits: Limits, notes: Notes, *, hints: bool
) -> BaseException | None:
    begun = ticked = time.monotonic()
    while not stop.made:
        now = time.monotonic()
        if limits.seconds is not None and now - begun >= limits.seconds:
            return None
        batch = reading.next(WAIT)
        if batch is not None:
            session.take(batch.source, batch.frames)
            notes.tell()
            if len(batch.frames) < STORM:
                sink.refresh(session.now())
            if batch.ended:
                session.end(batch.source)
                if batch.error is not None:
                    return batch.error
                if all(status.ended for status in session.sources):
                    return None
            if limits.messages is not None and limits.messages <= sum(
                status.info.cm_messages for status in session.sources
            ):
                return None
        if now - ticked >= TICK:
            ticked = now
            session.pass_time()
            notes.tell()
            sink.refresh(session.now())
        if hints and now - begun > HINT_AFTER:
            hints = False
            _hint(session)
    return None


def _hint(session: Session) -> None:
    """What to look at where nothing has arrived."""
    for status in session.sources:
        if status.last is None and status.source.silence:
            warn(f"{status.source.name}: nothing yet; {status.source.silence}")
