from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ibcmtool.model import Outcome
from ibcmtool.reports import conclusion
from ibcmtool.reports.page import Page
from ibcmtool.views.digest import count, likeness_of
from ibcmtool.views.tally import Totals


def sentence(screen: Any, records: SimpleNamespace, *outcomes: Outcome, findings: Any = ()) -> str:
    connections = [records.Life(at).ended(outcome) for at, outcome in enumerate(outcomes, 1)]
    analysis = records.analysis(*connections, findings=findings)
    totals = Totals()
    for connection in analysis.connections:
        count(totals, likeness_of(connection), 1)
    for finding in findings:
        totals.findings[(finding.code, finding.severity, finding.name)] += 1
    depends = any(finding.policy != "both" for finding in findings)
    page = Page(screen(None).console)
    lines = conclusion.lines(page, analysis.policy, analysis.inputs, totals, depends=depends)
    return "\n".join(line.plain for line in lines)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["closed"], "✓ 1 connection, closed, nothing to report"),
        (["closed"] * 10, "✓ 10 connections, all closed, nothing to report"),
        (["established"] * 3, "✓ 3 connections, all open at the end, nothing to report"),
        (["resolved"] * 3, "✓ 3 connections, all resolved by SIDR, nothing to report"),
        (["closed", "established"], "✓ 2 connections: 1 open at the end, 1 closed, nothing to report"),
        (["stale", "stale", "closed", "closed"], "✗ 2 of 4 connections were stale, 2 closed"),
        (["timed_out"], "✗ 1 connection, timed out"),
        (["closed", "timed_out"], "✗ 1 of 2 connections timed out, 1 closed"),
        (["closed", "half_open"], "✗ 1 of 2 connections was half open, 1 closed"),
        (["rejected", "rejected"], "✗ 2 connections, all rejected"),
        (
            ["partial", "connecting"],
            "✓ 2 connections: 1 still connecting at the end, 1 seen only in part, nothing to report",
        ),
    ],
)
def test_outcomes(screen: Any, records: SimpleNamespace, outcomes: list[Outcome], expected: str) -> None:
    assert sentence(screen, records, *outcomes) == expected


def test_findings_are_counted_worst_first(screen: Any, records: SimpleNamespace) -> None:
    found = [
        records.finding("S02", 1),
        records.finding("T01", 1, severity="error"),
        records.finding("S02", 1),
        records.finding("X08", 1, severity="info"),
    ]
    expected = "✗ 1 connection, closed; 1 error, 2 warnings and 1 info (S02, T01)"
    assert sentence(screen, records, "closed", findings=tuple(found)) == expected


def test_info_alone_is_no_trouble(screen: Any, records: SimpleNamespace) -> None:
    found = (records.finding("X08", 1, severity="info"),)
    assert sentence(screen, records, "closed", findings=found) == "✓ 1 connection, closed; 1 info"


def test_a_policy_that_decides_is_named(screen: Any, records: SimpleNamespace) -> None:
    found = (records.finding("S05", 1, policy="relaxed", severity="info"),)
    assert sentence(screen, records, "closed", findings=found).endswith("1 info under the relaxed policy")


def test_an_attempt_that_gave_way_is_no_failure(screen: Any) -> None:
    totals = Totals(gave_way=1)
    totals.outcomes.update(["established", "rejected"])
    totals.connections = 2
    lines = conclusion.lines(Page(screen(None).console), "relaxed", [], totals, depends=False)
    assert [line.plain for line in lines] == [
        "✓ 2 connections: 1 open at the end, 1 gave way to one of the other side, nothing to report"
    ]
