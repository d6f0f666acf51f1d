"""C05: what one capture saw on its way, and another one never did.

Two inputs that hold the same packets stand at two places of one way. A packet that only one of them holds was lost
between the two, or the other one failed to capture it. What was asked and answered tells some of these apart: an answer
shows that its question arrived, wherever it was captured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Final, NamedTuple

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.timers import response_wait
from ibcmtool.evidence import unopposed, weakened
from ibcmtool.formatting import address, count, listed
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.facts.coverage import Coverage, Ports
from ibcmtool.rules.steps import DISORDER
from ibcmtool.values import InputNumber

ENOUGH: Final = 3  # packets of a pair of ports that two inputs must share before one is missed
MARGIN: Final = 100_000_000  # ns that an input must have been recording before and after; clocks may be that far apart
LAGS_ENOUGH: Final = 5  # packets of each direction, before they show which input comes first on the way
SURE: Final = 5  # standard errors

ANSWERS: Final = {
    "REQ": ("REP", "REJ", "MRA"),
    "REP": ("RTU", "REJ", "MRA"),
    "DREQ": ("DREP",),
    "LAP": ("APR", "REJ", "MRA"),
    "SIDR_REQ": ("SIDR_REP",),
}
QUESTIONS: Final = {
    "RTU": ("REP",),
    "REJ": ("REQ", "REP"),
    "MRA": ("REQ", "REP", "LAP"),
    "DREP": ("DREQ",),
    "APR": ("LAP",),
    "SIDR_REP": ("SIDR_REQ",),
}
ANSWERED_EACH: Final = "DREQ"  # each that arrives gets an answer of its own; others may get one for several


class Way(NamedTuple):
    """A direction, and two capture points on it: one that saw packets, and one that missed some."""

    ports: Ports
    here: int
    there: int


C05 = rule(
    "C05",
    "lost-on-the-way",
    "One capture saw packets that another one on their way never did",
    severity="info",
    clause="the BTH PSN tells packets apart; one that is sent again has another (Linux mad.c)",
    explanation="Both inputs were recording, both hold other packets of the same two ports in this direction, and yet"
    " one of them lacks these: they were lost on the way between the two captures. That explains messages that are"
    " sent again. A packet whose answer was seen did arrive; if the other input lacks it all the same, that input did"
    " not capture it, and the finding says so.",
    false_positives="A capture that drops packets looks like a network that does, unless an answer shows that they"
    " arrived; so the finding is never certain: it is probable where all of them were missed, as a repetition shows,"
    " and possible else. Not reported within 100 ms of an input's begin and end, for inputs that share less than three"
    " packets of the pair, where the snap length cut messages, and of an address that two ports have had.",
    advice="Look at the network between the two capture points: drop and pause counters of switch and host ports"
    " (ethtool -S), the traffic class of CM packets. Look at the captures' own drop counts too.",
)


@C05.on_event("ENDED")
def lost_on_the_way(connection: Connection, event: Event, context: Context) -> Verdicts:
    """A verdict for each direction of a connection, and each two capture points, of which one lacks packets."""
    if not context.coverage.several or connection.proxied_copy_of is not None:
        return  # a proxy between the places sends packets of its own
    places = context.coverage.places()
    missing: dict[Way, list[Step]] = {}
    for step in connection.steps:
        message = step.message
        if message.psn is None:
            continue
        if message.type == "REQ" and connection.late_duplicate_of is not None:
            continue  # the connection that it was sent for knows where it was seen
        ports = (message.source, message.destination)
        sightings = sorted([(message.time, message.file), *((one.time, one.file) for one in step.sightings)])
        seen = {places[file] for _, file in sightings}
        here = places[sightings[-1][1]]  # where it came farthest
        for there in {places[file] for file in context.lags.inputs(ports)} - seen:
            way = Way(ports, here, there)
            if _must_see(way, message.time, context):
                missing.setdefault(way, []).append(step)
    for way, steps in missing.items():
        yield from _explained(connection, way, steps, context)


def _must_see(way: Way, time: int, context: Context) -> bool:
    """Whether a packet that went this way at `time` would have been captured at both places."""
    coverage = context.coverage
    if context.lags.between(*way).count == 0 or _shared(way, context) < ENOUGH:
        return False
    if coverage.is_cut(way.here) or coverage.is_cut(way.there):
        return False
    if any(port in context.restarts.moves for port in way.ports):
        return False  # one place may show one of two machines with an address, and the other place both
    return coverage.place_covers(way.there, time - MARGIN, time + MARGIN)


def _shared(way: Way, context: Context) -> int:
    """The packets that both places saw, of both directions."""
    back = way._replace(ports=way.ports[::-1])
    return context.lags.between(*way).count + context.lags.between(*back).count


def _passed_there(way: Way, context: Context) -> bool:
    """Whether packets surely get there before they pass here.

    Whatever the clocks: the way from here to there makes the lag longer, and that of the other direction shorter.
    """
    lag, back = context.lags.between(*way), context.lags.between(*way._replace(ports=way.ports[::-1]))
    if min(lag.count, back.count) < LAGS_ENOUGH:
        return False
    return back.mean() - lag.mean() > SURE * sqrt(lag.error() + back.error())


def _explained(connection: Connection, way: Way, missing: list[Step], context: Context) -> Verdicts:
    if _passed_there(way, context):
        yield _verdict(connection, way, [], missing, "had passed there on its way", context)
        return
    arrived, doubtful = _arrived(connection, way, missing, context)
    explained = {id(step) for step in (*arrived, *doubtful)}
    lost = [step for step in missing if id(step) not in explained]
    if lost or arrived:
        yield _verdict(connection, way, lost, arrived, "arrived, as its answer shows", context)


def _arrived(
    connection: Connection, way: Way, missing: Sequence[Step], context: Context
) -> tuple[list[Step], list[Step]]:
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
        found = arrived if context.coverage.place_covers(way.here, start - 2 * wait, start) else doubtful
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
    message, fields = step.message, step.message.fields
    if message.type not in ANSWERS.get(question.message.type, ()) or step.sender in (question.sender, "unknown"):
        return False
    gave_up = isinstance(fields, Rej) and fields.reason == TIMEOUT
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


def _verdict(
    connection: Connection, way: Way, lost: Sequence[Step], uncaptured: Sequence[Step], proof: str, context: Context
) -> Verdict:
    """What was lost between the two places, and what was not captured `there`, of which `proof` shows it."""
    coverage, sender, time = context.coverage, address(way.ports[0]), (*lost, *uncaptured)[0].message.time
    here, there = coverage.input_at(way.here, time), coverage.input_at(way.there, time)
    sent = Counter(step.message.type for step in connection.steps if _was_sent(step, way, coverage))
    name = coverage.names[there]
    packets = coverage.packets(way.there, way.ports) + coverage.packets(way.there, way.ports[::-1])
    complete = not uncaptured and all(_missed(connection, step) for step in lost)
    sentences = []
    if lost:
        sentences.append(
            f"{_counted(lost, sent)} from {sender} {_were(lost)} seen in {coverage.names[here]} and never in {name},"
            f" which saw {count(packets, 'packet')} of this pair: lost between the two"
            + ("." if complete or uncaptured else ", or not captured there.")
        )
    if uncaptured:
        sentences.append(
            f"{_counted(uncaptured, sent)} from {sender} {_were(uncaptured)} not captured in {name}, though"
            f" {'it' if len(uncaptured) == 1 else 'each'} {proof}."
            + (f" So {name} may lack others as well." if lost else "")
        )
    return Verdict(
        " ".join(sentences),
        {
            "lost": len(lost),
            "not_captured": len(uncaptured),
            "sent": sent.total(),
            "files": [InputNumber(here), InputNumber(there)],
            "shared_packets": _shared(way, context),
            "packets_there": packets,
        },
        (unopposed("complete") if complete else weakened("complete"),),
        steps=lost or uncaptured,
    )


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
