"""C05: what one capture saw, and another one on the way never did; who lost it, the network or the capture."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conversation import Conversation, Result, run
from recordings import Recording, judged, of

from ibcmtool.model import Role
from ibcmtool.packets import CmMessage
from ibcmtool.values import InputNumber

HERE: dict[Role, int] = {"active": 0, "passive": 1}  # the input at each end
DELAY = 0.0001


class Ends(Conversation):
    """A conversation that is captured at both ends; `without` names the inputs that lack a message."""

    def say(self, time: float, sender: Role, kind: str, without: tuple[int, ...] = (), **fields: object) -> CmMessage:
        place = HERE[sender]
        say = self.active if sender == "active" else self.passive
        return self._both(time, say(time, kind, file=place, **fields), without)

    def repeated(self, time: float, earlier: CmMessage, without: tuple[int, ...] = ()) -> CmMessage:
        place = 0 if earlier.source == self.hosts["active"].address else 1
        return self._both(time, self.again(time, earlier, file=place), without)

    def _both(self, time: float, message: CmMessage, without: tuple[int, ...]) -> CmMessage:
        copy = self.copy(time + DELAY, message, file=1 - message.file)
        for one in (message, copy):
            if one.file in without:
                self.capture.remove(one)
        return copy if message.file in without else message

    def life(self, time: float) -> None:
        """One from REQ to DREP of which nothing is lost."""
        other = Ends(*self.hosts.values(), capture=self.capture)
        other.say(time, "active", "REQ")
        other.say(time + 0.01, "passive", "REP")
        other.say(time + 0.02, "active", "RTU")
        other.say(time + 1, "active", "DREQ")
        other.say(time + 1.01, "passive", "DREP")


def recorded(talk: Conversation) -> Result:
    return judged(of(talk, (-100, 1000), (-100, 1000)))


def test_requests_that_the_network_lost() -> None:
    """C05"""
    talk = Ends()
    req = talk.say(0, "active", "REQ", without=(1,))
    again = talk.repeated(6.4, req, without=(1,))
    talk.repeated(12.8, req)
    talk.say(12.81, "passive", "REP")
    talk.say(12.82, "active", "RTU")
    finding = recorded(talk).only("C05")
    assert finding.message == (
        "2 of 3 REQs from 10.0.0.1 were seen in a.pcap and never in b.pcap, which saw 3 packets of this pair: lost"
        " between the two."
    )
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert finding.frames == ((0, req.frame), (0, again.frame))
    assert finding.evidence == {
        "lost": 2,
        "not_captured": 0,
        "sent": 4,
        "files": [InputNumber(0), InputNumber(1)],
        "shared_packets": 3,
        "packets_there": 3,
    }
    assert [c.history for c in recorded(talk).connections] == ["Q^Q^QpU"]


def test_each_direction_has_its_own() -> None:
    """C05"""
    talk = Ends()
    talk.say(0, "active", "REQ")
    rep = talk.say(0.01, "passive", "REP", without=(0,))
    talk.repeated(4.3, rep)
    rtu = talk.say(4.31, "active", "RTU", without=(1,))
    talk.repeated(8.6, rep)
    talk.repeated(8.61, rtu)
    talk.say(60, "active", "DREQ")
    drep = talk.say(60.01, "passive", "DREP")
    one, other = sorted(recorded(talk).of("C05"), key=lambda finding: finding.frames)
    assert one.message.startswith("1 of 2 RTUs from 10.0.0.1 was seen in a.pcap and never in b.pcap, which saw 7")
    assert other.message.startswith("1 of 3 REPs from 10.0.0.2 was seen in b.pcap and never in a.pcap, which saw 7")
    assert one.confidence == other.confidence == "probable"  # the REP came again for either
    assert drep.type == "DREP"


def test_nothing_is_missing() -> None:
    """C05"""
    talk = Ends()
    for time in (0, 100, 200):
        talk.life(time)
    assert recorded(talk).codes == ["X05"]


def test_an_answer_shows_that_it_arrived() -> None:
    """C05: the capture lacks the REQ, the wire did not lose it."""
    talk = Ends()
    req = talk.say(0, "active", "REQ", without=(1,))
    talk.say(0.01, "passive", "REP")
    talk.say(0.02, "active", "RTU")
    talk.say(1, "active", "DREQ")
    talk.say(1.01, "passive", "DREP")
    finding = recorded(talk).only("C05")
    assert finding.message == (
        "1 of 1 REQ from 10.0.0.1 was not captured in b.pcap, though it arrived, as its answer shows."
    )
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, req.frame),)
    assert (finding.evidence["lost"], finding.evidence["not_captured"]) == (0, 1)


def test_a_capture_that_lacks_one_may_lack_others() -> None:
    """C05: the second DREQ was answered, so who knows about the first?"""
    talk = Ends()
    talk.say(0, "active", "REQ")
    talk.say(0.01, "passive", "REP")
    talk.say(0.02, "active", "RTU")
    dreq = talk.say(10, "active", "DREQ", without=(1,))
    talk.repeated(16.4, dreq, without=(1,))
    talk.say(16.41, "passive", "DREP")
    finding = recorded(talk).only("C05")
    assert finding.confidence == "possible"
    assert finding.frames == ((0, dreq.frame),)
    assert finding.message == (
        "1 of 2 DREQs from 10.0.0.1 was seen in a.pcap and never in b.pcap, which saw 4 packets of this pair: lost"
        " between the two. 1 of 2 DREQs from 10.0.0.1 was not captured in b.pcap, though it arrived, as its"
        " answer shows. So b.pcap may lack others as well."
    )


def test_an_answer_to_a_send_that_nobody_captured() -> None:
    """C05: both captures began after the first REQ, which may be what the REP answers."""
    talk = Ends()
    talk.say(0, "active", "REQ", without=(1,))
    talk.say(5, "passive", "REP")
    talk.say(5.01, "active", "RTU")
    talk.say(60, "active", "DREQ")
    assert "C05" in judged(of(talk, (-20, 1000), (-20, 1000))).codes
    assert "C05" not in judged(of(talk, (-1, 1000), (-1, 1000))).codes


def test_no_repetition_shows_that_it_was_missed() -> None:
    """C05: a DREP lost or not captured: nothing tells."""
    talk = Ends()
    talk.say(0, "active", "REQ")
    talk.say(0.01, "passive", "REP")
    talk.say(0.02, "active", "RTU")
    talk.say(1, "active", "DREQ")
    talk.say(1.01, "passive", "DREP", without=(0,))
    finding = recorded(talk).only("C05")
    assert finding.confidence == "possible"
    assert finding.message.endswith("lost between the two, or not captured there.")


def test_what_was_seen_farther_on_was_not_lost_before() -> None:
    """C05: the sender's own capture lacks it; times of shared packets tell which one comes first."""
    talk = Ends()
    for time in (0, 10, 20):
        talk.life(time)
    req = talk.say(30, "active", "REQ", without=(0,))
    talk.repeated(36.4, req)
    talk.say(36.41, "passive", "REJ")
    finding = recorded(talk).only("C05")
    assert finding.message == (
        "1 of 2 REQs from 10.0.0.1 was not captured in a.pcap, though it had passed there on its way."
    )
    assert finding.frames == ((1, req.frame),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((-10, 1000), (0.05, 1000)),  # began at that moment
        ((-10, 1000), (12, 1000)),  # began later
        ((-10, 1000), (-1000, -10)),  # over before
    ],
)
def test_another_input_that_was_not_recording(first: tuple[float, float], second: tuple[float, float]) -> None:
    """C05"""
    talk = Ends()
    req = talk.say(0.1, "active", "REQ", without=(1,))
    talk.repeated(12.8, req)
    talk.say(12.81, "passive", "REP")
    talk.say(12.82, "active", "RTU")
    assert "C05" in recorded(talk).codes
    assert "C05" not in judged(of(talk, first, second)).codes


def test_inputs_that_share_next_to_nothing() -> None:
    """C05: who knows whether the other one sees this pair."""
    talk = Ends()
    req = talk.say(0, "active", "REQ", without=(1,))
    talk.repeated(6.4, req)
    talk.say(6.41, "passive", "REP")
    assert "C05" not in recorded(talk).codes
    talk.say(6.42, "active", "RTU")
    assert "C05" in recorded(talk).codes


def test_an_input_that_sees_the_other_direction_only() -> None:
    """C05"""
    talk = Ends()
    talk.say(0, "active", "REQ", without=(1,))
    talk.say(0.01, "passive", "REP")
    talk.say(0.02, "active", "RTU", without=(1,))
    talk.say(1, "passive", "DREQ")
    talk.say(1.01, "active", "DREP", without=(1,))
    later = Ends(*talk.hosts.values(), capture=talk.capture)
    later.say(10, "active", "REQ", without=(1,))
    later.say(10.01, "passive", "REP")
    assert "C05" not in recorded(talk).codes


def test_packets_that_the_snap_length_cut() -> None:
    """C05: a cut message is not known again."""
    talk = Ends()
    talk.life(0)
    req = talk.say(30, "active", "REQ", without=(1,))
    talk.repeated(36.4, req)
    talk.say(36.41, "passive", "REJ")
    first, second = of(talk, (-10, 1000), (-10, 1000))
    assert "C05" in judged([first, second]).codes
    cut = [replace(item, mad=item.mad[:100]) if item.type == "REJ" else item for item in second.items]
    assert "C05" not in judged([first, Recording(cut, second.start, second.end)]).codes


def test_rings_at_both_ends() -> None:
    """C05: files of a ring count as one, and the file is named that should have had the packet."""
    talk = Ends()
    talk.life(0)
    req = talk.say(100, "active", "REQ", without=(1,))
    talk.repeated(106.4, req)
    talk.say(106.41, "passive", "REJ")
    first, second = of(talk, (-10, 1000), (-10, 1000))
    parts = []
    for whole in (first, second):
        for begin, end in ((-10, 50), (50.1, 1000)):
            items = [item for item in whole.items if begin < item.time / 1e9 - 1_700_000_000 <= end]
            parts.append(Recording([replace(item, file=len(parts)) for item in items], begin, end))
    finding = judged(parts).only("C05")
    assert "from 10.0.0.1 was seen in b.pcap and never in d.pcap, which saw 7 packets of this pair" in finding.message


def test_one_input_misses_nothing() -> None:
    """C05: a mirror port that shows some packets twice, and others once."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.copy(0.0001, req)
    talk.again(6.4, req)
    talk.passive(6.41, "REP")
    assert "C05" not in run(talk).codes
