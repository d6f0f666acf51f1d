"""What one row of a view counts."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, run

from ibcmtool.formatting import MILLISECOND
from ibcmtool.views.tally import Tally, closer_of

MS = MILLISECOND


def tally_of(talk, **options):
    tally = Tally()
    for connection in run(talk, **options).connections:
        tally.add(connection)
    return tally


def test_a_connection_that_came_to_life():
    talk = Conversation()
    talk.establish(0)
    talk.close(1, by="passive")
    tally = tally_of(talk)
    assert (tally.connections, tally.connected, tally.requests, tally.repeated) == (1, 1, 1, 0)
    assert tally.outcomes == {"closed": 1}
    assert tally.closed_by == {"passive": 1}
    assert (tally.first_to_reply.maximum, tally.last_to_reply.maximum) == (10 * MS, 10 * MS)


def test_a_repeated_req_tells_the_wait_from_the_answer_time():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    talk.passive(6.41, "REP")
    talk.active(6.42, "RTU")
    tally = tally_of(talk)
    assert tally.first_to_reply.maximum == 6_410 * MS
    assert tally.last_to_reply.maximum == 10 * MS
    assert (tally.requests, tally.repeated) == (2, 1)


def test_a_req_after_the_rep_does_not_shorten_the_answer_time():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(6.41, "REP")
    talk.again(6.4101, req)
    talk.active(6.42, "RTU")
    assert tally_of(talk).last_to_reply.maximum == 6_410 * MS


def test_two_captures_are_measured_by_one_clock():
    """The copy of the REQ at the target is 3 ms later; the target took 7 ms."""
    talk = Conversation()
    req = talk.active(0, "REQ", file=0)
    talk.copy(0.003, req, file=1)
    talk.passive(0.010, "REP", file=1)
    assert tally_of(talk).last_to_reply.maximum == 7 * MS


@pytest.mark.parametrize(
    ("said", "closer"),
    [
        ([("active", "DREQ"), ("passive", "DREP")], "active"),
        ([("passive", "DREQ"), ("active", "DREP")], "passive"),
        ([("active", "DREQ"), ("passive", "DREQ"), ("active", "DREP"), ("passive", "DREP")], "both"),
        ([("active", "DREQ"), ("passive", "DREP"), ("passive", "DREQ")], "active"),
        ([], None),
    ],
)
def test_who_closed_it(said, closer):
    talk = Conversation()
    talk.establish(0)
    for at, (sender, kind) in enumerate(said):
        getattr(talk, sender)(1 + at / 1000, kind)
    assert closer_of(run(talk).connections[0]) == closer


def test_rejects_are_counted_by_reason():
    talk = Conversation()
    for at in range(3):
        one = talk.another()
        one.active(at, "REQ")
        one.passive(at + 0.01, "REJ", reason=8 if at else 28)
    tally = tally_of(talk)
    assert {(refusal.reason, refusal.by): number for refusal, number in tally.refusals.items()} == {
        (8, "passive"): 2,
        (28, "passive"): 1,
    }
    assert (tally.connected, tally.unanswered) == (0, 0)


def test_unanswered_is_what_the_passive_side_said_nothing_to():
    talk = Conversation()
    talk.active(0, "REQ")
    slow = talk.another()
    slow.active(0, "REQ")
    slow.passive(1, "MRA")
    tally = tally_of(talk, until=400)
    assert tally.outcomes == {"timed_out": 2}
    assert (tally.unanswered, tally.mras) == (1, 1)


def test_an_attempt_that_is_known_by_its_end_only():
    """The REJ 4 of a requester who never got an answer; the REJ of one who did does not count."""
    talk = Conversation()
    talk.active(0, "REJ", reason=4)
    answered = talk.another(Host("10.0.0.3"))
    answered.active(1, "REJ", reason=4, remote_comm_id=7)
    tally = tally_of(talk)
    assert tally.outcomes == {"partial": 2}
    assert (tally.unseen, tally.unanswered, tally.connected) == (1, 0, 0)


def test_the_worst_finding():
    tally = Tally()
    assert tally.worst is None
    for code, severity in (("X08", "info"), ("S02", "warning"), ("X08", "info")):
        tally.add_finding(code, severity)
    assert tally.worst == "warning"
    assert tally.codes == {"X08": 2, "S02": 1}


def test_dreqs_that_nobody_answered():
    talk = Conversation()
    talk.establish(0)
    talk.repeat(talk.active(1, "DREQ"), every=4.6, count=15)
    lost = tally_of(talk, until=200)
    assert (lost.unheard_releases, lost.dreqs, lost.dreqs_repeated) == (1, 16, 15)
    talk.passive(90, "DREP")
    assert tally_of(talk, until=200).unheard_releases == 0
