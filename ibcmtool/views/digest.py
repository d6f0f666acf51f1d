"""What the text report keeps of a capture of any size.

Up to MANY connections are shown one by one. Above that the report gives counts, and the connections with problems,
worst first; so only those are kept, at most KEPT of them, and at most KEPT findings of each code. `everything` (--all)
keeps all connections, but of the clean ones just what a row of the table needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from operator import attrgetter
from typing import NamedTuple

from ibcmtool import formatting, services
from ibcmtool.analysis import SEVERITIES, Finding, InputInfo, Policy, Severity
from ibcmtool.analysis import rank as finding_rank
from ibcmtool.connections.matching import rej_reason
from ibcmtool.model import Connection, Outcome
from ibcmtool.packets import Address
from ibcmtool.views.attempts import Attempts, Grouping
from ibcmtool.views.filters import concerns
from ibcmtool.views.tally import Totals

MANY = 50  # connections; above, the table gives way to counts and the connections with problems
KEPT = 1000
# Outcome, service, active and passive port, reasons of a rejected connection (none or one).
Likeness = tuple[Outcome, str, Address, Address, tuple[int | None, ...]]
CLEAN: frozenset[Outcome] = frozenset({"closed", "established", "resolved"})  # outcomes that need no second look


class Brief(NamedTuple):
    """What a line of the table shows of any connection; of a clean one nothing else is kept."""

    id: int
    active: str
    passive: str
    service: str
    outcome: Outcome
    history: str
    opened: int
    established: int | None
    closed: int | None


class Summary(NamedTuple):
    """All that the report shows."""

    policy: Policy
    inputs: Sequence[InputInfo]
    connections: Sequence[Connection | Brief]  # by number
    findings: Sequence[Finding]  # worst first, then by time
    totals: Totals  # over all connections and findings, kept or not
    attempts: Sequence[Attempts]  # groups that failed alike, among all connections
    listed: bool  # all connections are to be listed, not only those with problems


class Digest:
    """Takes the records of a stream and keeps what a report of bounded size can show."""

    def __init__(self, policy: Policy, *, everything: bool = False) -> None:
        self._policy = policy
        self._everything = everything
        self._count = 0  # connections
        self._gave_way = 0
        self._alike: dict[Likeness, int] = {}  # and how many of them counted alike
        self._findings_counted: Counter[tuple[str, Severity, str]] = Counter()
        self.inputs: list[InputInfo] = []
        self._connections: list[Connection | Brief] = []
        self._findings: list[Finding] = []
        self._worst: dict[int, int] = {}  # connection -> rank of its worst finding
        self._kept_findings: Counter[str] = Counter()
        self._grouping = Grouping()

    def summary(self) -> Summary:
        """All that was kept, in order."""
        connections = sorted(self._connections, key=attrgetter("id"))
        findings = sorted(self._findings, key=finding_rank)
        totals = Totals(findings=self._findings_counted.copy(), gave_way=self._gave_way)
        for likeness, times in self._alike.items():
            count(totals, likeness, times)
        attempts = () if self._everything else self._grouping.groups()
        listed = self._everything or self._count <= MANY
        return Summary(self._policy, self.inputs, connections, findings, totals, attempts, listed)

    def add_connection(self, connection: Connection) -> None:
        """A connection that has ended, after all findings that came before its end."""
        self._count += 1
        if connection.crossing is not None:
            self._gave_way += connection.gave_way()
        # One plain dictionary, as a Counter takes several times as long, and there would be four.
        likeness = likeness_of(connection)
        self._alike[likeness] = self._alike.get(likeness, 0) + 1
        self._grouping.add(connection)
        if self._everything:
            keep_whole = noteworthy(connection, self._worst)
            self._connections.append(connection if keep_whole else brief(connection))
            return
        many = self._count > MANY
        if many and len(self._connections) == MANY == self._count - 1:
            self._connections = [kept for kept in self._connections if noteworthy(kept, self._worst)]
        if not many or noteworthy(connection, self._worst):
            self._connections.append(connection)
        if len(self._connections) > 2 * KEPT:
            self._connections = sorted(self._connections, key=lambda kept: rank(kept, self._worst))[:KEPT]

    def add_finding(self, finding: Finding) -> None:
        """One finding."""
        self._findings_counted[(finding.code, finding.severity, finding.name)] += 1
        self._kept_findings[finding.code] += 1
        if self._everything or self._kept_findings[finding.code] <= KEPT:
            self._findings.append(finding)
        if finding.severity != "info":
            for number in (finding.connection, *finding.related):
                if number is not None and len(self._worst) < KEPT * len(SEVERITIES):
                    worst = SEVERITIES.index(finding.severity)
                    self._worst[number] = min(worst, self._worst.get(number, worst))


def noteworthy(connection: Connection | Brief, troubled: Container[int]) -> bool:
    """Whether a summary shows it: it did not end cleanly, or it is among those with a warning or an error."""
    if connection.outcome in CLEAN or (isinstance(connection, Connection) and connection.gave_way()):
        return connection.id in troubled
    return True


def rank(connection: Connection | Brief, worst: dict[int, int]) -> tuple[int, int, int]:
    """Problems first: by the worst finding, then by outcome, then in order."""
    return (
        worst.get(connection.id, SEVERITIES.index("info")),
        formatting.OUTCOME_ORDER.index(connection.outcome),
        connection.id,
    )


def brief(connection: Connection) -> Brief:
    """Of a connection what its row needs, so that its messages need not be kept."""
    return Brief(
        connection.id,
        formatting.end_name(connection.active),
        formatting.end_name(connection.passive),
        services.connection_service(connection),
        connection.outcome,
        connection.history,
        connection.opened,
        connection.established,
        connection.closed,
    )


def likeness_of(connection: Connection) -> Likeness:
    """All that the totals count of a connection: outcome, service, active and passive port, and the REJ's reason."""
    active, passive, outcome = connection.active.address, connection.passive.address, connection.outcome
    reject = connection.reject if outcome == "rejected" else None
    reasons = () if reject is None else (rej_reason(reject.message),)
    return outcome, services.connection_service(connection), active, passive, reasons


def count(totals: Totals, likeness: Likeness, times: int) -> None:
    """Count some more connections that are alike."""
    outcome, service, active, passive, reasons = likeness
    totals.connections += times
    totals.outcomes[outcome] += times
    totals.services[service] += times
    totals.pairs[(active, passive)] += times
    for reason in reasons:
        totals.reject_reasons[reason] += times


def worst_findings(findings: Sequence[Finding]) -> dict[int, int]:
    """Rank of the worst warning or error that concerns each connection; the findings are sorted, worst first."""
    worst: dict[int, int] = {}
    for finding in findings:
        if finding.severity != "info":
            for number in concerns(finding):
                worst.setdefault(number, SEVERITIES.index(finding.severity))
    return worst
