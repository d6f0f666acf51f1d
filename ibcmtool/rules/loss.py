"""C05: what one capture saw on its way, and another one never did.

Two inputs that hold the same packets stand at two places of one way. A packet that only one of them holds was lost
between the two, or the other one failed to capture it. What was asked and answered tells some of these apart: an answer
shows that its question arrived, wherever it was captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import Any, NamedTuple

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.timers import response_wait
from ibcmtool.formatting import address, count, listed
from ibcmtool.model import Confidence, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.context import Context
from ibcmtool.rules.facts.coverage import Coverage, Ports
from ibcmtool.rules.steps import DISORDER

ENOUGH = 3  # packets of a pair of ports that two inputs must share before one is missed
MARGIN = 100_000_000  # ns that an input must have been recording before and after; clocks may be that far apart
LAGS_ENOUGH = 5  # packets of each direction, before they tell which input comes first on the way
SURE = 5  # standard errors

ANSWERS = {
    "REQ": ("REP", "REJ", "MRA"),
    "REP": ("RTU", "REJ", "MRA"),
    "DREQ": ("DREP",),
    "LAP": ("APR", "REJ", "MRA"),
    "SIDR_REQ": ("SIDR_REP",),
}
QUESTIONS = {
    "RTU": ("REP",),
    "REJ": ("REQ", "REP"),
    "MRA": ("REQ", "REP", "LAP"),
    "DREP": ("DREQ",),
    "APR": ("LAP",),
    "SIDR_REP": ("SIDR_REQ",),
}
ANSWERED_EACH = "DREQ"  # every one that arrives gets an answer of its own; others one, which may be repeated unasked


class Lags:
    """How much later one input has the packets of one direction than another: count, sum and sum of squares (ns)."""

    __slots__ = ("count", "squares", "total")

    def __init__(self, count: int = 0, total: int = 0, squares: int = 0) -> None:
        self.count, self.total, self.squares = count, total, squares

    def add(self, lag: int) -> None:
        self.count += 1
        self.total += lag
        self.squares += lag * lag

    def mean(self) -> float:
        return self.total / self.count

    def error(self) -> float:
        """The variance of the mean."""
        spread = self.squares * self.count - self.total * self.total
        return max(spread, 0) / self.count**3


class Way(NamedTuple):
    """A direction, and two capture points on it: one that saw packets, and one that missed some."""

    ports: Ports
    here: int
    there: int


Shared = dict[tuple[int, int], Lags]  # by inputs, the smaller number first: lags of the second


@rule(
    "C05",
    "lost-on-the-way",
    "One capture saw packets that another one on their way never did",
    severity="info",
    on=("SIGHTING", "ENDED"),
    clause="the BTH PSN tells packets apart; one that is sent again has another (Linux mad.c)",
    explanation=(
        "Both inputs were recording, both hold other packets of the same two ports in this direction, and yet one of"
        " them lacks these: they were lost on the way between the two captures. That explains messages that are sent"
        " again. A packet whose answer was seen did arrive; if the other input lacks it all the same, that input did"
        " not capture it, and the finding says so."
    ),
    false_positives=(
        "A capture that drops packets looks like a network that does, unless an answer shows that they arrived; so the"
        " finding is never certain: it is probable where all of them were missed, as a repetition shows, and possible"
        " else. Silent within 100 ms of an input's begin and end, for inputs that share less than three packets of"
        " the pair, and where the snap length cut messages."
    ),
    advice=(
        "Look at the network between the two capture points: drop and pause counters of switch and host ports (ethtool"
        " -S), the traffic class of CM packets. Look at the captures' own drop counts too."
    ),
)
def lost_on_the_way(event: Event, view: Context) -> Iterable[Verdict]:
    if not view.coverage.several:
        return ()
    if event.step is None:
        return _missing(event.connection, view)
    _compare(event.step, view)
    return ()


def _compare(step: Step, view: Context) -> None:
    """Write down how the times of a new copy differ from those of the packet's earlier sightings."""
    message, copy = step.message, step.sightings[-1]
    shared: Shared = view.memory["C05"].setdefault((message.source, message.destination), {})
    for file, time in [(message.file, message.time), *((one.file, one.time) for one in step.sightings[:-1])]:
        if file != copy.file:
            lag = copy.time - time
            lags = shared.setdefault((min(file, copy.file), max(file, copy.file)), Lags())
            lags.add(lag if file < copy.file else -lag)


def _missing(connection: Connection, view: Context) -> Iterator[Verdict]:
    """A verdict for each direction of a connection, and each two capture points, of which one lacks packets."""
    if connection.proxied_copy_of is not None:
        return  # a proxy between the places sends packets of its own
    memory, coverage = view.memory["C05"], view.coverage
    places = coverage.places()
    lost: dict[Way, list[Step]] = {}
    for step in connection.steps:
        message = step.message
        ports = (message.source, message.destination)
        if message.psn is None or ports not in memory:
            continue
        sightings = sorted([(message.time, message.file), *((one.time, one.file) for one in step.sightings)])
        seen = {places[file] for _, file in sightings}
        here = places[sightings[-1][1]]  # where it came farthest
        for there in {places[file] for files in memory[ports] for file in files} - seen:
            way = Way(ports, here, there)
            if _must_see(way, message.time, view):
                lost.setdefault(way, []).append(step)
    for way, steps in lost.items():
        yield from _verdict(connection, way, steps, view)


def _must_see(way: Way, time: int, view: Context) -> bool:
    """Whether a packet that went this way at `time` would have been captured at both places."""
    coverage = view.coverage
    lags = _lags(way, way.ports, view)
    if lags.count == 0 or lags.count + _lags(way, way.ports[::-1], view).count < ENOUGH:
        return False
    if coverage.is_cut(way.here) or coverage.is_cut(way.there):
        return False
    return coverage.place_covers(way.there, time - MARGIN, time + MARGIN)


def _lags(way: Way, ports: Ports, view: Context) -> Lags:
    """How much later the packets from the first port to the second are seen there than here."""
    places, found = view.coverage.places(), Lags()
    shared: Shared = view.memory["C05"].get(ports, {})
    for (one, other), lags in shared.items():
        where = (places[one], places[other])
        if where in ((way.here, way.there), (way.there, way.here)):
            sign = 1 if where[0] == way.here else -1
            found.count += lags.count
            found.total += sign * lags.total
            found.squares += lags.squares
    return found


def _comes_first(way: Way, view: Context) -> bool | None:
    """Whether packets pass here before they get there; None where the times do not tell.

    Whatever the clocks: the way from here to there makes the lag longer, and that of the other direction shorter.
    """
    lags, back = _lags(way, way.ports, view), _lags(way, way.ports[::-1], view)
    if min(lags.count, back.count) < LAGS_ENOUGH:
        return None
    difference = lags.mean() - back.mean()
    if abs(difference) <= SURE * sqrt(lags.error() + back.error()):
        return None
    return difference > 0


def _verdict(connection: Connection, way: Way, missing: list[Step], view: Context) -> Iterator[Verdict]:
    if _comes_first(way, view) is False:  # they had passed it when they came here
        yield _told(connection, way, [], missing, "had passed there on its way", "possible", view)
        return
    arrived, doubtful = _arrived(connection, way, missing, view)
    explained = {id(step) for step in (*arrived, *doubtful)}
    lost = [step for step in missing if id(step) not in explained]
    missed = all(_missed(connection, step) for step in lost)
    confidence: Confidence = "probable" if missed and not arrived else "possible"
    if lost or arrived:
        yield _told(connection, way, lost, arrived, "arrived, as its answer shows", confidence, view)


def _arrived(connection: Connection, way: Way, missing: Sequence[Step], view: Context) -> tuple[list[Step], list[Step]]:
    """Those that must have arrived, as they were answered; and those of which it cannot be told.

    When there are more answers than sends that were seen there, one of the others was answered: the last one before.
    """
    arrived: list[Step] = []
    doubtful: list[Step] = []
    unseen = {id(step) for step in missing}
    for original in {id(first): first for first in map(_original, missing)}.values():
        sends = [step for step in connection.steps if _original(step) is original]
        answers = [step for step in connection.steps if _answers(step, original)]
        # An earlier send that no input holds may be what was answered.
        start, wait = original.message.time, response_wait(connection.request, "active").nominal
        found = arrived if view.coverage.place_covers(way.here, start - 2 * wait, start) else doubtful
        each = original.message.type == ANSWERED_EACH
        for number, answer in enumerate(answers if each else answers[:1], 1):
            before = [step for step in sends if step.message.time <= answer.message.time + DISORDER]
            without = [step for step in before if id(step) in unseen]
            if without and number > len(before) - len(without):
                found.append(without[-1])
                unseen.discard(id(without[-1]))
    return arrived, doubtful


def _original(step: Step) -> Step:
    return step.retransmission_of or step


def _answers(step: Step, question: Step) -> bool:
    message = step.message
    if message.type not in ANSWERS.get(question.message.type, ()) or step.sender in (question.sender, "unknown"):
        return False
    gave_up = message.type == "REJ" and message.fields.reason == TIMEOUT
    return message.time >= question.message.time - DISORDER and not gave_up


def _missed(connection: Connection, step: Step) -> bool:
    """Whether somebody shows that it did not arrive: its sender sent it again, or its receiver asked again."""
    original, time, asked = _original(step), step.message.time, QUESTIONS.get(step.message.type, ())
    return any(
        later.message.time > time
        and later.retransmission_of is not None
        and (later.retransmission_of is original or (later.sender != step.sender and later.message.type in asked))
        for later in connection.steps
    )


def _told(
    connection: Connection,
    way: Way,
    lost: Sequence[Step],
    uncaptured: Sequence[Step],
    proof: str,
    confidence: Confidence,
    view: Context,
) -> Verdict:
    coverage = view.coverage
    named = [*lost, *uncaptured]
    time = named[0].message.time
    here, there = coverage.input_at(way.here, time), coverage.input_at(way.there, time)
    sent = Counter(step.message.type for step in connection.steps if _was_sent(step, way, coverage))
    there_name = coverage.names[there]
    packets = coverage.packets(way.there, way.ports) + coverage.packets(way.there, way.ports[::-1])
    sentences = []
    if lost:
        parts = _counted(lost, sent)
        sentences.append(
            f"{parts} from {address(way.ports[0])} {_were(lost)} seen in {coverage.names[here]} and never in"
            f" {there_name}, which saw {count(packets, 'packet')} of this pair: lost between the two"
            + (", or not captured there." if confidence == "possible" and not uncaptured else ".")
        )
    if uncaptured:
        sentences.append(
            f"{_counted(uncaptured, sent)} from {address(way.ports[0])} {_were(uncaptured)} not captured in"
            f" {there_name}, though {'it' if len(uncaptured) == 1 else 'each'} {proof}."
            + (f" So {there_name} may lack others as well." if lost else "")
        )
    evidence: dict[str, Any] = {
        "lost": len(lost),
        "not_captured": len(uncaptured),
        "sent": sent.total(),
        "files": [here, there],
        "shared_packets": _lags(way, way.ports, view).count + _lags(way, way.ports[::-1], view).count,
        "packets_there": packets,
    }
    return Verdict(" ".join(sentences), tuple(lost or uncaptured), evidence, confidence)


def _was_sent(step: Step, way: Way, coverage: Coverage) -> bool:
    """Whether a packet went this way while both places could see it."""
    message = step.message
    if (message.source, message.destination) != way.ports:
        return False
    places = coverage.places()
    seen = {places[message.file], *(places[one.file] for one in step.sightings)}
    time = message.time
    return way.here in seen and (way.there in seen or coverage.place_covers(way.there, time - MARGIN, time + MARGIN))


def _counted(steps: Sequence[Step], sent: Counter[str]) -> str:
    """ "2 of 3 REQs and 1 of 1 RTU"."""
    kinds = Counter(step.message.type for step in steps)
    return listed([f"{number} of {count(sent[kind], kind)}" for kind, number in kinds.items()])


def _were(steps: Sequence[Step]) -> str:
    return "was" if len(steps) == 1 else "were"
