"""H18, H20: REQs that stay unanswered, and REQs that cross."""

from __future__ import annotations

from conversation import SECOND, Conversation, Host, Records, run

from ibcmtool.engine.engine import Engine
from ibcmtool.model import Finding, InputInfo
from ibcmtool.values import Duration, Qpn

A, B = Host("10.0.0.1"), Host("10.0.0.2")


def calls(*, second_at: float = 0.005, service_id: int = 0x0000000001061C06) -> tuple[Conversation, Conversation]:
    """A calls B with QPN 0x11, and B calls A with QPN 0x22."""
    there = Conversation(A, B, active_qpn=0x11)
    there.active(0, "REQ")
    back = there.another(active=B, passive=A, active_qpn=0x22, service_id=service_id)
    back.active(second_at, "REQ")
    return there, back


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
    assert finding.evidence["span"] == Duration(95_899_500_000)


def test_unanswered_by_a_target_that_talks_to_others() -> None:
    """H18: proved by what it sends later with numbers that run on; with a gap its answer may have been missed."""

    def judged(skipped: int) -> Finding:
        other = Conversation(Host("10.0.0.3"), Host("10.0.0.2", psn=100))
        other.establish(0)
        talk = other.another(Host("10.0.0.1"))
        req = talk.active(0.1, "REQ", max_cm_retries=2)
        talk.repeat(req, every=6.3, count=2)
        for _ in range(skipped):
            other.hosts["passive"].next_psn()
        if skipped >= 0:
            other.close(20)
        return run(other, until=60).only("H18")

    assert judged(-1).confidence == "probable"
    assert judged(0).confidence == "certain"
    gone = judged(1)
    assert (gone.severity, gone.confidence) == ("info", "possible")
    assert "Only possible: 1 message of 10.0.0.2 missing between frames 2 and 8, QP1 PSN 100 -> 102." in gone.message


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
    assert finding.advice.startswith("On the target, read /sys/class/infiniband/DEV/ports/N/cm_rx_msgs/req")
    assert "something below the CM drops the REQs" in finding.advice


def test_capture_at_the_requesters_port() -> None:
    """H18: one client, several targets."""
    first = Conversation(Host("10.0.0.1"), Host("10.0.0.3"))
    first.establish(0)
    talk = first.another(passive=Host("10.0.0.2"))
    talk.repeat(talk.active(0, "REQ", max_cm_retries=2), every=6.3, count=2)
    finding = run(first, until=60).only("H18")
    assert "no telling if they arrived" in finding.message
    assert finding.advice.startswith("On the target, read /sys/class/infiniband/DEV/ports/N/cm_rx_msgs/req")
    assert "or capture there too" in finding.advice


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
        (0x0000000001061144, '"nvme nvmeN: rdma connection establishment failed (-104)"'),
        (0x0000000001061C06, "RDMA_CM_EVENT_UNREACHABLE with status -110"),
    ):
        talk = Conversation(service_id=service_id)
        talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
        assert says in run(talk, until=60).only("H18").advice
    talk = Conversation(service_id=0x1000000000000048)
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
    assert "RDMA_CM" not in run(talk, until=60).only("H18").advice


def test_two_calls_that_become_one_connection() -> None:
    """H20"""
    there, _ = calls()
    rep = there.passive(0.05, "REP", qpn=0x22)
    there.active(0.06, "RTU")
    result = run(there)
    finding = result.only("H20")
    assert (finding.severity, finding.confidence) == ("info", "certain")
    assert (finding.connection, finding.related) == (1, (2,))
    assert finding.frames == ((0, 1), (0, 2), (0, rep.frame))
    assert finding.message == (
        "10.0.0.1 and 10.0.0.2 called each other within 5 ms for the same service, and the REP names QPN 0x000022,"
        " which the other REQ had offered: one connection, opened from both ends."
    )
    assert finding.evidence == {"qpn": Qpn(0x22), "gap": Duration(5_000_000)}
    assert {"S01", "S02", "S04", "X01"}.isdisjoint(result.codes)


def test_the_other_end_may_answer() -> None:
    """H20"""
    _, back = calls()
    back.passive(0.05, "REP", qpn=0x11)
    finding = run(back).only("H20")
    assert (finding.connection, finding.related) == (2, (1,))


def test_two_connections_in_opposite_directions() -> None:
    """H20: as IPoIB-CM and meshes have them, each with QPs of its own."""
    there, back = calls()
    for talk in (there, back):
        talk.passive(0.05, "REP")
        talk.active(0.06, "RTU")
    assert "H20" not in run(there).codes


def test_calls_for_two_services() -> None:
    """H20: the QPN is in use twice, but this is no peer-to-peer connection."""
    there, _ = calls(service_id=0x0000000001060001)
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_that_was_over() -> None:
    """H20: refused before; its QP serves the call of the other side now."""
    there, back = calls()
    back.passive(0.02, "REJ", reason=8)
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_that_had_succeeded() -> None:
    """H20: the QPN is connected already; S04 and X01 are about that."""
    there, back = calls()
    back.passive(0.02, "REP")
    back.active(0.03, "RTU")
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_call_to_somebody_else() -> None:
    """H20"""
    there = Conversation(A, B, active_qpn=0x11)
    there.active(0, "REQ")
    there.another(active=B, passive=Host("10.0.0.3"), active_qpn=0x22).active(0.005, "REQ")
    there.passive(0.05, "REP", qpn=0x22)
    assert "H20" not in run(there).codes


def test_a_requester_that_waited_had_an_mra() -> None:
    """H18: a pause of 69 s between two REQs says that an MRA came, which the capture does not show."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.again(4.6, req)
    talk.again(75, req)
    finding = run(talk, until=200).only("H18")
    assert (finding.severity, finding.confidence) == ("info", "possible")
