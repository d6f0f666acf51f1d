"""What the text report keeps of a stream of any length, and what it counts."""

from __future__ import annotations

from conversation import Conversation, run

from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.views import digest
from ibcmtool.views.digest import KEPT, MANY, Brief, Digest


def clean(number):
    talk = Conversation()
    for at in range(number):
        one = talk.another()
        one.establish(at)
        one.close(at + 0.5)
    return run(talk).connections


def rejected(number):
    talk = Conversation()
    for at in range(number):
        one = talk.another()
        one.active(at, "REQ")
        one.passive(at + 0.01, "REJ", reason=8)
    return run(talk).connections


def finding(code, severity, connection, related=()):
    return Finding(code, "name", severity, "certain", "both", connection, related, (), "m.", "a.", {}, connection)


def fill(records, **options):
    kept = Digest("relaxed", **options)
    for record in records:
        if isinstance(record, InputInfo):
            kept.inputs.append(record)
        else:
            (kept.add_finding if isinstance(record, Finding) else kept.add_connection)(record)
    return kept.summary()


def test_few_connections_are_all_kept_whole():
    summary = fill(clean(MANY))
    assert len(summary.connections) == MANY
    assert all(len(connection.steps) == 5 for connection in summary.connections)


def test_of_many_clean_ones_only_the_counts_are_kept():
    summary = fill(clean(MANY + 30))
    assert summary.connections == []
    assert summary.totals.connections == MANY + 30
    assert summary.totals.outcomes == {"closed": MANY + 30}
    assert summary.totals.services == {"RDMA TCP 7174": MANY + 30}
    ((pair, number),) = summary.totals.pairs.items()
    assert number == MANY + 30
    assert [address.gid[-4:] for address in pair] == [b"\x0a\0\0\1", b"\x0a\0\0\2"]


def test_of_many_those_with_problems_are_kept():
    bad = rejected(7)
    for number, connection in enumerate(bad):
        connection.id = 1000 + number
    good = clean(MANY + 10)
    summary = fill([finding("S01", "error", 3), *bad[:3], *good, *bad[3:]])
    assert [c.id for c in summary.connections] == [3, *range(1000, 1007)]
    assert summary.totals.reject_reasons == {8: 7}


def test_the_worst_are_kept_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(digest, "KEPT", 5)
    bad = rejected(80)
    summary = fill([finding("S01", "error", 77), finding("R02", "warning", 60), *bad])
    assert len(summary.connections) <= 10
    assert {60, 77} <= {c.id for c in summary.connections}


def test_findings_beyond_the_bound_are_counted():
    summary = fill(finding("X05", "info", number) for number in range(KEPT + 25))
    assert len(summary.findings) == KEPT
    assert summary.totals.findings == {("X05", "info", "name"): KEPT + 25}


def test_everything_keeps_every_connection_but_of_clean_ones_only_what_a_line_shows():
    connections = clean(MANY + 5)
    summary = fill([*connections, *rejected(1)], everything=True)
    assert all(len(connection.steps) == 5 for connection in connections)  # only the tracker writes to them
    assert len(summary.connections) == MANY + 6
    assert [type(c) for c in summary.connections if c.outcome == "closed"] == [Brief] * (MANY + 5)
    assert [len(c.steps) for c in summary.connections if c.outcome == "rejected"] == [2]
    assert {c.service for c in summary.connections if c.outcome == "closed"} == {"RDMA TCP 7174"}


def test_inputs_and_order():
    info = InputInfo("a.pcap")
    summary = fill([finding("X05", "info", 1), finding("S01", "error", 9), *reversed(clean(3)), info])
    assert summary.inputs == [info]
    assert [c.id for c in summary.connections] == [1, 2, 3]
    assert [f.code for f in summary.findings] == ["S01", "X05"]
