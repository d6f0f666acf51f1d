"""When a REQ that was refused with REJ 10 can safely be sent again."""

from __future__ import annotations

from conversation import FIRST_DAY, SECOND, Conversation, run

from ibcmtool.connections.timers import exponent
from ibcmtool.views.retry import safe_retry

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
    assert retry == (ns(60.03) + LONGEST, "closed", (1,), False)


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
    assert retry_of(new, 1) == (None, "unknown", (), False)


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
