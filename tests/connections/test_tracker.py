"""The tracker, told conversations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, run

from ibcmtool.connections import past
from ibcmtool.connections.tracker import Tracker
from ibcmtool.model import Event

MS = 1_000_000


def at(seconds):
    return FIRST_DAY + round(seconds * SECOND)


def test_a_clean_life():
    talk = Conversation()
    talk.establish()
    talk.close(1.0)
    (connection,), findings = run(talk, until=1.05)
    assert (connection.outcome, connection.history) == ("closed", "QpUDe")
    assert (connection.opened, connection.established, connection.closed) == (at(0), at(0.02), at(1.01))
    assert [step.disposition for step in connection.steps] == ["accepted"] * 5
    assert connection.active.qpn == 0x101 and connection.passive.qpn == 0x101
    assert connection.active.ca_guid == 0x505400FFFEAA0001
    assert connection.active.state == connection.passive.state == "TIMEWAIT"
    assert findings == []


def test_timewait_ends_when_the_time_of_the_capture_says_so():
    talk = Conversation()
    talk.active(0, "REQ", primary_local_ack_timeout=19)
    talk.passive(0.01, "REP", target_ack_delay=20)
    talk.active(0.02, "RTU")
    talk.close(1.0)
    (connection,), _ = run(talk, until=3.5)  # active 1.01 + 4.096 s (20 at the least), passive 1.01 + 2.048 s
    assert (connection.active.state, connection.passive.state) == ("TIMEWAIT", "IDLE")
    assert connection.active.timewait.likely == at(1.01) + 4096 * MS
    assert connection.passive.timewait.likely == at(1.01) + 2048 * MS
    (connection,), _ = run(talk, until=5.2)
    assert (connection.active.state, connection.passive.state) == ("IDLE", "IDLE")


def test_repetitions_are_folded_and_marked():
    talk = Conversation()
    req = talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.again(4.3, rep)
    talk.again(6.4, req)
    talk.again(8.6, rep)
    talk.active(8.61, "RTU")
    (connection,), _ = run(talk)
    assert connection.history == "Qp^p^Q^pU"
    assert [step.retransmission_of is None for step in connection.steps] == [True, True, False, False, False, True]
    assert connection.steps[3].retransmission_of is connection.steps[0]
    assert [step.disposition for step in connection.steps] == [
        "accepted", "accepted", "duplicate", "duplicate", "accepted", "accepted",
    ]  # fmt: skip


def test_a_copy_of_a_packet_is_not_a_repetition():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.copy(0.0001, req)
    talk.passive(0.01, "REP")
    (connection,), _ = run(talk)
    assert connection.history == "Qp"
    assert [(s.file, s.frame) for s in connection.steps[0].sightings] == [(0, 2)]


def test_the_same_psn_much_later_is_a_sender_that_does_not_count():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.copy(10.5, req)
    (connection,), _ = run(talk)
    assert connection.history == "Q^Q"


def test_a_copy_in_another_file_may_have_any_clock():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.copy(40.0, req, file=1)
    (connection,), _ = run(talk)
    assert connection.history == "Q"
    assert connection.steps[0].sightings[0].file == 1


def test_the_passive_sides_dreq_has_a_tid_of_its_own():
    talk = Conversation()
    talk.establish()
    dreq, _ = talk.close(1.0, by="passive")
    assert dreq.tid != talk.capture[0].tid
    (connection,), _ = run(talk)
    assert connection.history == "QpUdE"


def test_crossing_dreqs():
    talk = Conversation()
    talk.establish()
    talk.passive(1.0, "DREQ")
    talk.active(1.00005, "DREQ")
    talk.passive(1.01, "DREP")
    talk.active(1.02, "DREP")
    (connection,), _ = run(talk, until=1.05)
    assert connection.outcome == "closed"
    assert connection.history == "QpUdDeE"
    assert {step.disposition for step in connection.steps} == {"accepted"}
    assert connection.closed == at(1.01)


def test_a_rej_without_ids_is_found_by_the_reqs_id():
    talk = Conversation()
    talk.active(0, "REQ")
    rej = talk.passive(0.01, "REJ", reason=8)
    assert rej.fields.local_comm_id == 0
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("rejected", "Qj")
    assert connection.reject.message.fields.reason == 8


def test_a_stateless_rej_that_copies_the_ece_vendor_id_is_found_all_the_same():
    talk = Conversation()
    talk.active(0, "REQ", ece_vendor_id=0x15B3)
    talk.passive(0.01, "REJ", reason=8, local_comm_id=0x15B3)
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("rejected", "Qj")


def test_rej_4_of_the_active_side_is_found_by_its_guid():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    rej = talk.active(0.5, "REJ", reason=4, remote_comm_id=0)
    assert rej.fields.remote_comm_id == 0
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("timed_out", "QpJ")
    assert connection.active.state == "IDLE" and connection.passive.state == "IDLE"


def test_rej_4_of_the_passive_side_is_found_by_its_guid():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(70, "REJ", reason=4, remote_comm_id=0)
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("timed_out", "Qpj")


def test_two_hosts_with_the_same_communication_id():
    a, b, server = Host("10.0.0.1", first_comm_id=7), Host("10.0.0.3", first_comm_id=7), Host("10.0.0.2")
    first = Conversation(a, server)
    second = first.another(b, server)
    first.active(0, "REQ")
    second.active(0.001, "REQ")
    second.passive(0.01, "REP")
    first.passive(0.02, "REJ", reason=8)
    one, two = run(first).connections
    assert (one.history, two.history) == ("Qj", "Qp")
    assert two.active.address == b.address


def test_two_connections_with_the_same_pair_of_ids():
    a, b = Host("10.0.0.1", first_comm_id=5), Host("10.0.0.2", first_comm_id=5)
    c, d = Host("10.0.0.3", first_comm_id=5), Host("10.0.0.4", first_comm_id=5)
    first = Conversation(a, b)
    second = first.another(c, d)
    first.establish(0)
    second.establish(1)
    first.close(2)
    one, two = run(first).connections
    assert (one.history, two.history) == ("QpUDe", "QpU")


def test_equal_ids_on_both_sides_are_told_apart_by_address():
    talk = Conversation(Host("10.0.0.1", first_comm_id=9), Host("10.0.0.2", first_comm_id=9))
    talk.establish()
    talk.close(1.0, by="passive")
    (connection,), _ = run(talk)
    assert connection.history == "QpUdE"


def test_a_capture_that_starts_inside_a_connection():
    talk = Conversation()
    talk.establish()
    talk.close(1.0)
    (connection,), _ = run(talk.capture[3:])
    assert connection.outcome == "partial"
    assert connection.history == "De"
    assert [(s.active_state, s.passive_state) for s in connection.steps] == [
        ("DREQ_SENT", "DREQ_RCVD"), ("TIMEWAIT", "TIMEWAIT"),
    ]  # fmt: skip
    (connection,), _ = run(talk.capture[1:])
    assert (connection.outcome, connection.history) == ("partial", "pUDe")
    assert connection.passive.qpn == 0x101


def test_a_refused_req_that_comes_again_lives_on_in_the_same_connection():
    """The listener appeared: REJ 8, then the same REQ is accepted."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=8)
    talk.again(6.4, req)
    talk.passive(6.41, "REP")
    talk.active(6.42, "RTU")
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("established", "Qj^QpU")
    assert connection.closed is None


def test_a_stale_rep_refused_and_a_new_one_accepted():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP", qpn=0x77)
    talk.active(0.02, "REJ", reason=10)
    talk.again(6.4, req)
    talk.comm_ids["passive"] = 0x4242
    talk.passive(6.41, "REP", qpn=0x78)
    talk.active(6.42, "RTU")
    talk.close(7)
    (connection,), _ = run(talk)
    assert (connection.outcome, connection.history) == ("closed", "QpJ^QpUDe")
    assert (connection.passive.comm_id, connection.passive.qpn) == (0x4242, 0x78)


def test_a_ghost_req_opens_a_connection_of_its_own():
    talk = Conversation()
    req, _, _ = talk.establish()
    talk.close(1.0)
    talk.again(1.5, req)
    one, two = run(talk).connections
    assert (one.history, two.history) == ("QpUDe", "Q")
    assert two.late_duplicate_of is one


def test_data_from_the_active_side_establishes():
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.data(0.02, "active")
    talk.active(0.03, "RTU")
    (connection,), _ = run(talk)
    assert connection.established == at(0.02)
    assert connection.steps[-1].disposition == "accepted"


def test_data_is_watched_only_while_it_can_prove_something():
    talk = Conversation()
    talk.establish()
    tracker = Tracker(lambda event: None)
    for message in talk.capture[:2]:
        tracker.feed(message)
    assert 0x101 in tracker.watched.qpns
    tracker.feed(talk.capture[2])
    assert 0x101 in tracker.watched.qpns
    for sender in ("active", "passive"):
        tracker.feed_data(talk.data(0.1, sender))
    assert 0x101 not in tracker.watched.qpns and not tracker.watched.qpns


def test_sixteen_unanswered_reqs():
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=15)
    talk.repeat(req, 6.4, 15)
    (connection,), _ = run(talk)
    assert connection.outcome == "timed_out"
    assert connection.history == "Q" + "^Q" * 15
    talk.capture.pop()
    (connection,), _ = run(talk)
    assert connection.outcome == "connecting"  # one more may come
    (connection,), _ = run(talk, until=500)
    assert connection.outcome == "timed_out"


def test_a_lost_dreq_of_a_dying_process_leaves_the_connection_half_open():
    talk = Conversation()
    talk.establish()
    talk.active(1.0, "DREQ")
    (connection,), _ = run(talk, until=1.5)
    assert connection.outcome == "closed"  # its timeout is not over
    (connection,), _ = run(talk, until=30)
    assert connection.outcome == "half_open"


def test_a_rej_that_names_no_message_may_stand_before_its_req():
    """The passive side's, which is let go; one with reason 4 is the active side's."""
    talk = Conversation()
    talk.passive(0, "REJ", reason=28, message_rejected=2)
    talk.repeat(talk.active(0.0005, "REQ"), every=6.4, count=3)
    (connection,) = run(talk).connections
    assert (connection.history, connection.outcome) == ("jQ^Q^Q^Q", "rejected")
    talk = Conversation()
    talk.active(0, "REJ", reason=4, message_rejected=2)
    assert run(talk).connections[0].history == "J"


def test_lives_with_the_same_ids_of_which_one_direction_was_captured():
    """An RTU does not follow its sender's DREQ: it belongs to the REQ that came since."""
    active, passive = Host("10.0.0.1"), Host("10.0.0.2")
    capture = Conversation(active, passive).capture
    for number in range(3):
        talk = Conversation(active, passive, capture=capture)
        talk.comm_ids = {"active": 0x1234, "passive": 0x1234}
        req = talk.active(20 * number, "REQ")
        talk.again(20 * number + 4, req)
        talk.active(20 * number + 5, "RTU")
        talk.active(20 * number + 9, "DREQ")
    assert [connection.history for connection in run(capture).connections] == ["Q^QUD"] * 3


def test_a_late_drep_closes_after_all():
    talk = Conversation()
    talk.establish()
    talk.active(1.0, "DREQ")
    talk.passive(13.0, "DREP")
    (connection,), _ = run(talk, until=14)
    assert (connection.outcome, connection.history) == ("closed", "QpUDe")


def test_sidr():
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", status=0)
    refused = talk.another()
    refused.active(1, "SIDR_REQ")
    refused.passive(1.01, "SIDR_REP", status=1)
    silent = talk.another()
    silent.active(2, "SIDR_REQ")
    one, two, three = run(talk, until=1000).connections
    assert (one.outcome, one.history) == ("resolved", "Sr")
    assert (two.outcome, three.outcome) == ("rejected", "timed_out")


def test_a_dreq_with_a_wrong_qpn_changes_nothing():
    talk = Conversation()
    talk.establish()
    talk.active(1.0, "DREQ", qpn=0x999)
    (connection,), _ = run(talk, until=1.1)
    assert connection.steps[-1].disposition == "ignored"
    assert connection.active.state == connection.passive.state == "ESTABLISHED"
    assert connection.outcome == "established"


def test_native_infiniband_is_matched_by_lid():
    talk = Conversation(Host(lid=18, guid=1), Host("10.0.0.2", lid=12, guid=2))
    talk.establish()
    talk.close(1.0)
    (connection,), _ = run(talk)
    assert connection.history == "QpUDe"
    assert connection.active.address.lid == 18


@pytest.mark.parametrize("cut", range(18, 257))
def test_a_req_cut_at_any_byte_is_still_tracked_or_left_alone(cut):
    talk = Conversation()
    talk.active(0, "REQ", cut=cut)
    talk.passive(0.01, "REP")
    talk.active(0.02, "RTU")
    talk.close(1.0)
    connections, _ = run(talk, until=100)
    histories = [connection.history for connection in connections]
    assert histories == (["QpUDe"] if cut >= 28 else ["pUDe"])


@pytest.mark.parametrize("kind", ["REP", "RTU", "REJ", "MRA", "DREQ", "DREP", "LAP", "APR", "SIDR_REP", "SIDR_REQ"])
def test_answers_cut_at_any_byte_never_raise(kind):
    for cut in range(18, 257, 3):
        talk = Conversation()
        talk.active(0, "REQ")
        talk.passive(0.01, "REP")
        talk.active(0.02, "RTU")
        sender = talk.passive if kind in ("REP", "SIDR_REP") else talk.active
        sender(0.5, kind, cut=cut)
        run(talk, until=1000)


def test_connections_are_forgotten_in_time():
    events: list[Event] = []
    tracker = Tracker(events.append)
    talk = Conversation()
    for number in range(50):
        one = talk.another()
        one.establish(number)
        one.close(number + 0.5)
    for message in sorted(talk.capture, key=lambda m: m.time):
        tracker.feed(message)
    assert "ENDED" not in [event.kind for event in events]
    tracker.advance(at(600))
    assert [event.kind for event in events].count("ENDED") == 50
    events.clear()
    tracker.finish()
    assert events == []


def test_a_req_captured_behind_its_own_answer_is_adopted():
    talk = Conversation()
    talk.active(0.0002, "REQ")
    talk.passive(0.0001, "REP")
    talk.active(0.01, "RTU")
    (connection,), findings = run(talk)
    assert (connection.outcome, connection.history) == ("established", "pQU")
    assert connection.active.qpn == 0x101 and connection.service_id == talk.service_id
    assert [step.disposition for step in connection.steps] == ["accepted", "ignored", "accepted"]
    assert findings == []


def test_a_rep_that_a_proxy_sends_on_with_another_id_where_the_req_was_captured_late():
    """The copy becomes a connection of its own, which begins with the REQ that both have in common."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    request = talk.active(0, "REQ")
    reply = talk.passive(0.01, "REP")
    proxied = talk.passive(0.02, "REP", local_comm_id=0x4711)
    talk.capture[:] = [reply, replace(request, time=reply.time + 1000), proxied]
    first, second = run(talk).connections
    assert (first.history, [step.message.type for step in first.steps]) == ("pQ", ["REP", "REQ"])
    assert (second.proxied_copy_of, second.history, second.passive.comm_id) == (first, "Qp", 0x4711)
    assert [step.message.type for step in second.steps] == ["REQ", "REP"]


def test_a_capture_that_begins_between_a_req_and_its_repetition():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.again(6.4, req)
    talk.again(6.41, talk.capture[1])
    talk.active(6.42, "RTU")
    (connection,), findings = run(talk.capture[1:])
    assert (connection.outcome, connection.history) == ("established", "pQ^pU")
    assert connection.request is not None
    assert findings == []


def test_a_rep_missing_from_the_capture_does_not_split_the_connection():
    talk = Conversation()
    talk.establish()
    talk.close(1.0, by="passive")
    del talk.capture[1]
    (connection,), findings = run(talk)
    assert not [finding for finding in findings if finding.severity != "info"]
    assert (connection.outcome, connection.history) == ("closed", "QUdE")
    assert connection.passive.comm_id == talk.comm_ids["passive"]


def test_events_show_the_connection_as_it_was():
    """What lapsed before a message is told before the message is applied."""
    talk = Conversation()
    talk.establish()
    talk.active(1.0, "DREQ")
    talk.passive(100.0, "DREP")
    seen = {}

    def tell(event: Event) -> None:
        seen[event.kind] = event.connection.history

    tracker = Tracker(tell)
    for message in talk.capture:
        tracker.feed(message)
    assert seen["DREQ_LAPSED"] == "QpUD"
    assert seen["DREP"] == "QpUDe"


def test_only_so_many_ended_connections_are_remembered(monkeypatch):
    monkeypatch.setattr(past, "MOST_OVER", 3)
    talk = Conversation()
    for number in range(10):
        one = talk.another()
        one.establish(number / 10)
        one.close(number / 10 + 0.05)
    events: list[Event] = []
    tracker = Tracker(events.append)
    for message in sorted(talk.capture, key=lambda m: m.time):
        tracker.feed(message)
    assert [event.connection.id for event in events if event.kind == "ENDED"] == [1, 2, 3, 4, 5, 6, 7]
    assert tracker.overruns == 7
    events.clear()
    tracker.finish()
    assert [event.connection.id for event in events] == [8, 9, 10]


def test_forgetting_in_time_is_no_overrun():
    talk = Conversation()
    talk.establish()
    talk.close(1)
    events: list[Event] = []
    tracker = Tracker(events.append)
    for message in talk.capture:
        tracker.feed(message)
    events.clear()
    tracker.advance(at(1000))
    assert [event.kind for event in events] == ["ENDED"]
    assert tracker.overruns == 0


def test_a_second_answer_to_a_req_from_before_the_capture_is_of_another_connection():
    talk = Conversation()
    talk.establish()
    talk.close(1.0)
    del talk.capture[:2]  # the REQ and its REP
    talk.comm_ids["passive"] += 1
    for time in (2.0, 6.3):
        talk.passive(time, "REP")
    one, two = run(talk).connections
    assert (one.history, two.history) == ("UDe", "p^p")
    assert "H08" not in run(talk).codes


def test_data_belong_to_the_newest_holder_of_the_qpn():
    old = Conversation()
    old.establish()
    old.passive(8.0, "DREQ")  # lost; the other end keeps its QP, which nobody can know
    new = old.another(passive_qpn=old.qpns["passive"])
    new.establish(90.0)
    new.data(91.0, "active")
    new.data(91.1, "active")
    one, two = run(new).connections
    assert one.last_data == {}
    assert two.outcome == "established"


def test_a_req_that_comes_when_all_is_over_began_another_life():
    """A CM with fixed ids; the REQ of its first life was not captured."""
    old = Conversation()
    old.establish()
    old.close(1.0)
    del old.capture[0]
    new = old.another()
    new.comm_ids["active"] = old.comm_ids["active"]
    new.establish(5.0)
    one, two = run(new).connections
    assert (one.history, two.history) == ("pUDe", "QpU")
    assert "T07" not in run(new).codes


def test_a_req_that_comes_again_with_another_tid_behind_a_rep_that_came_first():
    """Two receive queues; it is the same attempt as in a capture that has all in order."""
    talk = Conversation()
    talk.establish()
    talk.active(0.03, "REQ", tid=5)
    talk.capture[0], talk.capture[1] = talk.capture[1], talk.capture[0]
    assert [each.history for each in run(talk, in_order=False).connections] == ["pQUQ"]


def test_one_id_for_both_ends_and_all_lives():
    """The first DREP, captured before its DREQ, leaves open which end is the active one."""
    old = Conversation()
    old.comm_ids = {"active": 0x1234, "passive": 0x1234}
    old.passive(0, "DREP", tid=1)
    new = old.another()
    new.comm_ids = old.comm_ids
    new.establish(30)
    new.close(40)
    one, two = run(new).connections
    assert (one.history, two.history) == ("E", "QpUDe")


def test_a_ghost_of_a_req_that_stands_behind_its_rep():
    talk = Conversation()
    talk.establish()
    talk.capture[0], talk.capture[1] = talk.capture[1], talk.capture[0]  # two receive queues
    talk.close(1.0)
    talk.comm_ids["passive"] += 1
    talk.passive(7.0, "REP")
    one, two = run(talk, in_order=False).connections
    assert (one.history, two.history) == ("pQUDe", "Qp")
    assert two.late_duplicate_of is one


@pytest.mark.parametrize(("behind", "file"), [(False, 0), (True, 1)])
def test_a_ghost_of_a_req_that_another_input_shows_by_another_clock(behind, file):
    """Its clock is 2 s ahead; where it shows the REQ before the end, the copy that was answered was not captured."""
    talk = Conversation()
    req, *_ = talk.establish()
    drep = talk.close(1.0)[1]
    other = [replace(message, file=1, time=message.time + 2 * SECOND) for message in (req, drep)]
    for frame, message in enumerate(reversed(other) if behind else other, 1):
        message.frame = frame
    if behind:
        other[0].time += 4 * SECOND
    talk.capture += other
    talk.comm_ids["passive"] += 1
    talk.passive(7.0, "REP")
    one, two = run(talk).connections
    assert two.late_duplicate_of is one
    assert two.steps[0].message.file == file


def test_a_clock_that_was_set_forward_ends_nothing():
    """The REP comes 4 ms after its REQ, by the numbers of its sender; the clock says an hour."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(3600, "REP")
    talk.active(3600.01, "RTU")
    talk.close(3601)
    result = run(talk)
    (connection,) = result.connections
    assert connection.history == "QpUDe"
    assert not {"H01", "T07"} & set(result.codes)


def test_a_req_that_is_answered_again_after_a_clock_was_set_forward():
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.again(4.3, req)
    talk.comm_ids["passive"] += 1  # its host has restarted
    talk.passive(3604.31, "REP")
    talk.active(3604.32, "RTU")
    assert "T07" not in run(talk).codes


def test_a_connection_is_forgotten_when_time_is_known_to_have_passed():
    ended = []
    tracker = Tracker(lambda event: ended.append(event) if event.kind == "ENDED" else None)
    talk = Conversation()
    talk.establish()
    talk.close(1.0)
    for message in talk.capture:
        tracker.feed(message)
    tracker.advance(at(3600))
    assert len(ended) == 1
