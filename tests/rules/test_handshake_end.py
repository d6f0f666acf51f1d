"""H05, H08, H18: handshakes that are not completed, and messages after the end."""

from __future__ import annotations

from conversation import SECOND, Conversation, Host, Records, run

from ibcmtool.engine.engine import Engine
from ibcmtool.model import InputInfo

WAIT = 4.294967296  # nominal time of response timeout 20


def test_rep_repeated_to_exhaustion() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=3)
    rep = talk.passive(0.01, "REP")
    last = talk.repeat(rep, every=4.3, count=3)[-1]
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.frames == ((0, rep.frame), (0, last.frame))
    assert "4 of 4 sends of the REP over 12.9 s" in finding.message
    assert "captured" in finding.message
    assert finding.evidence["requests_repeated"] == 0


def test_repeated_req_shows_that_the_rep_does_not_arrive() -> None:
    """H05"""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.again(6.3, req)
    finding = run(talk, until=60).only("H05")
    assert finding.evidence["requests_repeated"] == 1
    assert "did not get through" in finding.message


def test_last_rep_is_confirmed() -> None:
    """H05: the RTU comes after the last REP allowed."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.again(4.31, rep)
    talk.active(4.32, "RTU")
    assert "H05" not in run(talk, until=60).codes


def test_dreq_without_an_rtu() -> None:
    """H05: worth knowing, nothing more."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    dreq, _ = talk.close(2)
    finding = run(talk, until=60).only("H05")
    assert finding.severity == "info"
    assert finding.frames == ((0, rep.frame), (0, dreq.frame))


def test_rtu_captured_after_the_dreq() -> None:
    """H05: the capture has them out of order."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "DREQ")
    talk.active(0.021, "RTU")
    talk.passive(0.03, "DREP")
    assert "H05" not in run(talk, until=60).codes


def test_capture_ends_after_the_rep() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    assert run(talk).codes == []


def test_rtu_long_after_the_close() -> None:
    """H08"""
    talk = Conversation()
    _, _, rtu = talk.establish(0)
    _, drep = talk.close(1)
    late = talk.again(10, rtu)
    finding = run(talk).only("H08")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, drep.frame), (0, late.frame))
    assert "8.99 s after the DREP" in finding.message


def test_rtu_just_after_the_close() -> None:
    """H08: crossing."""
    talk = Conversation()
    _, _, rtu = talk.establish(0)
    talk.close(1)
    talk.again(1.5, rtu)
    assert "H08" not in run(talk).codes


def test_rep_repeated_after_the_active_side_rejected_it() -> None:
    """H08: the REJ was lost; told once."""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)
    talk.repeat(rep, every=4.3, count=3)
    result = run(talk)
    finding = result.only("H08")
    assert finding.severity == "info"
    assert "the REJ probably did not arrive" in finding.message
    assert "H02" not in result.codes


def test_mra_long_after_the_rej_of_its_side() -> None:
    """H08: the REJ was lost and the REQ came again; the capture has that REQ a moment later."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    mra = talk.passive(0.01, "MRA")
    talk.passive(20, "REJ")
    talk.again(70, mra)
    talk.again(70.01, req)
    assert "H08" not in run(talk).codes


def test_new_attempt_with_the_same_id_after_a_rej() -> None:
    """H08: a repeated REQ begins anew."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=8)
    talk.again(10, req)
    talk.passive(10.01, "REP")
    talk.active(10.02, "RTU")
    assert "H08" not in run(talk).codes


def test_every_req_unanswered() -> None:
    """H18"""
    talk = Conversation()
    req = talk.active(0, "REQ")
    last = talk.repeat(req, every=6.3933, count=15)[-1]
    finding = run(talk).only("H18")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, req.frame), (0, last.frame))
    assert "16 of 16 sends" in finding.message
    assert "95.9 s" in finding.message
    assert "no CM message of that address was ever captured" in finding.message
    assert finding.evidence["span_ns"] == 95_899_500_000


def test_unanswered_by_a_target_that_talks_to_others() -> None:
    """H18: then its direction is in the capture for certain."""
    other = Conversation(Host("10.0.0.3"), Host("10.0.0.2"))
    other.establish(0)
    talk = other.another(Host("10.0.0.1"))
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.repeat(req, every=6.3, count=2)
    assert run(other, until=60).only("H18").confidence == "certain"


def test_copies_are_not_counted_as_sends() -> None:
    """H18"""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    talk.copy(0.0001, req)
    talk.again(6.3, req)
    assert run(talk, until=60).only("H18").evidence["sends"] == 2


def test_one_req_more_to_come() -> None:
    """H18: 15 of 16 sends, and the capture ends."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.repeat(req, every=6.4, count=14)
    assert run(talk).codes == []


def test_mra_is_an_answer() -> None:
    """H18: R06 says what an MRA without more is."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    talk.again(6.3, req)
    talk.passive(6.31, "MRA", service_timeout=20)
    assert "H18" not in run(talk, until=200).codes


def test_data_without_an_rtu() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    rep = talk.passive(0.01, "REP")
    data = talk.data(0.5, "active")
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert finding.frames == ((0, rep.frame),)
    assert f"frame {data.frame}" in finding.message


def test_rep_that_was_not_repeated() -> None:
    """H05: the capture missed its RTU; that the passive side does not repeat tells that it arrived."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    finding = run(talk, until=60).only("H05")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "not repeated in the 60 s that followed" in finding.message


def test_rejected_rep_needs_no_rtu() -> None:
    """H05"""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.active(0.02, "REJ", reason=28)
    assert run(talk, until=60).codes == []


def test_connection_that_began_earlier() -> None:
    """H05: one direction may be missing."""
    talk = Conversation()
    rep = talk.passive(0, "REP")
    talk.repeat(rep, every=4.3, count=15)
    assert "H05" not in run(talk, until=200).codes


def test_mra_after_the_rep() -> None:
    """H05: what the active side promised is R06."""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=1)
    rep = talk.passive(0.01, "REP")
    talk.active(0.02, "MRA", service_timeout=18)
    talk.again(4.31, rep)
    result = run(talk, until=60)
    assert "H05" not in result.codes
    assert "R06" in result.codes


def test_rep_after_the_passive_sides_own_rej() -> None:
    """H08: H02 tells it, once."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REJ", reason=28)
    talk.passive(20, "REP")
    result = run(talk)
    assert "H08" not in result.codes
    assert len(result.of("H02")) == 1


def test_requester_that_fell_silent() -> None:
    """H18: fewer sends than allowed, and nothing more."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.repeat(req, every=6.4, count=4)
    finding = run(talk, until=300).only("H18")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "5 of 16 sends" in finding.message
    assert "fell silent" in finding.message


def test_single_req_without_an_answer() -> None:
    """H18: it was not even repeated; more likely its answer is missing from the capture."""
    talk = Conversation()
    talk.active(0, "REQ")
    assert run(talk, until=300).codes == []


def test_only_req_that_is_allowed() -> None:
    """H18"""
    talk = Conversation()
    talk.active(0, "REQ", max_cm_retries=0)
    assert run(talk, until=300).only("H18").severity == "warning"


def test_requester_that_rejects_after_a_timeout() -> None:
    """H18: fewer sends than allowed, but its REJ 4 says that it waited in vain. Told once."""
    talk = Conversation()
    req = talk.active(0, "REQ")
    talk.again(6.4, req)
    reject = talk.active(10, "REJ", reason=4)
    talk.again(10.1, reject)
    finding = run(talk, until=300).only("H18")
    assert (finding.severity, finding.confidence) == ("warning", "probable")
    assert finding.frames == ((0, req.frame), (0, 2), (0, reject.frame))
    assert "2 of 16 sends of the REQ to 10.0.0.2 unanswered over 6.4 s, then the requester gave up (REJ 4)." in (
        finding.message
    )


def test_requester_that_changes_its_mind() -> None:
    """H18: it rejects before an answer was due (a consumer that is stopped), or for another reason."""
    for time, reason in ((3, 4), (10, 28)):
        talk = Conversation()
        req = talk.active(0, "REQ")
        talk.again(2.9, req)
        talk.active(time, "REJ", reason=reason)
        assert "H18" not in run(talk, until=300).codes


def test_capture_at_the_targets_port() -> None:
    """H18: several clients, one target; the REQs arrived."""
    first = Conversation(Host("10.0.0.3"), Host("10.0.0.2"))
    first.establish(0)
    talk = first.another(Host("10.0.0.1"))
    talk.repeat(talk.active(0, "REQ", max_cm_retries=2), every=6.3, count=2)
    finding = run(first, until=60).only("H18")
    assert "Captured at the target's port, it seems" in finding.message
    assert finding.advice.startswith("Look at the target")


def test_capture_at_the_requesters_port() -> None:
    """H18: one client, several targets."""
    first = Conversation(Host("10.0.0.1"), Host("10.0.0.3"))
    first.establish(0)
    talk = first.another(passive=Host("10.0.0.2"))
    talk.repeat(talk.active(0, "REQ", max_cm_retries=2), every=6.3, count=2)
    finding = run(first, until=60).only("H18")
    assert "no telling if they arrived" in finding.message
    assert finding.advice.startswith("Capture at the target too")


def test_capture_somewhere_between() -> None:
    """H18: it shows other pairs as well, or this one alone."""
    first = Conversation(Host("10.0.0.3"), Host("10.0.0.4"))
    for talk in (first.another(Host("10.0.0.1"), Host("10.0.0.2")), Conversation()):
        talk.repeat(talk.active(0, "REQ", max_cm_retries=2), every=6.3, count=2)
        if talk.capture is first.capture:
            first.establish(0)
        assert "The capture saw them at its capture point; no" in run(talk, until=60).only("H18").message


def test_reqs_in_two_inputs() -> None:
    """H18: the network carried them."""
    talk = Conversation()
    req = talk.active(0, "REQ", max_cm_retries=1)
    talk.copy(0.0001, req, file=1)
    talk.again(6.3, req)
    message = run(talk, until=60).only("H18").message
    assert "The network carried 1 of them to a second capture point; no" in message


def test_reqs_that_the_other_input_does_not_have() -> None:
    """H18: it shows the same two hosts, before and after."""
    talk = Conversation()
    for message in talk.establish(0):
        talk.copy((message.time - talk.capture[0].time) / SECOND + 0.0001, message, file=1)
    late = talk.another()
    late.repeat(late.active(5, "REQ", max_cm_retries=2), every=6.3, count=2)
    end = talk.capture[0].time + 60 * SECOND
    records = Records()
    engine = Engine([InputInfo("client.pcap"), InputInfo("server.pcap")], records)
    for file in (0, 1):
        engine.begins(file, talk.capture[0].time)
    for message in sorted(talk.capture, key=lambda message: message.time):
        engine.take(message)
    for file in (0, 1):
        engine.ends(file, end)
    engine.advance(end)
    found = records.result().only("H18")
    assert "Input 2 shows these two hosts and was being captured meanwhile, but not the REQs; other" in found.message
    assert found.advice.startswith("Look for drops between the two capture points")


def test_what_the_requester_sees() -> None:
    """H18: the advice names the kernel's log line, or the event that an RDMA CM consumer gets."""
    for service_id, says in (
        (0x0000000001061144, '"rdma connection establishment failed (-104)"'),
        (0x0000000001061C06, "RDMA_CM_EVENT_UNREACHABLE with status -110"),
    ):
        talk = Conversation(service_id=service_id)
        talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
        assert says in run(talk, until=60).only("H18").advice
    talk = Conversation(service_id=0x1000000000000048)
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
    assert "RDMA_CM" not in run(talk, until=60).only("H18").advice
