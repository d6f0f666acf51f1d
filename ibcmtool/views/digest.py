"""What the text report keeps of a capture of any size.

Up to MANY connections are shown one by one. Above that the report gives counts, and the connections with problems,
worst first; so only those are kept, at most KEPT of them, and at most KEPT findings of each code. `everything` (--all)
keeps all connections, but of the clean ones not their messages: about a kilobyte each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from operator import attrgetter

from ibcmtool import formatting, services
from ibcmtool.connections.matching import rej_reason
from ibcmtool.model import (
    SEVERITIES,
    Address,
    Analysis,
    Connection,
    Finding,
    InputInfo,
    Outcome,
    Policy,
    Severity,
    Totals,
)
from ibcmtool.model import rank as finding_rank
from ibcmtool.views.attempts import Attempts, Grouping

MANY = 50  # connections; above, the table gives way to counts and the connections with problems
KEPT = 1000
# Outcome, service, active and passive port, reasons of a rejected connection (none or one).
Likeness = tuple[Outcome, str, Address, Address, tuple[int | None, ...]]
CLEAN: frozenset[Outcome] = frozenset({"closed", "established", "resolved"})  # outcomes that need no second look


class Digest:
    """Takes the records of a stream and keeps what a report of bounded size can show."""

    def __init__(self, policy: Policy, *, everything: bool = False) -> None:
        self._policy = policy
        self._everything = everything
        self._count = 0  # connections
        self._alike: dict[Likeness, int] = {}  # and how many of them counted alike
        self._findings_counted: Counter[tuple[str, Severity, str]] = Counter()
        self._inputs: list[InputInfo] = []
        self._connections: list[Connection] = []
        self._findings: list[Finding] = []
        self._worst: dict[int, int] = {}  # connection -> rank of its worst finding
        self._kept_findings: Counter[str] = Counter()
        self._grouping = Grouping()

    def add(self, record: InputInfo | Connection | Finding) -> None:
        """One record of analysis.stream."""
        if isinstance(record, Connection):
            self._add_connection(record)
        elif isinstance(record, Finding):
            self._add_finding(record)
        else:
            self._inputs.append(record)

    def analysis(self) -> Analysis:
        """All that was kept; the totals are over everything."""
        connections = sorted(self._connections, key=attrgetter("id"))
        findings = sorted(self._findings, key=finding_rank)
        totals = Totals(findings=self._findings_counted.copy())
        for likeness, times in self._alike.items():
            count(totals, likeness, times)
        return Analysis(self._policy, self._inputs, connections, findings, totals)

    def attempts(self) -> list[Attempts]:
        """The groups of attempts that failed alike, among all connections."""
        return self._grouping.groups()

    def _add_connection(self, connection: Connection) -> None:
        self._count += 1
        # One plain dictionary, as a Counter takes several times as long, and there would be four.
        likeness = likeness_of(connection)
        self._alike[likeness] = self._alike.get(likeness, 0) + 1
        self._grouping.add(connection)
        if self._everything:
            if not noteworthy(connection, self._worst):
                let_go(connection)
            self._connections.append(connection)
            return
        many = self._count > MANY
        if many and len(self._connections) == MANY == self._count - 1:
            self._connections = [kept for kept in self._connections if noteworthy(kept, self._worst)]
        if not many or noteworthy(connection, self._worst):
            self._connections.append(connection)
        if len(self._connections) > 2 * KEPT:
            self._connections = sorted(self._connections, key=lambda kept: rank(kept, self._worst))[:KEPT]

    def _add_finding(self, finding: Finding) -> None:
        self._findings_counted[(finding.code, finding.severity, finding.name)] += 1
        self._kept_findings[finding.code] += 1
        if self._everything or self._kept_findings[finding.code] <= KEPT:
            self._findings.append(finding)
        if finding.severity != "info":
            for number in (finding.connection, *finding.related):
                if number is not None and len(self._worst) < KEPT * len(SEVERITIES):
                    worst = SEVERITIES.index(finding.severity)
                    self._worst[number] = min(worst, self._worst.get(number, worst))


def noteworthy(connection: Connection, troubled: Container[int]) -> bool:
    """Whether a summary shows it: it did not end cleanly, or it is among those with a warning or an error."""
    return connection.outcome not in CLEAN or connection.id in troubled


def rank(connection: Connection, worst: dict[int, int]) -> tuple[int, int, int]:
    """Problems first: by the worst finding, then by outcome, then in order."""
    return (
        worst.get(connection.id, SEVERITIES.index("info")),
        formatting.OUTCOME_ORDER.index(connection.outcome),
        connection.id,
    )


def let_go(connection: Connection) -> None:
    """Drop the messages of a clean connection; a row of the table needs none of them."""
    connection.service = services.connection_service(connection)
    connection.steps.clear()
    connection.request = connection.reply = None
    connection.request_conflicts = connection.reply_conflicts = ()
    connection.first_data.clear()
    connection.last_data.clear()


def likeness_of(connection: Connection) -> Likeness:
    """All that the totals count of a connection: outcome, service, active and passive port, and the REJ's reason."""
    active, passive, outcome = connection.active.address, connection.passive.address, connection.outcome
    reject = connection.reject if outcome == "rejected" else None
    reasons = () if reject is None else (rej_reason(reject.message),)
    return outcome, services.connection_service(connection), active, passive, reasons


def count(totals: Totals, likeness: Likeness, times: int = 1) -> None:
    """Count some more connections that are alike."""
    outcome, service, active, passive, reasons = likeness
    totals.connections += times
    totals.outcomes[outcome] += times
    totals.services[service] += times
    totals.pairs[(active, passive)] += times
    for reason in reasons:
        totals.reject_reasons[reason] += times


def totals_of(analysis: Analysis) -> Totals:
    """The totals of an analysis, counted from its connections and findings where it brings none."""
    if analysis.totals is not None:
        return analysis.totals
    totals = Totals()
    for connection in analysis.connections:
        count(totals, likeness_of(connection))
    for finding in analysis.findings:
        totals.findings[(finding.code, finding.severity, finding.name)] += 1
    return totals


def worst_findings(findings: list[Finding]) -> dict[int, int]:
    """Rank of the worst warning or error that concerns each connection."""
    worst: dict[int, int] = {}
    for finding in findings:
        severity: Severity = finding.severity
        if severity != "info":
            for number in (finding.connection, *finding.related):
                if number is not None:
                    worst[number] = min(SEVERITIES.index(severity), worst.get(number, len(SEVERITIES)))
    return worst
