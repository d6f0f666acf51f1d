"""Did an unanswered REQ reach its target? Input 0 is captured at the requester, 1 at the target."""

from __future__ import annotations

from conversation import FIRST_DAY, SECOND, Conversation, Host, run

from ibcmtool.analysis import InputInfo
from ibcmtool.views.capture_points import CapturePoints
from ibcmtool.views.tally import is_unanswered

WAY = 0.0001  # s


def inputs(*spans):
    return [InputInfo(str(at), first_time=_ns(first), last_time=_ns(last)) for at, (first, last) in enumerate(spans)]


def _ns(time):
    return FIRST_DAY + int(time * SECOND)


def life(talk, at=0.0, *, clock=0.0):
    """A connection seen at both ends; the clock of input 1 may be wrong."""
    for sender, kind, time in (("active", "REQ", 0), ("passive", "REP", 0.01), ("active", "RTU", 0.02)):
        sent_at, seen_at = (0, 1) if sender == "active" else (1, 0)
        offsets = {0: 0.0, 1: clock}
        message = getattr(talk, sender)(at + time + offsets[sent_at], kind, file=sent_at)
        talk.copy(at + time + WAY + offsets[seen_at], message, file=seen_at)


def arrivals(talk, infos):
    places = CapturePoints()
    for connection in run(talk, until=400).connections:
        places.note(connection)
        if is_unanswered(connection):
            places.note_unanswered(0, connection)
    return {name: number for name, number in places.arrivals(infos).get(0, {}).items() if number}


def test_seen_at_both_ends():
    talk = Conversation()
    req = talk.active(0, "REQ", file=0)
    talk.copy(WAY, req, file=1)
    assert arrivals(talk, inputs((0, 400), (0, 400))) == {"seen": 1}


def test_seen_at_the_target_only():
    """The requester of this one has no capture; a neighbour's shows which input is the target's."""
    talk = Conversation()
    life(talk)
    talk.another(Host("10.0.0.3")).active(1, "REQ", file=1)
    assert arrivals(talk, inputs((0, 400), (0, 400))) == {"seen": 1}


def test_never_seen_at_the_target():
    talk = Conversation()
    life(talk)
    lost = talk.another(Host("10.0.0.3"))
    lost.repeat(lost.active(1, "REQ", file=0), every=6.4, count=3)
    assert arrivals(talk, inputs((0, 400), (0, 400))) == {"never seen": 1}


def test_the_target_was_not_being_captured_any_more():
    talk = Conversation()
    life(talk)
    lost = talk.another(Host("10.0.0.3"))
    lost.repeat(lost.active(1, "REQ", file=0), every=6.4, count=3)
    assert arrivals(talk, inputs((0, 400), (0, 15))) == {"unknown": 1}


def test_a_ring_of_files_has_no_two_ends():
    talk = Conversation()
    req = talk.active(0, "REQ", file=0)
    talk.again(6.4, req, file=1)
    assert arrivals(talk, inputs((0, 5), (5, 400))) == {"unknown": 1}


def test_a_wrong_clock_turns_nothing_round():
    """Input 1 is 1 ms behind: by the times alone, all that the requester sent was at the target first."""
    talk = Conversation()
    life(talk, clock=-0.001)
    talk.another(Host("10.0.0.3")).active(1, "REQ", file=0)
    assert arrivals(talk, inputs((0, 400), (0, 400))) == {"unknown": 1}


def test_a_packet_twice_in_one_input_says_nothing():
    talk = Conversation()
    req = talk.active(0, "REQ", file=0)
    talk.copy(WAY, req, file=0)
    assert arrivals(talk, inputs((0, 400), (0, 400))) == {"unknown": 1}
