"""When a REQ that was refused with REJ 10 can safely be sent again."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, attempts_of, run

from ibcmtool.connections import release
from ibcmtool.connections.release import safe_retry
from ibcmtool.connections.timers import exponent
from ibcmtool.engine.files import analyze
from ibcmtool.values import Time

ACK = 18  # Local ACK Timeout; the longest timewait is one step more
LONGEST = exponent(ACK + 1)


def retry_of(talk, refused, *, until=None):
    """From the last connection that was refused."""
    connections = run(talk, until=until).connections
    connection = next(one for one in connections if one.id == refused)
    conflicts = connection.request_conflicts
    if connection.reject.sender == "active":
        conflicts = connection.reply_conflicts
    return safe_retry(conflicts, connection.reject.message.time)


def refused_at(time, *, close=True):
    """A connection whose owner comes back with its QPN, and is refused."""
    old = Conversation(active_qpn=0x11)
    old.establish(0, primary_local_ack_timeout=ACK, max_cm_retries=3)
    new = old.another(active_qpn=0x11)
    new.active(time, "REQ")
    new.passive(time + 0.01, "REJ", reason=10)
    return old


def ns(time):
    return FIRST_DAY + round(time * SECOND)


def test_the_dreq_was_answered():
    old = refused_at(60)
    old.close(60.02, by="passive")
    retry = retry_of(old, 2, until=120)
    assert retry == (ns(60.03) + LONGEST, "closed", (1,), False, ns(60.03))


def test_the_dreq_was_never_answered():
    """Four sends, and a wait and a quarter after the last one."""
    old = refused_at(60)
    old.repeat(old.passive(60.02, "DREQ"), every=4.3, count=3)
    retry = retry_of(old, 2, until=200)
    assert retry.basis == "exhausted"
    wait = exponent(20)
    assert retry.time == ns(60.02 + 3 * 4.3) + wait + wait // 4 + LONGEST


def test_the_capture_ends_while_the_dreq_is_being_retried():
    old = refused_at(60)
    old.repeat(old.passive(60.02, "DREQ"), every=4.3, count=1)
    retry = retry_of(old, 2)
    assert retry.basis == "retrying"
    wait = exponent(20)
    assert retry.time == ns(60.02) + 5 * wait + LONGEST  # four waits and a quarter of each


def test_no_dreq_was_seen():
    retry = retry_of(refused_at(60), 2, until=300)
    assert (retry.time, retry.basis, retry.held) == (None, "no DREQ", (1,))


def test_the_old_connection_is_not_in_the_capture():
    new = Conversation()
    new.active(0, "REQ")
    new.passive(0.01, "REJ", reason=10)
    assert retry_of(new, 1) == (None, "unknown", (), False, None)


def test_the_holder_restarts_before_its_dreq_is_answered():
    """It holds nothing any more: nobody need wait for its retries."""
    old = refused_at(60)
    old.passive(60.02, "DREQ")
    old.another(Host("10.0.0.3"), Host("10.0.0.2", first_comm_id=0x5D11_A000)).establish(62)
    assert retry_of(old, 2, until=200) == (ns(62.01), "restarted", (1,), False, ns(62.01))


def captures_with_refusals():
    folder = Path(__file__).resolve().parents[2] / "captures"
    paths = sorted(folder.glob("*/*.pcap*"))
    analyses = [(path.name, analyze([str(path)])) for path in paths]
    return [
        pytest.param(analysis, id=name)
        for name, analysis in analyses
        if any(f.code == "S02" for f in analysis.findings)
    ]


@pytest.mark.parametrize("analysis", captures_with_refusals())
def test_all_who_tell_when_a_qpn_is_free_agree(analysis):
    """The row of an attempt, that of its group, and S09; S02 comes too early to know, and refers to them."""
    by_id = {connection.id: connection for connection in analysis.connections}
    for group in attempts_of(analysis.connections):
        if group.stale:
            assert group.retry() == release.retry_of(by_id[group.ids[-1]])
    for finding in analysis.findings:
        if finding.code == "S09":
            retry = release.retry_of(by_id[finding.connection])
            told = finding.evidence["released"], finding.evidence["earliest_safe_retry"]
            assert [time and time.ns for time in told] == [retry.released, retry.time]
        if finding.code == "S02":
            assert not any(isinstance(value, Time) for value in finding.evidence.values())
            connection = by_id[finding.connection]
            assert connection.outcome != "rejected" or release.retry_of(connection) is not None


def test_refused_because_of_timewait():
    """The strict reading: the old connection was closed by both, its timewait is what it is refused for."""
    old = Conversation(active_qpn=0x11)
    old.establish(0, primary_local_ack_timeout=ACK)
    old.close(1)
    new = old.another(active_qpn=0x11)
    new.active(1.5, "REQ")
    new.passive(1.51, "REJ", reason=10)
    retry = retry_of(old, 2)
    assert (retry.basis, retry.held) == ("closed", (1,))
    assert retry.time == ns(1.01) + LONGEST  # from the DREP


def test_a_rep_that_was_refused():
    old = Conversation(passive_qpn=0x22)
    old.establish(0, primary_local_ack_timeout=ACK)
    new = old.another(passive_qpn=0x22)
    new.active(60, "REQ")
    new.passive(60.01, "REP")
    new.active(60.02, "REJ", reason=10)
    old.close(60.03, by="active")
    retry = retry_of(old, 2)
    assert (retry.basis, retry.held) == ("closed", (1,))
    assert retry.time == ns(60.04) + LONGEST
