"""Attempts that ended the same way, one soon after the other: a retry loop, or a storm; DREQs into one dead link, too.

What refuses an attempt decides what belongs together. REJ 10 is about the QPN of the REQ: its groups are the attempts
of one consumer (same addresses, service and QPN; same port where the QPN was cut off). Everything else, from "nothing
listens there" to no answer at all, is about the target: those groups take in all its clients.

Connections come as they end, not as they were opened, and a connection that came to life between two failures ends long
after both. So failures wait and are put in order of their REQs when FOLD of them are there, or at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from ibcmtool import services
from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.release import Retry, safe_retry
from ibcmtool.formatting import SECOND
from ibcmtool.model import Conflict, Connection, Outcome, Role
from ibcmtool.packets import Address
from ibcmtool.views.tally import Refusal, given_up_unseen, refusal_of, unheard_release

LEAST = 3  # attempts that make a group: two are read as easily one by one
GAP = 60 * SECOND  # from the end of an attempt to the next REQ; no consumer known waits longer before it tries again
FOLD = 20_000  # failures that wait for their order
MOST_GROUPS = 1000
MOST_IDS = 1000  # of one group
MOST_CLIENTS = 10_000  # of one group


class Failure(NamedTuple):
    """How an attempt ended without a connection."""

    # rejected | timed_out | connecting (the capture ends before the attempt does) | partial (given up, and the capture
    # shows nothing but that) | half_open, or partial (it is not the attempt that failed, but the release)
    outcome: Outcome
    refusal: Refusal | None = None
    answered: bool = False  # not rejected, but the passive side was heard (MRA, REP)
    released_by: Role | None = None  # whose DREQs nobody answered


class Key(NamedTuple):
    """What the attempts of a group have in common."""

    passive: Address
    service: str
    failure: Failure
    client: Address | None = None  # the consumer, where the failure is about it
    consumer: int | str | None = None  # its QPN, else its name with the port

    @property
    def target(self) -> Target:
        """Where the attempts went."""
        return self.passive, self.service


Target = tuple[Address, str]


@dataclass(slots=True)
class Attempts:
    """One group. The attempts are known by their ids, of which the first MOST_IDS are kept."""

    key: Key
    passive_name: str
    service_id: int | None
    history: str  # of the first; "" when others have another one
    active_name: str  # of the client; "" when there are several
    opened: int  # when the first began
    last_opened: int
    over: int  # when the last ended
    count: int = 0
    requests: int = 0  # REQs sent, of a release DREQs, retransmissions included
    repeated: int = 0  # retransmissions among them
    ids: list[int] = field(default_factory=list)
    clients: set[Address] = field(default_factory=set)
    conflicts: tuple[Conflict, ...] = ()  # of the last one that was refused as stale

    @property
    def failure(self) -> Failure:
        """How all of them ended."""
        return self.key.failure

    @property
    def noun(self) -> str:
        """What these are."""
        return "attempt" if self.failure.released_by is None else "connection"

    @property
    def stale(self) -> bool:
        """Whether the attempts were refused with REJ 10."""
        return self.key.client is not None

    def retry(self) -> Retry | None:
        """When the consumer can safely try again; None where no REJ 10 tells it to wait."""
        return safe_retry(self.conflicts, self.over) if self.stale else None


class _Record(NamedTuple):
    """What is kept of an attempt until its place is known."""

    id: int
    target: Target
    client: Address
    consumer: int | str | None
    key: Key | None  # None: it succeeded
    opened: int = 0
    over: int = 0
    history: str = ""
    active_name: str = ""
    passive_name: str = ""
    service_id: int | None = None
    conflicts: tuple[Conflict, ...] = ()


class Grouping:
    """Takes connections as they end and groups those that failed."""

    def __init__(self) -> None:
        self._records: list[_Record] = []
        self._failing: set[tuple[Target, Address]] = set()
        self._open: dict[Target, dict[Key, Attempts]] = {}
        self._groups: list[Attempts] = []

    def add(self, connection: Connection) -> None:
        """One more connection; one that was seen in part only says nothing here, unless it was given up."""
        failure = failure_of(connection)
        if failure is None:
            if self._failing and (connection.established is not None or connection.outcome == "resolved"):
                self._add_success(connection)
            return
        key = _key(connection, failure)
        client = connection.active.address
        self._failing.add((key.target, client))
        reject = connection.reject
        by_active = reject is not None and reject.sender == "active"
        self._records.append(
            _Record(
                connection.id,
                key.target,
                client,
                _consumer(connection),
                key,
                _begin(connection, failure),
                _over(connection, failure),
                connection.history,
                connection.active.name,
                connection.passive.name,
                connection.service_id,
                (connection.reply_conflicts if by_active else connection.request_conflicts) if key.client else (),
            )
        )
        if len(self._records) >= FOLD:
            self._fold()

    def groups(self) -> list[Attempts]:
        """The groups of at least LEAST attempts, in the order of their first ones."""
        self._fold()
        return sorted((group for group in self._groups if group.count >= LEAST), key=lambda group: group.opened)

    def _add_success(self, connection: Connection) -> None:
        target = (connection.passive.address, services.connection_service(connection))
        client = connection.active.address
        if (target, client) in self._failing:
            self._records.append(_Record(connection.id, target, client, _consumer(connection), None, connection.opened))

    def _fold(self) -> None:
        """Put what waits in order, into groups; then forget what can be part of none any more."""
        latest = 0
        for record in sorted(self._records, key=attrgetter("opened", "id")):
            groups = self._open.setdefault(record.target, {})
            if record.key is None:
                _close(groups, record)
                continue
            group = groups.get(record.key)
            if group is None or record.opened - group.over > GAP:
                group = groups[record.key] = _new_group(record, record.key)
                self._groups.append(group)
            _enter(group, record)
            latest = max(latest, group.over)
        self._records.clear()
        self._groups = [group for group in self._groups if group.count >= LEAST or latest - group.over <= GAP]
        if len(self._groups) > MOST_GROUPS:
            self._groups = sorted(self._groups, key=lambda group: -group.count)[:MOST_GROUPS]
        kept = set(map(id, self._groups))
        for target, groups in list(self._open.items()):
            self._open[target] = {key: group for key, group in groups.items() if id(group) in kept}
            if not self._open[target]:
                del self._open[target]
        self._failing = {
            (target, client)
            for target, groups in self._open.items()
            for group in groups.values()
            for client in group.clients
        }


def membership(connections: Iterable[Connection], groups: Iterable[Attempts]) -> dict[int, Attempts]:
    """By id: the group that each of these connections belongs to, if to any; also beyond the ids that a group keeps."""
    by_key: dict[Key, list[Attempts]] = {}
    for group in groups:
        by_key.setdefault(group.key, []).append(group)
    found: dict[int, Attempts] = {}
    for connection in connections:
        failure = failure_of(connection)
        if failure is not None:
            for group in by_key.get(_key(connection, failure), ()):
                if group.opened <= _begin(connection, failure) <= group.last_opened:
                    found[connection.id] = group
    return found


def failure_of(connection: Connection) -> Failure | None:
    """How an attempt, or a release, failed; None for a sound connection, or one of which too little was seen."""
    if connection.outcome == "rejected":
        if connection.gave_way():
            return None
        return Failure("rejected", refusal_of(connection))
    if given_up_unseen(connection):
        return Failure("partial")
    if connection.outcome in ("timed_out", "connecting") and connection.steps:
        answered = "m" in connection.history or "p" in connection.history
        return Failure(connection.outcome, answered=answered)
    role = unheard_release(connection) if connection.outcome != "stale" else None
    return Failure(connection.outcome, released_by=role) if role is not None else None


def _begin(connection: Connection, failure: Failure) -> int:
    """When what failed began: the attempt, or the release."""
    if failure.released_by is None:
        return connection.opened
    return next(step.message.time for step in connection.steps if step.message.type == "DREQ")


def _over(connection: Connection, failure: Failure) -> int:
    last = connection.steps[-1].message.time
    return last if failure.released_by is not None else connection.closed or last


def _key(connection: Connection, failure: Failure) -> Key:
    refusal = failure.refusal
    by_consumer = refusal is not None and refusal.reason == STALE_CONNECTION and not refusal.sidr
    return Key(
        connection.passive.address,
        services.connection_service(connection),
        failure,
        connection.active.address if by_consumer else None,
        _consumer(connection) if by_consumer else None,
    )


def _consumer(connection: Connection) -> int | str | None:
    """What tells the consumers of one client apart."""
    return connection.active.qpn or connection.active.name or None


def _close(groups: dict[Key, Attempts], success: _Record) -> None:
    """A success of one of its clients ends a group; where it is about one consumer, only a success of that one."""
    for key in [
        key
        for key, group in groups.items()
        if success.client in group.clients and (key.client is None or key.consumer == success.consumer)
    ]:
        del groups[key]


def _new_group(record: _Record, key: Key) -> Attempts:
    return Attempts(
        key,
        record.passive_name,
        record.service_id,
        record.history,
        record.active_name,
        record.opened,
        record.opened,
        record.over,
    )


def _enter(group: Attempts, record: _Record) -> None:
    group.count += 1
    group.last_opened = max(group.last_opened, record.opened)
    if record.over >= group.over:
        group.over, group.conflicts = record.over, record.conflicts
    for letter in ("Q", "S") if group.failure.released_by is None else ("D", "d"):
        group.requests += record.history.count(letter)
        group.repeated += record.history.count("^" + letter)
    if record.history != group.history:
        group.history = ""
    if record.active_name != group.active_name:
        group.active_name = ""
    if len(group.ids) < MOST_IDS:
        group.ids.append(record.id)
    if len(group.clients) < MOST_CLIENTS:
        group.clients.add(record.client)
