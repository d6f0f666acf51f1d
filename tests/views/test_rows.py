"""The rows of a breakdown: who shares one, whose findings they count, and what happens when there are too many."""

from __future__ import annotations

import pytest
from conversation import SERVICE, Conversation, Host, run

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.views import rows as rows_module
from ibcmtool.views.rows import Rows

NVME = 0x0000000001061144


def filled(by, records, **options):
    rows = Rows(by, "relaxed", **options)
    for record in records:
        if isinstance(record, InputInfo):
            rows.inputs.append(record)
        else:
            (rows.add_finding if isinstance(record, Finding) else rows.add_connection)(record)
    return rows.breakdown()


def mesh():
    """Four hosts: 1 and 2 connect to 4 (two services), 3 to 1; 2 is refused once."""
    hosts = {number: Host(f"10.0.0.{number}") for number in (1, 2, 3, 4)}
    talk = Conversation(hosts[1], hosts[4])
    talk.establish(0)
    talk.another(hosts[1], hosts[4], service_id=NVME).establish(1)
    refused = talk.another(hosts[2], hosts[4])
    refused.active(2, "REQ")
    refused.passive(2.01, "REJ", reason=8)
    talk.another(hosts[3], hosts[1]).establish(3)
    return run(talk).connections


def finding(code, connection, severity="warning", related=(), policy="both"):
    return Finding(code, "name", severity, "certain", policy, connection, related, (), "m.", "a.", {}, connection)


def test_pairs():
    breakdown = filled("pair", mesh())
    counted = {(row.active.name, row.passive.name): row.tally.connections for row in breakdown.rows}
    assert counted == {("10.0.0.1", "10.0.0.4"): 2, ("10.0.0.2", "10.0.0.4"): 1, ("10.0.0.3", "10.0.0.1"): 1}
    first = breakdown.rows[0]  # problems first
    assert (first.active.name, first.tally.outcomes["rejected"], first.service) == ("10.0.0.2", 1, None)


def test_targets():
    breakdown = filled("target", mesh())
    counted = {
        (row.passive.name, row.service.name): (row.tally.connections, row.clients, row.targets)
        for row in breakdown.rows
    }
    assert counted == {
        ("10.0.0.4", "RDMA TCP 7174"): (2, 2, 1),
        ("10.0.0.4", "NVMe/RDMA 4420"): (1, 1, 1),
        ("10.0.0.1", "RDMA TCP 7174"): (1, 1, 1),
    }
    assert breakdown.rows[0].tally.refusals.total() == 1
    assert breakdown.rows[0].service.id == SERVICE


def test_services():
    breakdown = filled("service", mesh())
    counted = {row.service.name: (row.tally.connections, row.clients, row.targets) for row in breakdown.rows}
    assert counted == {"RDMA TCP 7174": (3, 3, 2), "NVMe/RDMA 4420": (1, 1, 1)}
    assert breakdown.totals.outcomes == {"established": 3, "rejected": 1}


@pytest.mark.parametrize("late", [False, True])
def test_findings_are_counted_where_their_connections_are(late):
    """Findings come before or after the end of the connections that they concern; related ones count too."""
    connections = mesh()
    found = [finding("S02", 3, related=(4,)), finding("T01", 1, "error", policy="strict"), finding("C01", None)]
    breakdown = filled("pair", [*connections, *found] if late else [*found, *connections])
    codes = {(row.active.name, row.passive.name): dict(row.tally.codes) for row in breakdown.rows}
    assert codes == {
        ("10.0.0.1", "10.0.0.4"): {"T01": 1},
        ("10.0.0.2", "10.0.0.4"): {"S02": 1},
        ("10.0.0.3", "10.0.0.1"): {"S02": 1},
    }
    assert [row.tally.worst for row in breakdown.rows] == ["error", "warning", "warning"]
    assert breakdown.rows[1].active.name == "10.0.0.2"  # of two warnings the one with a failure
    assert breakdown.depends
    assert sum(breakdown.totals.findings.values()) == 3


def test_what_has_no_row_is_counted_together(monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_ROWS", 2)
    connections = mesh()
    breakdown = filled("pair", [finding("S02", 4), *connections])
    assert len(breakdown.rows) == 2
    assert breakdown.others.tally.connections == 1
    assert breakdown.others.tally.codes == {"S02": 1}
    assert breakdown.totals.connections == 4


def test_clients_beyond_the_bound_are_not_guessed(monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_PARTIES", 3)
    (row,) = [row for row in filled("service", mesh()).rows if row.service.id == SERVICE]
    assert not row.complete
    assert row.clients < 3


def test_findings_about_connections_long_ended_are_let_go(monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_ENDED", 2)
    breakdown = filled("pair", [*mesh(), finding("X02", 1)])
    assert sum(row.tally.codes.total() for row in breakdown.rows) == 0
    assert breakdown.totals.findings == {("X02", "warning", "name"): 1}


def test_unanswered_attempts_of_both_ends():
    talk = Conversation()
    req = talk.active(0, "REQ", file=0)
    talk.copy(0.001, req, file=1)
    infos = [InputInfo("a"), InputInfo("b")]
    breakdown = filled("target", [*run(talk, until=400).connections, *infos], several_inputs=True)
    assert breakdown.rows[0].tally.arrivals == {"seen": 1}
    assert breakdown.inputs == infos
