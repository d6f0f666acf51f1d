"""Attempts that ended the same way, one soon after the other."""

from __future__ import annotations

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, attempts_of, run

from ibcmtool.views import attempts as attempts_module
from ibcmtool.views.attempts import Grouping, membership


def refuse(talk, at, reason=8, *, active=None, qpn=None):
    one = talk.another(active, **({} if qpn is None else {"active_qpn": qpn}))
    one.active(at, "REQ")
    one.passive(at + 0.01, "REJ", reason=reason)


def groups_of(talk, *, until=None):
    return attempts_of(run(talk, until=until).connections)


def started():
    """A conversation whose first connection, of another service, counts nowhere."""
    talk = Conversation(service_id=0x1061144)
    talk.establish(-1)
    return talk


def test_a_retry_loop_of_one_consumer():
    talk = started()
    for at in range(5):
        refuse(talk, at * 0.2, reason=10, qpn=0x11)
    (group,) = groups_of(talk)
    assert (group.count, group.ids, len(group.clients), group.history) == (5, [2, 3, 4, 5, 6], 1, "Qj")
    assert group.failure.refusal.reason == 10
    assert (group.opened, group.last_opened) == (FIRST_DAY, FIRST_DAY + round(0.8 * SECOND))
    assert group.over == FIRST_DAY + round(0.81 * SECOND)
    assert group.retry().basis == "unknown"  # the capture has no connection of that QPN


def test_stale_refusals_of_two_qpns_are_two_stories():
    talk = started()
    for at in range(6):
        refuse(talk, at * 0.2, reason=10, qpn=0x11 + at % 2)
    assert [group.ids for group in groups_of(talk)] == [[2, 4, 6], [3, 5, 7]]


def test_a_storm_of_many_clients_is_one_story():
    hosts = [Host(f"10.0.1.{number}") for number in range(100, 112)]
    talk = started()
    for at in range(240):
        refuse(talk, at / 75, active=hosts[at % 12])
    (group,) = groups_of(talk)
    assert (group.count, len(group.clients), group.active_name) == (240, 12, "")
    assert group.retry() is None


def test_two_attempts_are_no_group():
    talk = started()
    refuse(talk, 0)
    refuse(talk, 1)
    assert groups_of(talk) == []


def test_other_reasons_are_other_groups():
    talk = started()
    for at in range(6):
        refuse(talk, at, reason=8 if at % 2 else 28)
    assert [(group.failure.refusal.reason, group.count) for group in groups_of(talk)] == [(28, 3), (8, 3)]


def test_a_long_pause_ends_a_group():
    talk = started()
    for at in (0, 1, 2, 65, 66, 67):
        refuse(talk, at)
    assert [group.ids for group in groups_of(talk)] == [[2, 3, 4], [5, 6, 7]]


def test_a_slow_attempt_is_no_pause():
    """Each one is retried for 70 s before the next begins: the pause is from its end on."""
    talk = started()
    for at in range(3):
        one = talk.another()
        one.repeat(one.active(at * 75, "REQ", max_cm_retries=15), every=4.4, count=15)
    (group,) = groups_of(talk, until=400)
    assert (group.count, group.requests, group.repeated) == (3, 48, 45)
    assert (group.failure.outcome, group.failure.answered) == ("timed_out", False)


@pytest.mark.parametrize("order", [(2, 3, 4, 5, 6, 7, 8), (2, 3, 4, 6, 7, 8, 5), (7, 6, 4, 8, 3, 5, 2)])
def test_a_success_of_a_client_ends_its_group(order):
    """Connections come as they end, and one that came to life ends long after those that did not."""
    talk = started()
    for at in (0, 1, 2):
        refuse(talk, at)
    talk.another().establish(3)
    for at in (4, 5, 6):
        refuse(talk, at)
    connections = {connection.id: connection for connection in run(talk).connections}
    groups = attempts_of(connections[number] for number in order)
    assert [group.ids for group in groups] == [[2, 3, 4], [6, 7, 8]]


def test_a_success_of_a_stranger_ends_nothing():
    talk = started()
    for at in range(4):
        refuse(talk, at)
        talk.another(Host("10.0.0.9")).establish(at + 0.5)
    (group,) = groups_of(talk)
    assert group.count == 4


def test_a_success_with_another_qpn_does_not_end_a_stale_loop():
    talk = started()
    for at in range(4):
        refuse(talk, at, reason=10, qpn=0x11)
        talk.another(active_qpn=0x50 + at).establish(at + 0.5)
    (group,) = groups_of(talk)
    assert group.count == 4


def test_attempts_that_the_end_of_the_capture_cuts_off():
    talk = started()
    for at in range(3):
        talk.another().active(at, "REQ")
    answered = talk.another()
    answered.active(3, "REQ")
    answered.passive(3.1, "MRA")
    (group,) = groups_of(talk)
    assert (group.failure.outcome, group.failure.answered, group.count) == ("connecting", False, 3)


def test_attempts_known_by_their_end_only():
    talk = started()
    for number in range(3):
        talk.another(Host(f"10.0.1.{number + 100}")).active(number, "REJ", reason=4)
    (group,) = groups_of(talk)
    assert (group.failure.outcome, group.count, len(group.clients), group.requests) == ("partial", 3, 3, 0)


def test_folding_on_the_way_changes_nothing(monkeypatch):
    talk = started()
    for at in range(100):
        refuse(talk, at / 10)
    connections = run(talk).connections
    whole = attempts_of(connections)
    monkeypatch.setattr(attempts_module, "FOLD", 7)
    assert attempts_of(connections) == whole


def test_memory_is_bounded(monkeypatch):
    for name, most in (("FOLD", 10), ("MOST_GROUPS", 5), ("MOST_IDS", 4), ("MOST_CLIENTS", 3)):
        monkeypatch.setattr(attempts_module, name, most)
    hosts = [Host(f"10.0.1.{number}") for number in range(100, 108)]
    talk = started()
    for at in range(100):
        refuse(talk, at / 10, active=hosts[at % 8])
        refuse(talk, at / 10, reason=10, active=hosts[at % 8], qpn=0x1000 + at)
    grouping = Grouping()
    for connection in run(talk).connections:
        grouping.add(connection)
        assert len(grouping._records) < 10
        assert len(grouping._groups) <= 5 + 10
    (group,) = grouping.groups()
    assert (group.count, len(group.ids), len(group.clients)) == (100, 4, 3)


def test_membership_does_not_need_the_ids(monkeypatch):
    monkeypatch.setattr(attempts_module, "MOST_IDS", 2)
    talk = started()
    for at in (0, 1, 2, 90, 91, 92):
        refuse(talk, at)
    refuse(talk, 93, reason=28)
    connections = run(talk).connections
    first, second = attempts_of(connections)
    assert membership(connections, [first, second]) == {
        **dict.fromkeys((2, 3, 4), first),
        **dict.fromkeys((5, 6, 7), second),
    }


def test_dreqs_into_a_dead_link_are_one_story():
    first = Conversation()
    talks = [first, *(first.another() for _ in range(4))]
    for number, talk in enumerate(talks):
        talk.establish(number * 0.01)
    dreqs = [talk.active(90 + number * 0.001, "DREQ") for number, talk in enumerate(talks)]
    for number, talk in enumerate(talks):
        talk.repeat(dreqs[number], every=4.6, count=15)
    (group,) = groups_of(first, until=300)
    assert (group.count, group.ids, group.noun, group.failure.released_by) == (
        5,
        [1, 2, 3, 4, 5],
        "connection",
        "active",
    )
    assert (group.requests, group.repeated) == (80, 75)
    assert group.opened == FIRST_DAY + 90 * SECOND


def test_dreqs_of_connections_from_before_the_capture():
    first = Conversation()
    for number in range(4):
        talk = first.another()
        talk.repeat(talk.active(90 + number * 0.001, "DREQ"), every=4.6, count=15)
    (group,) = groups_of(first, until=300)
    assert (group.count, group.failure.outcome, group.failure.released_by, group.requests) == (
        4,
        "partial",
        "active",
        64,
    )


def test_dreqs_that_were_answered_are_none():
    first = Conversation()
    for number in range(5):
        talk = first.another()
        talk.establish(number * 0.01)
        talk.repeat(talk.passive(90, "DREQ"), every=4.6, count=2)
        talk.active(100, "DREP")
    assert groups_of(first, until=300) == []
