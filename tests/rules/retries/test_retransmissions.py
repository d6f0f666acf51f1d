"""R01-R03, R08: how often, how soon, and whether unchanged."""

from __future__ import annotations

import pytest
from conversation import Conversation, Host, Records, run

from ibcmtool.analysis import InputInfo
from ibcmtool.engine.engine import Engine
from ibcmtool.values import Duration


@pytest.mark.parametrize("kind", ["REQ", "REP", "DREQ"])
def test_one_send_too_many(kind: str) -> None:
    """R01"""
    talk = Conversation()
    message = talk.active(0, "REQ", max_cm_retries=2)
    if kind != "REQ":
        message = talk.passive(0.01, "REP")
    if kind == "DREQ":
        talk.active(0.02, "RTU")
        message = talk.active(1, "DREQ")
    sends = talk.repeat(message, every=6.4, count=4)
    finding = run(talk).only("R01")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, message.frame), (0, sends[2].frame))  # the first send over the limit
    assert f"{kind} sent 4 times over 19.2 s" in finding.message
    assert finding.evidence["allowed"] == 3


def test_dreqs_of_two_lives() -> None:
    """R01: a CM that gives each connection the same ids repeats the DREQ of the next one."""
    talk = Conversation()
    talk.establish(0, max_cm_retries=2)
    dreq, _ = talk.close(1)
    later = talk.another(active_qpn=0x99)
    later.comm_ids["active"] = talk.comm_ids["active"]
    later.establish(4, tid=12345)
    talk.repeat(dreq, every=6.4, count=3)
    assert run(talk).only("R01").severity == "info"


def test_every_send_that_is_allowed() -> None:
    """R01"""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.repeat(req, every=6.4, count=2)
    assert "R01" not in run(talk).codes


def test_copies_are_no_sends() -> None:
    """R01: each packet is captured twice."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=2)
    for number, message in enumerate([req, *talk.repeat(req, every=6.4, count=2)]):
        talk.copy(number * 6.4 + 0.0001, message)
    assert run(talk).codes == ["H18", "X05"]


def test_illumos_answers_a_repeated_req_with_its_rep() -> None:
    """R01: and counts anew."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.again(6.4, req)
    talk.again(6.41, rep)
    finding = run(talk).only("R01")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.evidence["since_repeated_req"] == 1


@pytest.mark.parametrize("kind", ["REQ", "REP", "DREQ"])
def test_again_before_the_answer_was_due(kind: str) -> None:
    """R02"""
    talk = Conversation()
    message = talk.active(0, "REQ", remote_cm_response_timeout=20, local_cm_response_timeout=20)
    if kind != "REQ":
        message = talk.passive(0.01, "REP")
    if kind == "DREQ":
        talk.active(0.02, "RTU")
        message = talk.active(1, "DREQ")
    first, _ = talk.repeat(message, every=3.5, count=2)
    finding = run(talk).only("R02")  # told once, though the third send is early as well
    assert finding.frames == ((0, message.frame), (0, first.frame))
    assert "after 3.5 s" in finding.message
    assert "4.1 s" in finding.message
    assert finding.evidence["gap"] == Duration(3_500_000_000)
    assert (finding.severity, finding.confidence) == ("info", "possible")  # the first may have been held up


def test_again_when_linux_does() -> None:
    """R02: 4.096 s are 4.6 % less than the nominal time, and timers tick early."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.repeat(req, every=4.09, count=3)
    assert "R02" not in run(talk).codes


def test_dreq_faster_than_the_ack_delay() -> None:
    """R02: too fast even for illumos."""
    talk = Conversation()
    talk.establish()
    dreq = talk.active(1, "DREQ")
    talk.again(1.05, dreq)
    finding = run(talk).only("R02")
    assert (finding.severity, finding.confidence) == ("info", "possible")  # the first may have been held up


def test_each_side_has_its_own_timeout() -> None:
    """R02: the passive side may repeat after 1 s, the active side asked for 4 s."""
    talk = Conversation()
    talk.active(0, "REQ", remote_cm_response_timeout=20, local_cm_response_timeout=18)
    rep = talk.passive(0.01, "REP")
    talk.again(1.04, rep)
    talk.active(1.05, "RTU")
    assert run(talk).codes == []


def test_rep_at_once_for_a_repeated_req() -> None:
    """R02: illumos answers a duplicate REQ with its REP."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    rep = talk.passive(4.0, "REP")
    talk.again(5.0, req)
    talk.again(5.001, rep)
    assert "R02" not in run(talk).codes


def test_req_again_although_an_mra_asked_for_time() -> None:
    """R03"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    mra = talk.passive(0.5, "MRA", service_timeout=24)
    again = talk.again(6.4, req)
    finding = run(talk).only("R03")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.frames == ((0, mra.frame), (0, again.frame))
    assert "5.9 s after an MRA that asked for 68.7 s" in finding.message


def test_req_again_although_eight_mras_asked_for_time() -> None:
    """R03: seven may be lost, eight are ignored, if the capture has all of them."""
    early = Conversation()
    early.establish(0)
    talk = early.another()
    req = talk.active(100, "REQ")
    mra = talk.passive(100.5, "MRA", service_timeout=24)
    for number in range(1, 9):
        talk.again(100 + 6.4 * number, req)
        talk.again(100 + 6.4 * number + 0.1, mra)
    *lost, ignored = run(early).of("R03")
    assert {finding.severity for finding in lost} == {"info"}
    assert (ignored.severity, ignored.confidence) == ("warning", "probable")
    assert ignored.evidence["mras"] == 8


def test_eight_mras_in_an_input_that_began_with_them() -> None:
    """R03: the longer wait that an MRA made may lie before it, whatever another input showed meanwhile."""
    early = Conversation()
    early.establish(0)
    talk = early.another(Host("10.0.0.3"), Host("10.0.0.4"))
    req = talk.active(100, "REQ", file=1)
    mra = talk.passive(100.5, "MRA", service_timeout=24, file=1)
    for number in range(1, 9):
        talk.again(100 + 6.4 * number, req)
        talk.again(100 + 6.4 * number + 0.1, mra)
    records = Records()
    engine = Engine([InputInfo("early.pcap"), InputInfo("late.pcap")], records)
    engine.begins(0, early.capture[0].time)
    engine.begins(1, req.time)
    for message in early.capture:
        engine.take(message)
    assert {finding.severity for finding in records.result().of("R03")} == {"info"}


def test_req_again_although_the_mra_arrived() -> None:
    """R03: captured at both ends, so it was not lost."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    mra = talk.passive(0.5, "MRA", service_timeout=24, file=1)
    talk.copy(0.501, mra, file=0)
    talk.again(6.4, req)
    assert "it was captured on its way twice" in run(talk).only("R03").message


def test_rep_again_although_an_mra_asked_for_time() -> None:
    """R03"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "MRA", service_timeout=22)
    talk.again(4.3, rep)
    assert run(talk).only("R03").evidence["service_timeout"] == 22


def test_mra_that_crosses_the_retransmission() -> None:
    """R03"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(6.39, "MRA", service_timeout=24)
    talk.again(6.4, req)
    assert "R03" not in run(talk).codes


def test_req_again_after_the_time_asked_for() -> None:
    """R03: MRA of 17.2 s honoured; the second gap is not bound by it (newer kernels apply it once)."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.5, "MRA", service_timeout=22)
    talk.again(17.0, req)
    talk.again(23.4, req)
    assert "R03" not in run(talk).codes


def test_retransmission_with_other_contents() -> None:
    """R08"""
    talk = Conversation()
    req = talk.active(0, "REQ", path_mtu=3)
    changed = talk.active(6.4, "REQ", path_mtu=4)
    finding = run(talk).only("R08")
    assert (finding.severity, finding.confidence) == ("error", "probable")
    assert finding.frames == ((0, req.frame), (0, changed.frame))
    assert "other contents: path_mtu" in finding.message
    assert finding.evidence["changed"] == {"path_mtu": [3, 4]}


def test_changed_rep() -> None:
    """R08: private data in hex, so that JSON can hold it."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP", private_data=b"\1")
    talk.passive(4.3, "REP", private_data=b"\2")
    changed = run(talk).only("R08").evidence["changed"]
    assert changed["private_data"][1].startswith("02")


def test_bit_error_is_no_change() -> None:
    """R08"""
    talk = Conversation()
    talk.active(0, "REQ", starting_psn=1)
    talk.active(6.4, "REQ", starting_psn=3, icrc_ok=False)
    assert "R08" not in run(talk).codes


def test_new_life_with_the_same_ids() -> None:
    """R08: accuses nobody, whether the close of the old one was captured or not."""
    for captured in (True, False):
        talk = Conversation()
        talk.establish(0)
        talk.close(1)
        new = talk.another()
        new.comm_ids.update(talk.comm_ids)
        new.establish(5)
        messages = talk.capture if captured else [one for one in talk.capture if one.type not in ("DREQ", "DREP")]
        assert {finding.severity for finding in run(messages).findings} <= {"info"}


def test_rtus_of_two_lives() -> None:
    """R08: in two inputs whose clocks are apart, of a CM with fixed ids; one that confirms another REP is H04's."""
    for changes in ({"remote_comm_id": 0x99}, {"private_data": b"\1"}):
        talk = Conversation()
        talk.active(0, "REQ", tid=7, local_qpn=0x99)
        talk.active(0.01, "RTU", tid=7, **changes)
        talk.active(0.02, "REQ", tid=7, local_qpn=0x9A, file=1)
        talk.passive(0.03, "REP", tid=7, file=1)
        talk.active(0.04, "RTU", tid=7, file=1)
        found = run(talk).of("R08")
        assert {finding.severity for finding in found} == {"info"}
        assert any(finding.message.startswith("RTU") for finding in found) == ("private_data" in changes)


def test_cut_retransmission() -> None:
    """R08: the part that was captured is the same."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(6.4, "REQ", cut=100)
    assert "R08" not in run(talk).codes


def test_messages_that_may_differ() -> None:
    """R08: MRAs with other times, DREPs with other private data, and a DREQ that corrects its QPN (T05)."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.1, "MRA", service_timeout=22)
    talk.again(17, req)
    talk.passive(17.1, "MRA", service_timeout=23)
    talk.passive(18, "REP")
    talk.active(18.1, "RTU")
    talk.active(20, "DREQ", qpn=0x7777)
    dreq = talk.active(26.4, "DREQ")
    talk.passive(26.5, "DREP", private_data=b"\1")
    talk.again(33, dreq)
    talk.passive(33.1, "DREP", private_data=b"\2")
    assert "R08" not in run(talk).codes


def test_passive_sides_repeat_is_held_against_its_own_field() -> None:
    """R02"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.again(1, rep)
    assert "the Local CM Response Timeout" in run(talk).only("R02").message


def test_sends_of_two_captures() -> None:
    """R02: two clocks stamped them."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(2, req, file=1)
    assert run(talk).only("R02").confidence == "possible"


def test_connection_that_began_earlier() -> None:
    """R01, R02: nobody knows its timers and retries."""
    talk = Conversation()
    dreq = talk.active(0, "DREQ")
    talk.repeat(dreq, every=0.5, count=20)
    result = run(talk)
    assert "R01" not in result.codes
    assert "R02" not in result.codes


def test_req_again_after_an_mra_that_was_heeded_once() -> None:
    """R03: some apply an MRA to one wait only; later MRAs that arrive change nothing, and nobody ignores them."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(4.6, req)
    mra = talk.passive(4.61, "MRA", service_timeout=24)
    talk.again(74, req)
    talk.copy(74.01, talk.again(74.01, mra), file=1)
    talk.again(79, req)
    assert {finding.severity for finding in run(talk).of("R03")} == {"info"}
