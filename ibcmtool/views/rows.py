"""The totals of each pair of nodes, of each target or of each service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from ibcmtool import services
from ibcmtool.analysis import SEVERITIES, By, Finding, InputInfo, Policy
from ibcmtool.formatting import FAILURES, address
from ibcmtool.model import Connection, Outcome
from ibcmtool.packets import Address
from ibcmtool.views.capture_points import CapturePoints
from ibcmtool.views.filters import concerns
from ibcmtool.views.tally import Tally, Totals, is_unanswered

MOST_ROWS = 1000  # connections of what comes later are counted together
MOST_PARTIES = 200_000  # pairs of a row and a client (or target) that are told apart, in all
MOST_ENDED = 1 << 17  # ended connections whose row is remembered for findings that come late


class Party(NamedTuple):
    """A node, or a port of it that is listened on."""

    name: str
    address: Address


class Service(NamedTuple):
    """A service by its name."""

    id: int | None  # of the first connection: a name may stand for several ids
    name: str


@dataclass(slots=True)
class Row:
    """A line of a view. Which of `active`, `passive` and `service` it has follows from what it is by."""

    active: Party | None = None
    passive: Party | None = None
    service: Service | None = None
    tally: Tally = field(default_factory=Tally)
    clients: int = 0  # different active addresses
    targets: int = 0  # different passive addresses
    complete: bool = True  # False: there may be more clients and targets than counted


class Breakdown(NamedTuple):
    """All that a report needs."""

    by: By
    policy: Policy
    inputs: list[InputInfo]
    rows: list[Row]  # problems first, then by number of connections
    others: Row | None  # what had no room among the rows
    totals: Totals  # outcomes and findings over everything
    depends: bool  # whether a finding depends on the policy


class Rows:
    """Takes the records of a stream. Its memory is bounded by the number of rows, not of connections."""

    def __init__(self, by: By, policy: Policy, *, several_inputs: bool = False) -> None:
        self._by = by
        self._policy = policy
        self._points = CapturePoints() if several_inputs else None
        self._numbers: dict[Hashable, int] = {}  # key -> index of its row
        self._rows: list[Row] = []
        self._others: Row | None = None
        self._parties: set[tuple[int, bool, Address]] = set()  # row, whether a client, address
        self._waiting: dict[int, list[Finding]] = {}  # findings about connections that have not ended yet
        self._ended: dict[int, int] = {}  # connection -> row
        self.inputs: list[InputInfo] = []
        self._totals = Totals()
        self._depends = False

    def breakdown(self) -> Breakdown:
        """What was counted, when all records are in."""
        if self._points is not None:
            for number, arrivals in self._points.arrivals(self.inputs).items():
                self._row(number).tally.arrivals = arrivals
        rows = sorted(self._rows, key=_interest)
        return Breakdown(self._by, self._policy, self.inputs, rows, self._others, self._totals, self._depends)

    def add_connection(self, connection: Connection) -> None:
        """A connection that has ended."""
        self._totals.connections += 1
        self._totals.outcomes[connection.outcome] += 1
        self._totals.gave_way += connection.gave_way()
        number = self._number(connection)
        row = self._row(number)
        row.tally.add(connection)
        self._count_party(row, number, True, connection.active.address)
        self._count_party(row, number, False, connection.passive.address)
        if self._points is not None:
            self._points.note(connection)
            if is_unanswered(connection):
                self._points.note_unanswered(number, connection)
        for finding in self._waiting.pop(connection.id, ()):
            row.tally.add_finding(finding.code, finding.severity)
        self._ended[connection.id] = number
        if len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    def add_finding(self, finding: Finding) -> None:
        """A finding, before or after the end of the connections that it concerns."""
        self._totals.findings[(finding.code, finding.severity, finding.name)] += 1
        self._depends = self._depends or finding.policy != "both"
        for connection in concerns(finding):
            number = self._ended.get(connection)
            if number is None:
                self._waiting.setdefault(connection, []).append(finding)
            else:
                self._row(number).tally.add_finding(finding.code, finding.severity)

    def _number(self, connection: Connection) -> int:
        """The index of the row that a connection belongs to; -1 for the others."""
        active, passive = connection.active, connection.passive
        service = services.connection_service(connection)
        key: Hashable = service
        if self._by == "pair":
            key = (active.address, passive.address)
        elif self._by == "target":
            key = (passive.address, service)
        number = self._numbers.get(key)
        if number is not None:
            return number
        if len(self._rows) >= MOST_ROWS:
            self._others = self._others or Row()
            return -1
        row = Row()
        if self._by == "pair":
            row.active = Party(address(active.address), active.address)
            row.passive = Party(address(passive.address), passive.address)
        else:
            row.service = Service(connection.service_id, service)
        if self._by == "target":
            row.passive = Party(passive.name or address(passive.address), passive.address)
        self._numbers[key] = len(self._rows)
        self._rows.append(row)
        return len(self._rows) - 1

    def _row(self, number: int) -> Row:
        if number >= 0:
            return self._rows[number]
        assert self._others is not None  # made by _number when it first gave -1
        return self._others

    def _count_party(self, row: Row, number: int, client: bool, address: Address) -> None:
        party = (number, client, address)
        if party in self._parties:
            return
        if len(self._parties) >= MOST_PARTIES:
            row.complete = False
            return
        self._parties.add(party)
        if client:
            row.clients += 1
        else:
            row.targets += 1


def _interest(row: Row) -> tuple[int, int, int]:
    """Problems first: by the worst warning or error, then by how many failed, then by how many there are."""
    tally = row.tally
    worst = SEVERITIES.index(tally.worst or "info")
    return worst, tally.gave_way - failures(tally.outcomes), -tally.connections


def failures(outcomes: Counter[Outcome]) -> int:
    """How many ended in a way that somebody who waits for a connection would call a failure."""
    return sum(outcomes[outcome] for outcome in FAILURES)
