"""`kernel`: every CM MAD that ib_cm of this host sends or receives, on any device, with the program that sent it.

Probes at ib_cm's receive handler and at ib_mad's entrance for sends fetch the whole MAD (tracefs.py); the tracepoint at
ib_mad's way to the device tells when one is sent again (retries.py).
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from threading import Event

from dissectors.recognition import CM_ATTRIBUTES
from ibcmtool.formatting import duration
from ibcmtool.packets import Address, Frame
from ibcmtool.sources.live.counters import Comparison
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.kernel.addresses import Addresses, Pair
from ibcmtool.sources.live.kernel.clock import KernelClock
from ibcmtool.sources.live.kernel.parse import ReceivedMad, SendAttempt, SentMad, TraceRecord, parse
from ibcmtool.sources.live.kernel.programs import Programs
from ibcmtool.sources.live.kernel.retries import Retries
from ibcmtool.sources.live.kernel.traced_kernel import OTHERS, TracedKernel
from ibcmtool.sources.live.kernel.tracefs import Tracing
from ibcmtool.sources.live.source import Deliver, LiveSource
from ibcmtool.wire.header_readers import read_attribute
from ibcmtool.wire.synthetic import Packets

POLL = 0.05  # seconds between two looks at the trace
ROUND = 1 << 20  # bytes of trace that are read before they are delivered
LOOKS = 20  # rounds between two looks at what was lost

HEAD = b"\x01\x07\x02\x03"  # base version, class CommMgt, class version, method Send: how ib_cm's MADs begin


class KernelSource(LiveSource):
    """The running kernel. host: whose it is (tests have their own)."""

    silence = "no program connects, and none disconnects: open connections send no CM messages"
    made_up = True

    def __init__(self, name: str, rest: str, host: Host | None = None) -> None:
        super().__init__(name)
        if rest:
            raise self.refusal("takes nothing behind the colon", "write live kernel")
        self._kernel = TracedKernel(host if host is not None else Host())
        self._tracing: Tracing | None = None
        self._comparison: Comparison | None = None
        self._rest = b""  # of a line that was read in part
        self._sensible: set[type] = set()  # kinds of records of which one made sense
        self._senseless = 0

    def open(self) -> None:
        tracefs = self._kernel.tracefs(self.name)
        layout = self._kernel.layout(self.name)
        if layout.origin != "BTF":
            self.note(f"offsets by {layout.origin}, as there is no BTF of ib_cm")
        self._packets = Packets()
        self._packets.frame(0, Address(), Address(), b"")  # loads what it takes: no MAD shall wait for that
        tracing = Tracing(tracefs, os.getpid(), self._kernel.root / "proc")
        comparison = Comparison(self._kernel.root)
        self._tracing = tracing
        try:
            tracing.open(layout)
        except OSError as error:
            raise self._kernel.refusal(self.name, error, "setting a probe") from None
        comparison.begin()
        self.sees_host = tracing.sees_attempts
        self._comparison = comparison
        if not tracing.sees_attempts:
            self.note(f"Linux {self._kernel.release} does not tell when ib_mad sends a MAD again")
        self._clock = KernelClock(tracing.clock)
        self._addresses = Addresses(self._kernel.root)
        self._programs = Programs(self._kernel.root / "proc")
        self._retries = Retries()

    def run(self, deliver: Deliver, stop: Event, watched: Container[int]) -> None:
        tracing, comparison = self._tracing, self._comparison
        assert tracing is not None
        assert comparison is not None
        rounds = 0
        while self._tracing is not None:
            stopped = stop.is_set()  # what came before is still delivered
            if stopped:
                comparison.end()
            records, behind = self._read(tracing)
            if records:
                self.dropped = max(self.dropped, tracing.lost())  # whoever takes them must know of what is missing
                deliver(list(self._frames(records)))
            if stopped:
                return
            rounds += 1
            if rounds % LOOKS == 0:
                self.dropped = max(self.dropped, tracing.lost())
                self._compare_clocks()
            if not behind:
                stop.wait(POLL)

    def close(self) -> None:
        tracing, self._tracing = self._tracing, None
        if tracing is None:
            return
        if self._comparison is not None:
            tracing.stop()
            self._comparison.end()
            self.dropped = max(self.dropped, tracing.lost())
        tracing.close()
        if self._comparison is None:
            return
        if self.dropped:
            self.note(f"{self.dropped:,} events were lost, as the kernel's buffer was read too slowly")
        sentence = self._comparison.sentence()
        if sentence:
            self.note(sentence)
        if self._retries.unknown:
            times = f"{self._retries.unknown:,} times"
            self.note(f"{times} a message was sent again whose first sending was before the start: not shown")
        if self._senseless:
            self.note(f"{self._senseless:,} MADs made no sense and were left out")

    def _read(self, tracing: Tracing) -> tuple[list[TraceRecord], bool]:
        """What was traced since the last time, and whether there is more. By time: each CPU has a buffer of its own."""
        pieces = [self._rest]
        size = 0
        while size < ROUND and (piece := tracing.read()):
            pieces.append(piece)
            size += len(piece)
        *lines, self._rest = b"".join(pieces).split(b"\n")
        records = [record for line in lines if (record := parse(line)) is not None]
        records.sort(key=lambda record: record.time)
        return records, size >= ROUND

    def _frames(self, records: Iterable[TraceRecord]) -> Iterable[Frame]:
        for record in records:
            if isinstance(record, SendAttempt):
                posted = self._retries.attempt(record.tid, record.attribute)
                if posted is not None:
                    yield self._sent(record.time, posted.mad, posted.pair, posted.process)
            elif not self._makes_sense(record):
                self._senseless += 1
                self.sees_host = False
            elif isinstance(record, ReceivedMad):
                ours, theirs = self._addresses.received(record)
                if self._comparison is not None:
                    self._comparison.captured[CM_ATTRIBUTES.get(read_attribute(record.mad, 0)[0], "")] += 1
                frame = self._packets.frame(self._clock.wall(record.time), theirs, ours, record.mad)
                yield frame._replace(direction="in")
            else:
                pair = self._addresses.sent(record)
                process = self._programs.name(record.task, record.thread)
                self._retries.post(record.mad, pair, process)
                yield self._sent(record.time, record.mad, pair, process)

    def _sent(self, time: int, mad: bytes, pair: Pair, process: str) -> Frame:
        frame = self._packets.frame(self._clock.wall(time), pair.ours, pair.theirs, mad)
        return frame._replace(direction="out", process=process)

    def _makes_sense(self, record: ReceivedMad | SentMad) -> bool:
        """Whether the bytes begin as a CM MAD does. Raises SourceError where not even the first ones do."""
        mad = record.mad
        if mad[:4] == HEAD or (mad[:2] == HEAD[:2] and read_attribute(mad, 0)[0] in CM_ATTRIBUTES):
            self._sensible.add(type(record))
            return True
        if type(record) not in self._sensible:
            raise self.refusal(
                f"where a CM MAD should begin with {HEAD.hex(' ')}, Linux {self._kernel.release} has "
                f"{mad[:4].hex(' ')}: its structures are others than expected",
                OTHERS,
            )
        return False

    def _compare_clocks(self) -> None:
        moved = self._clock.compare()
        if moved:
            way = "forward" if moved > 0 else "back"
            self.note(f"the time of day was set {way} by {duration(abs(moved))}; times go on as before")
