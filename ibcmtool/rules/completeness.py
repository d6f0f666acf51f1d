"""X04, X06: what captures lack, and in which order they stand, as far as their CM messages tell.

No single event shows it. Completeness looks at each message and at each connection that has ended, and speaks at the
end of the analysis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from ibcmtool.formatting import address, count, duration, listed, number
from ibcmtool.model import Address, CmMessage, Connection, Event, Finding, InputInfo, Step, Transport
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.closing import capture_finding
from ibcmtool.rules.history import DISORDER
from ibcmtool.rules.view import View

ANSWERS = frozenset({"MRA", "REP", "RTU", "DREP", "APR", "SIDR_REP"})  # there was a message that they answer
REJ_TIMEOUT = 4
ABOUT_A_MESSAGE = (0, 1)  # Message Rejected: REQ, REP

ENOUGH_ANSWERS = 2  # to a silent address: one may have come just after the capture began
ENOUGH_EXCHANGES = 3  # that show one direction, and their share in tenths
SETTLED = 10_000_000_000  # ns after the first message; until then connections have begun before the capture
NOTEWORTHY_TENTHS = 1
NAMED = 3  # addresses in a sentence
FRAMES_SHOWN = 8

PSN_RANGE = 1 << 24
LONGEST_GAP = 1 << 12  # a larger step is a restart, or hours without a CM message
NOTEWORTHY_GAPS = 16  # packets missing, and their share in tenths
GAPS_TENTHS = 2


@rule(
    "X04",
    "capture-incomplete",
    "The capture lacks a direction, or packets",
    severity="info",
    on=(),
    clause="no specification clause: a limit of the capture",
    explanation=(
        "An RTU answers a REP, a DREP a DREQ: where the answers are in the capture and nothing of what they answer is,"
        " only one direction was recorded. Told once, when an address never speaks although others answer it, or when"
        " one exchange in ten shows one direction only. Everything that rests on a missing answer (timeouts, R07, H18,"
        " S12) may be an effect of it. The second sign: QP1 numbers its packets. If a host at whose RoCE port the"
        " capture was made skips numbers, CM messages of it are missing, or it has other management traffic."
    ),
    false_positives=(
        "A host that is down answers nobody: silence alone is no sign. Gaps in the numbers are a hint only (possible):"
        " a capture filter by address leaves such gaps, and on InfiniBand they are ordinary (queries to the subnet"
        " administrator), so they are not told there."
    ),
    advice=(
        "Mirror both directions of the port, or capture on both hosts and analyze the files together; for gaps, look at"
        " the drop counters of the capture tool (ibdump reports none)."
    ),
)
def of_captures(event: Event, view: View) -> Iterator[Verdict]:
    """No event tells of it: the completeness does."""
    yield from ()


rule(
    "X06",
    "time-goes-back",
    "The frames of an input are not in the order of their times",
    severity="info",
    on=(),
    clause="no specification clause: a limit of the capture",
    explanation=(
        "A CM message carries an earlier time than one that stands before it in the same input, by more than the 50 ms"
        " of disorder that several receive queues or a mirror port cause. Captures were put one behind the other"
        " without sorting, or the clock was set while it ran. States and timers around that place may be wrong."
    ),
    false_positives="None: it states what the times say.",
    advice="Sort the file by time (reordercap IN OUT, or mergecap of the parts) and analyze it again.",
)(of_captures)


class Completeness:
    """Counts what is in the captures. Bounded by the number of ports and inputs that they show."""

    def __init__(self) -> None:
        self._inputs: dict[int, _Input] = {}
        self._start: int | None = None
        self._exchanges = 0
        self._one_sided = self._certain = 0  # connections of which one direction was seen; not for the beginning's sake
        self._silent: dict[Address, _Silence] = {}  # by the address that should have spoken

    def note(self, message: CmMessage) -> None:
        """A CM message, in the order of its input."""
        time, source = message.time, message.source
        known = self._inputs.get(message.file)
        if known is None:
            self._start = time if self._start is None else min(self._start, time)
            known = self._inputs[message.file] = _Input(time)
        if time < known.latest:
            known.step_back(message)
        else:
            known.latest = time
        numbers, psn = known.sources.get(source), message.psn
        if numbers is None:
            known.sources[source] = _Numbers(psn, message.transport)
        elif psn is not None:
            if psn == numbers.next:
                numbers.seen += 1
                numbers.next = psn + 1
            else:
                numbers.jump(psn)

    def ended(self, connection: Connection) -> None:
        """A connection with all that was seen of it."""
        self._exchanges += 1
        history = connection.history
        if not (history.isupper() or history.islower()):  # one letter for each message, capitals for one of the sides
            return
        answers = [step for step in connection.steps if _answers(step)]
        if answers:
            self._one_sided += 1
            self._certain += connection.request is not None or connection.opened > (self._start or 0) + SETTLED
            silence = self._silent.setdefault(answers[0].message.destination, _Silence())
            silence.exchanges += 1
            silence.answers += len(answers)
            if len(silence.frames) < FRAMES_SHOWN:
                silence.frames += tuple((step.message.file, step.message.frame) for step in answers)

    def findings(self, inputs: Sequence[InputInfo], view: View) -> Iterator[Finding]:
        """What there is to say of the captures when all are read."""
        yield from self._one_direction()
        yield from self._gaps(inputs, view)
        yield from self._disorder(inputs)

    def _one_direction(self) -> Iterator[Finding]:
        heard = {source for known in self._inputs.values() for source in known.sources}
        never = {
            silent: found
            for silent, found in self._silent.items()
            if found.answers >= ENOUGH_ANSWERS and not any(source.matches(silent) for source in heard)
        }
        often = self._certain >= ENOUGH_EXCHANGES and self._certain * 10 >= self._exchanges * NOTEWORTHY_TENTHS
        if not (never or often):
            return
        told = never or self._silent
        names = sorted(told, key=lambda silent: -told[silent].exchanges)
        share = f"in {number(self._one_sided)} of {count(self._exchanges, 'connection')}"
        if never:
            sentence = f"Nothing that {_named(names)} sent was captured, although others answer it: {share} only one"
            sentence += " direction is there."
        else:
            sentence = f"One direction is missing {share}, mostly what {_named(names)} sent; elsewhere it is there."
        yield capture_finding(
            "X04",
            sentence,
            confidence="certain" if never else "probable",
            frames=tuple(frame for name in names[:NAMED] for frame in told[name].frames)[:FRAMES_SHOWN],
            evidence={
                "one_sided": self._one_sided,
                "connections": self._exchanges,
                "missing": {address(name): told[name].exchanges for name in names[:FRAMES_SHOWN]},
            },
        )

    def _gaps(self, inputs: Sequence[InputInfo], view: View) -> Iterator[Finding]:
        """Numbers that a host skipped, in an input that was captured at its port."""
        found = ((file, *each) for file, known in self._inputs.items() for each in known.sources.items())
        for file, source, numbers in found:
            if view.shared.get(file) != (source,) or not numbers.roce:
                continue
            seen, missing = numbers.seen, numbers.missing
            if missing < NOTEWORTHY_GAPS or missing * 10 < (seen + missing) * GAPS_TENTHS:
                continue
            yield capture_finding(
                "X04",
                f"{inputs[file].path}: all connections are those of {address(source)}, which numbered"
                f" {number(seen + missing)} QP1 packets, {number(missing)} of which are not here: its other management"
                " traffic, what a filter left out, or packets that the capture lost.",
                confidence="possible",
                evidence={"seen": seen, "missing": missing, "address": address(source)},
            )

    def _disorder(self, inputs: Sequence[InputInfo]) -> Iterator[Finding]:
        for file, known in sorted(self._inputs.items(), key=itemgetter(0)):
            if known.largest > DISORDER:
                yield capture_finding(
                    "X06",
                    f"{inputs[file].path}: frame {known.frame} is {duration(known.largest)} earlier than one before it;"
                    f" in all {count(known.steps, 'CM message')} out of order by more than {duration(DISORDER)}.",
                    frames=((file, known.frame),),
                    evidence={"largest_ns": known.largest, "messages": known.steps},
                    time=known.time,
                )


class _Input:
    """Who speaks in one input, and its times."""

    __slots__ = ("frame", "largest", "latest", "sources", "steps", "time")

    def __init__(self, time: int) -> None:
        self.sources: dict[Address, _Numbers] = {}
        self.latest = time
        self.largest = 0  # step back, in ns
        self.steps = self.frame = self.time = 0

    def step_back(self, message: CmMessage) -> None:
        back = self.latest - message.time
        self.steps += back > DISORDER
        if back > self.largest:
            self.largest, self.frame, self.time = back, message.frame, message.time


class _Numbers:
    """The BTH PSNs of one port's QP1 in one input."""

    __slots__ = ("missing", "next", "roce", "seen")

    def __init__(self, psn: int | None, transport: Transport) -> None:
        self.roce = transport != "InfiniBand"
        self.next = None if psn is None else psn + 1  # what would leave no gap
        self.seen, self.missing = 1, 0

    def jump(self, psn: int) -> None:
        """A packet with another number than the next."""
        skipped = 0 if self.next is None else (psn - self.next) % PSN_RANGE
        if skipped == PSN_RANGE - 1:
            return  # the packet before, captured again
        self.seen += 1
        if skipped < LONGEST_GAP:
            self.missing += skipped
        elif skipped >= PSN_RANGE - LONGEST_GAP - 1:
            # Out of order, and taken for missing before; or captured again.
            self.missing = max(self.missing - 1, 0)
            return
        self.next = psn + 1


class _Silence:
    """What was answered, but is not in the capture."""

    __slots__ = ("answers", "exchanges", "frames")

    def __init__(self) -> None:
        self.exchanges = self.answers = 0
        self.frames: tuple[tuple[int, int], ...] = ()


def _answers(step: Step) -> bool:
    """Whether its sender got a message of the other side before."""
    fields, kind = step.message.fields, step.message.type
    if kind == "REJ":
        return fields.reason != REJ_TIMEOUT and fields.message_rejected in ABOUT_A_MESSAGE
    return kind in ANSWERS


def _named(names: Sequence[Address]) -> str:
    """The first few, and how many more."""
    parts = [address(name) for name in names[:NAMED]]
    if len(names) > NAMED:
        parts.append(count(len(names) - NAMED, "other"))
    return listed(parts)
