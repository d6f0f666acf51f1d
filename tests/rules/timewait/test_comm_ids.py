"""T03, T04, T07: each fires on its breach, and is silent on the nearest innocent neighbour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import SECOND, Conversation, Host, run

from ibcmtool.values import Duration


def test_t03_an_id_given_away_twice():
    old = Conversation(Host("10.0.0.1", psn=100))
    old.establish(0)
    new = old.another(active_qpn=0x99)
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(5, "REQ", tid=12345)
    finding = run(old).only("T03")
    assert (finding.severity, finding.confidence, finding.related) == ("error", "probable", (1,))


def test_t03_accuses_nobody_whose_first_req_was_not_captured():
    """It may be the same one, which came once more."""
    old = Conversation(Host("10.0.0.1", psn=100))
    old.passive(0.01, "REP")
    old.active(0.02, "RTU")
    new = old.another(active_qpn=0x99)
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(5, "REQ", tid=12345)
    assert run(old).only("T03").severity == "info"


def test_t03_accuses_nobody_whose_attempt_did_not_come_about():
    """It may have been given up without a word: the REP was lost."""
    old = Conversation(Host("10.0.0.1", psn=100))
    old.active(0, "REQ")
    old.passive(0.01, "REP")
    new = old.another(active_qpn=0x99)
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(5, "REQ", tid=12345)
    assert run(old).only("T03").severity == "info"


def test_t03_accuses_nobody_who_may_have_closed_unseen():
    """A CM with fixed ids has one life after the other."""
    for skipped, dreq in ((1, False), (0, True)):
        old = Conversation(Host("10.0.0.1", psn=100))
        old.establish(0)
        if dreq:
            old.active(1, "DREQ")
        for _ in range(skipped):
            old.hosts["active"].next_psn()
        new = old.another(active_qpn=0x99)
        new.comm_ids["active"] = old.comm_ids["active"]
        new.active(5, "REQ", tid=12345)
        assert run(old).only("T03").severity == "info"


def test_t03_accuses_nobody_of_a_req_that_may_be_a_repetition():
    """Its content cannot be held against that of the first REQ, which was not captured."""
    old = Conversation(Host("10.0.0.1", psn=100))
    req, rep, rtu = old.establish(0)
    again = replace(req, time=req.time + SECOND, frame=4, tid=12345, psn=102)
    old.capture[:] = [rep, rtu, again]
    assert run(old).only("T03").severity == "info"


def test_t03_silent_for_a_repetition_where_the_rep_was_captured_before_its_req():
    """The content is the same, though the TransactionID is not."""
    old = Conversation(Host("10.0.0.1", psn=100))
    req, rep, rtu = old.establish(0)
    again = replace(req, time=req.time + SECOND, frame=4, tid=12345, psn=102)
    old.capture[:] = [rep, req, rtu, again]
    assert "T03" not in run(old).codes


def test_t03_silent_for_a_repetition_another_ca_and_long_after_the_close():
    old = Conversation()
    req, _, _ = old.establish(0)
    old.again(5, req)
    stranger = old.another(Host("10.0.0.9", first_comm_id=old.comm_ids["active"]))
    stranger.active(6, "REQ")
    assert "T03" not in run(old).codes
    old = Conversation()
    old.establish(0)
    old.close(1)
    new = old.another()
    new.comm_ids["active"] = old.comm_ids["active"]
    new.active(30, "REQ")
    assert "T03" not in run(old).codes


def test_t04_rej_30():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=30)
    assert run(talk).only("T04").severity == "info"
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=29)
    assert "T04" not in run(talk).codes


def test_t07_a_ghost_req_accepted():
    talk = Conversation()
    req, _, _ = talk.establish(0)
    talk.close(1)
    talk.again(1.5, req)
    talk.comm_ids["passive"] += 1
    talk.passive(1.51, "REP")
    result = run(talk)
    finding = result.only("T07")
    assert finding.evidence["after_close"] == Duration(490_000_000)
    assert not {"T01", "S05"} & set(result.codes)  # the sender did not open anything


def test_t07_silent_for_a_repetition_before_the_end():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    talk.passive(6.41, "REP")
    assert "T07" not in run(talk).codes


def test_t07_silent_when_all_of_a_life_was_captured_again_much_later():
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    talk.capture += [replace(item, time=item.time + 16 * SECOND) for item in talk.capture]
    assert "T07" not in run(talk).codes


def test_t07_needs_little_but_the_second_answer():
    """Where messages of the passive side are missing, a restart of its host is not ruled out."""
    talk = Conversation(Host("10.0.0.1", psn=5), Host("10.0.0.2", psn=5))
    req, _, _ = talk.establish(0)
    talk.hosts["passive"].psn += 10  # it speaks to others meanwhile
    talk.close(1)
    talk.again(1.5, req)
    talk.comm_ids["passive"] += 1
    talk.passive(1.51, "REP")
    finding = run(talk).only("T07")
    assert (finding.severity, finding.confidence) == ("warning", "probable")


def test_t07_accuses_no_host_that_has_restarted_and_cannot_remember():
    talk = Conversation(Host("10.0.0.1", psn=5), Host("10.0.0.2", psn=5000))
    req, _, _ = talk.establish(0)
    talk.close(1)
    talk.hosts["passive"].psn = 0
    talk.again(4.5, req)
    talk.comm_ids["passive"] += 1
    talk.passive(4.51, "REP")
    assert "T07" not in run(talk).codes


def test_t07_is_only_possible_where_the_end_is_by_the_clock_of_another_capture():
    talk = Conversation()
    req, _, _ = talk.establish(0)
    for closing in talk.close(1):
        closing.file = 1
    talk.again(1.5, req)
    talk.comm_ids["passive"] += 1
    talk.passive(1.51, "REP")
    finding = run(talk).only("T07")
    assert (finding.severity, finding.confidence) == ("info", "possible")


@pytest.mark.parametrize("passive_id", ["the same", "another"])
@pytest.mark.parametrize("order", ["right", "REP first", "no REQ"])
def test_t07_accuses_nobody_of_a_new_life_with_the_same_ids_and_transaction_id(passive_id, order):
    talk = Conversation()
    talk.establish(0)
    talk.close(1)
    new = talk.another()
    new.comm_ids["active"] = talk.comm_ids["active"]
    if passive_id == "the same":
        new.comm_ids = talk.comm_ids
    req, rep, _ = new.establish(5)
    if order == "no REQ":
        talk.capture.remove(req)
    elif order == "REP first":
        req.time, rep.time = rep.time, req.time
    assert "T07" not in {finding.code for finding in run(talk).findings if finding.severity != "info"}


def test_t07_accuses_nobody_where_a_new_req_with_the_same_ids_came_behind_the_late_copy():
    """The answer may be to the new one."""
    talk = Conversation()
    req, _, _ = talk.establish(0)
    talk.close(1)
    talk.again(1.5, req)
    talk.active(2, "REQ", tid=req.tid, local_qpn=0x99)
    talk.comm_ids["passive"] += 1
    talk.passive(2.01, "REP")
    finding = run(talk).only("T07")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_t07_silent_where_the_second_answer_had_come_before_the_end():
    """A REQ that was held up reached a host that had restarted; its REP is repeated behind the close."""
    talk = Conversation()
    talk.establish(0)
    ids = dict(talk.comm_ids)
    talk.comm_ids["passive"] += 1
    second = talk.passive(0.9, "REP")
    talk.comm_ids.update(ids)
    talk.close(1)
    talk.again(5.3, second)
    assert "T07" not in run(talk).codes


def test_t03_only_possible_where_the_first_req_was_not_captured():
    """The second one may be that REQ again."""
    talk = Conversation(Host("10.0.0.1", psn=100))
    req, _, _ = talk.establish(0)
    talk.active(5, "REQ", tid=12345)
    assert "T03" not in run(talk).codes
    talk.capture.remove(req)
    finding = run(talk).only("T03")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_t03_silent_for_the_same_req_again_whose_first_was_captured_behind_its_rep():
    talk = Conversation()
    req, rep, _ = talk.establish(0)
    req.time, rep.time = rep.time, req.time
    talk.active(5, "REQ", tid=12345)
    assert run(talk).codes == []


def test_t03_of_a_cm_that_always_uses_the_same_id():
    """Its third connection, while the second seems open, is only possibly a breach."""
    talks = [Conversation()]
    for _ in range(2):
        talks.append(talks[0].another())
        talks[-1].comm_ids["active"] = talks[0].comm_ids["active"]
    for number, talk in enumerate(talks):
        talk.establish(20.0 * number, tid=0x100 + number)
        if number != 1:
            talk.close(20.0 * number + 1)
    assert [finding.severity for finding in run(talks[0]).of("T03")] == ["info"]
