"""The totals of one row of a view, and of a whole analysis: what became of the connections, why, and how quickly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ibcmtool import services
from ibcmtool.analysis import SEVERITIES, Severity
from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.matching import rej_reason
from ibcmtool.messages import Rej, SidrRep
from ibcmtool.model import Connection, Outcome, Role, Step
from ibcmtool.packets import Address, CmMessage
from ibcmtool.views.capture_points import Arrival
from ibcmtool.views.times import Peak, Times


class Refusal(NamedTuple):
    """A REJ, or a SIDR_REP with a status that is not 0."""

    reason: int | None  # REJ reason, of a SIDR exchange the status; None where the capture cut it off
    words: str = ""  # what the consumer said (reason 28), or what would be accepted
    by: Role | Literal["unknown"] = "passive"
    sidr: bool = False


def refusal_of(connection: Connection) -> Refusal | None:
    """How a rejected connection was refused; None for all others, and for one that gave way to the other side's."""
    if connection.outcome != "rejected" or connection.gave_way():
        return None
    step = refusing_step(connection)
    words = "" if step is None else services.refusal_words(connection, step.message)
    if connection.reject is None or step is None:
        reply = connection.reply
        return Refusal(reply.status if isinstance(reply, SidrRep) else None, words, sidr=connection.sidr)
    return Refusal(rej_reason(step.message), words, step.sender)


def refusing_step(connection: Connection) -> Step | None:
    """The REJ that ended a connection, or the newest SIDR_REP of a SIDR exchange; None where there is none."""
    if connection.sidr:
        return next((step for step in reversed(connection.steps) if step.message.type == "SIDR_REP"), None)
    return connection.reject


Closer = Literal["active", "passive", "both", "unknown"]  # who sent the first DREQ; both: they crossed

MOST_REFUSALS = 100  # different ones; beyond, a consumer's words are left out
UNHEARD: tuple[tuple[Role, str, str], ...] = (("active", "D", "de"), ("passive", "d", "DE"))  # letters of a history
REQUESTS, REPLIES = ("REQ", "SIDR_REQ"), ("REP", "SIDR_REP")


@dataclass(slots=True)
class Tally:
    """Counts over connections; a SIDR exchange counts as one, its SIDR_REQ as REQ and its SIDR_REP as REP."""

    connections: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    connected: int = 0  # came to life, whatever became of them
    closed_by: Counter[Closer] = field(default_factory=Counter)
    refusals: Counter[Refusal] = field(default_factory=Counter)
    requests: int = 0  # REQs sent, retransmissions included
    repeated: int = 0  # retransmissions among them
    mras: int = 0
    unanswered: int = 0  # attempts whose REQ was seen, but nothing of the passive side
    unseen: int = 0  # attempts of which nothing was seen but that their requester gave up
    gave_way: int = 0  # attempts that were refused as the other side's, which crossed them, came up
    unheard_releases: int = 0  # connections whose DREQs nobody answered
    dreqs: int = 0  # sent on these, retransmissions included
    dreqs_repeated: int = 0
    arrivals: Counter[Arrival] = field(default_factory=Counter)  # of the unanswered, with several inputs
    first_to_reply: Times = field(default_factory=Times)  # what the requester waited: first REQ to REP
    last_to_reply: Times = field(default_factory=Times)  # what the passive side took: last REQ before the REP to it
    peak: Peak = field(default_factory=Peak)  # of REQs sent
    codes: Counter[str] = field(default_factory=Counter)  # of findings that concern its connections
    severities: dict[str, Severity] = field(default_factory=dict)  # by code: the worst
    first: int | None = None  # when the first connection was opened
    last: int | None = None

    def add(self, connection: Connection) -> None:
        """One more connection."""
        self.connections += 1
        self.outcomes[connection.outcome] += 1
        opened = connection.opened
        self.first = opened if self.first is None else min(self.first, opened)
        self.last = opened if self.last is None else max(self.last, opened)
        if came_to_life(connection):
            self.connected += 1
            closer = closer_of(connection)
            if closer is not None:
                self.closed_by[closer] += 1
        refusal = refusal_of(connection)
        if refusal is not None:
            if len(self.refusals) >= MOST_REFUSALS and refusal not in self.refusals:
                refusal = refusal._replace(words="")
            self.refusals[refusal] += 1
        self.gave_way += connection.gave_way()
        self.unanswered += is_unanswered(connection)
        self.unseen += given_up_unseen(connection)
        if unheard_release(connection) is not None:
            self.unheard_releases += 1
            self.dreqs += connection.history.upper().count("D")
            self.dreqs_repeated += connection.history.upper().count("^D")
        self._add_messages(connection)

    def add_finding(self, code: str, severity: Severity) -> None:
        """A finding that concerns one of the connections."""
        self.codes[code] += 1
        self.severities[code] = min(severity, self.severities.get(code, severity), key=SEVERITIES.index)

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        return min(self.severities.values(), key=SEVERITIES.index, default=None)

    def _add_messages(self, connection: Connection) -> None:
        first = last = reply = None
        for step in connection.steps:
            kind = step.message.type
            if kind in REQUESTS:
                self.requests += 1
                self.repeated += step.retransmission_of is not None
                self.peak.add(step.message.time)
                if reply is None:
                    first, last = first or step, step
            elif kind in REPLIES and reply is None:
                reply = step
            elif kind == "MRA":
                self.mras += 1
        if first is not None and last is not None and reply is not None:
            self.first_to_reply.add(elapsed(first, reply))
            self.last_to_reply.add(elapsed(last, reply))


def came_to_life(connection: Connection) -> bool:
    """Whether it was established (a SIDR exchange: resolved). A connection seen in part was, before the capture."""
    if connection.outcome == "resolved":
        return True
    return connection.established is not None and connection.outcome != "partial"


def is_unanswered(connection: Connection) -> bool:
    """Whether an attempt ended, or stands at the end of the capture, without a word of the passive side."""
    return connection.outcome in ("timed_out", "connecting") and connection.history.upper() == connection.history


def given_up_unseen(connection: Connection) -> bool:
    """Whether all that was seen of an attempt is the REJ 4 of a requester who never got an answer."""
    if connection.outcome != "partial" or not connection.steps:
        return False
    return all(step.sender == "active" and _gives_up(step.message) for step in connection.steps)


def _gives_up(message: CmMessage) -> bool:
    fields = message.fields
    return isinstance(fields, Rej) and fields.reason == TIMEOUT and fields.remote_comm_id == 0


def unheard_release(connection: Connection) -> Role | None:
    """The side whose DREQs got no answer at all, not even a DREQ; None for all other connections.

    Of a connection that was seen in part only it takes a DREQ that was repeated.
    """
    if connection.outcome not in ("half_open", "stale", "partial"):
        return None
    for role, mine, theirs in UNHEARD:
        if connection.outcome == "partial":
            mine = "^" + mine
        if mine in connection.history and not any(letter in connection.history for letter in theirs):
            return role
    return None


def closer_of(connection: Connection) -> Closer | None:
    """Who closed it: the sender of the first DREQ; both, when the other one sent a DREQ too before there was a DREP."""
    closers: set[Closer] = set()
    for step in connection.steps:
        if step.message.type == "DREP":
            break
        if step.message.type == "DREQ" and step.disposition != "ignored":
            closers.add(step.sender)
    return "both" if len(closers) > 1 else next(iter(closers), None)


def elapsed(earlier: Step, later: Step) -> int:
    """Time (ns) between two messages, by the clock of the capture that has both; of two captures, by their clocks."""
    file = later.message.file
    start = earlier.message.time
    if earlier.message.file != file:
        start = next((sighting.time for sighting in earlier.sightings if sighting.file == file), start)
    return later.message.time - start


@dataclass(slots=True)
class Totals:
    """Counts over all connections of an analysis, also over those that were not kept."""

    connections: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    gave_way: int = 0  # of the rejected connections, those that crossed one of the other side which came up
    reject_reasons: Counter[int | None] = field(default_factory=Counter)  # of rejected connections
    services: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[Address, Address]] = field(default_factory=Counter)  # active, passive
    findings: Counter[tuple[str, Severity, str]] = field(default_factory=Counter)  # code, severity, name

    def by_code(self) -> Counter[str]:
        """How many findings each code has."""
        codes: Counter[str] = Counter()
        for (code, _, _), number in self.findings.items():
            codes[code] += number
        return codes
