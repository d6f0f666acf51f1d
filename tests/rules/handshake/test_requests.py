"""H18, H20, H26: REQs that stay unanswered, and REQs that cross."""

from __future__ import annotations

from dataclasses import replace

from conversation import SECOND, Conversation, Host, Records, attempts_of, run

from dissectors.transport import BTH, DETH, LRH
from ibcmtool.analysis import Finding, InputInfo
from ibcmtool.engine.engine import Engine
from ibcmtool.packets import Address, CmMessage, Undelivered, Unreachable
from ibcmtool.values import Duration, Qpn

NVME = 0x0000000001061144
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
    """H18: fewer sends than allowed, but its REJ 4 says that it waited in vain. Told once.

    After two sends only if the capture shows the other direction: else an MRA to the second may be missing.
    """

    def judged(sends: int, shown: str) -> Finding:
        talk = Conversation()
        if shown:
            talk.another(**{"passive" if shown == "to requester" else "active": Host("10.0.0.3")}).establish(-5)
        req = talk.active(0, "REQ")
        talk.repeat(req, every=6.4, count=sends - 1)
        reject = talk.active(6.4 * sends - 2.8, "REJ", reason=4)
        talk.again(6.4 * sends - 2.7, reject)
        finding = run(talk, until=300).only("H18")
        assert finding.frames == ((0, req.frame), (0, reject.frame - 1), (0, reject.frame))
        return finding

    for sends, shown in ((2, "to requester"), (2, "of target"), (3, "")):
        finding = judged(sends, shown)
        assert (finding.severity, finding.confidence) == ("warning", "probable")
        assert f"{sends} of 16 sends of the REQ to 10.0.0.2 unanswered over" in finding.message
        assert "s, then the requester gave up (REJ 4)." in finding.message
    unsure = judged(2, "")
    assert (unsure.severity, unsure.confidence) == ("info", "possible")
    says = "no message of 10.0.0.2, or to 10.0.0.1, was captured; the second REQ may have had an MRA."
    assert unsure.message.endswith(f" Only possible: {says}")


def test_reqs_cut_before_max_cm_retries() -> None:
    """H18: nobody knows that it gave up, unless it has sent the REQ as often as the field can allow."""

    def judged(sends: int) -> Finding:
        talk = Conversation()
        talk.repeat(talk.active(0, "REQ", cut=72), every=6.4, count=sends - 1)
        return run(talk, until=300).only("H18")

    assert (judged(15).severity, judged(16).severity) == ("info", "warning")
    assert judged(15).message.startswith("15 sends of the REQ")


def test_requests_of_the_requester_that_are_missing() -> None:
    """H18: they say nothing of the target; what may be missing behind the last REQ is the RTU to an answer."""

    def judged(missing_before: int) -> Finding:
        talk = Conversation()
        req = talk.active(0, "REQ", max_cm_retries=2)
        for number in (1, 2):
            if number == missing_before:
                talk.hosts["active"].next_psn()
            talk.again(6.4 * number, req)
        if missing_before == 3:
            talk.hosts["active"].next_psn()
        talk.another(passive=Host("10.0.0.3")).active(15, "REQ")
        return run(talk, until=60).of("H18")[0]

    assert [judged(number).severity for number in (0, 1, 2, 3)] == ["warning", "warning", "warning", "info"]


def test_requester_that_changes_its_mind() -> None:
    """H18: it gives up before an answer was overdue: information, as it may have been stopped."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.active(1.5, "REJ", reason=4)
    finding = run(talk, until=300).only("H18")
    assert (finding.severity, finding.frames) == ("info", ((0, 1), (0, 2)))
    assert "unanswered when the requester gave up after 1.5 s (REJ 4), within its first timeout." in finding.message


def test_requester_that_had_an_answer() -> None:
    """H18: it rejects for another reason than a timeout, or at once."""
    for time, reason in ((10, 28), (0.01, 4)):
        talk = Conversation()
        talk.active(0, "REQ")
        talk.active(time, "REJ", reason=reason)
        assert "H18" not in run(talk, until=300).codes


def test_requester_that_waited_as_after_an_mra() -> None:
    """H18: information, as the capture may lack the MRA, unless no further REQ was due."""

    def judged(sends: int, **req: int) -> Finding:
        talk = Conversation()
        talk.repeat(talk.active(0, "REQ", **req), every=6.4, count=sends - 1)
        talk.active(6.4 * sends + 5.2, "REJ", reason=4)
        return run(talk, until=300).of("H18")[-1]

    for sends in (1, 2):
        finding = judged(sends)
        assert (finding.severity, finding.confidence) == ("info", "possible")
        says = "Only possible: the REQ was not sent again in the 11.6 s before the REJ, as after an MRA."
        assert says in finding.message
    assert judged(1, max_cm_retries=0).severity == "warning"


def given_up(waits: tuple[float, ...], service_id: int) -> Conversation:
    """Attempts, a minute apart, that the requester ends by REJ 4 after so many seconds each."""
    first = talk = Conversation(service_id=service_id)
    for number, wait in enumerate(waits):
        talk = first.another(service_id=service_id) if number else first
        talk.active(60 * number, "REQ")
        talk.active(60 * number + wait, "REJ", reason=4)
    return first


def test_limit_of_the_consumer() -> None:
    """H18: an NVMe host waits 3 s whatever its REQ says; another program shows its limit by keeping it twice."""
    nvme = run(given_up((3.01,), NVME)).only("H18")
    assert (nvme.severity, nvme.confidence) == ("warning", "probable")
    assert "gave up after 3.01 s (REJ 4), the host's own limit of 3 s (nvme-rdma before Linux 6.0)." in nvme.message
    assert "before 6.0 it gave up after 3 s already" in nvme.advice
    assert [found.severity for found in run(given_up((2.0,), NVME)).of("H18")] == ["info"]
    mount = run(given_up((5.0, 5.01, 1.0), 0x0000000001064E51)).of("H18")
    assert [found.severity for found in mount] == ["info", "warning", "info"]
    assert "a limit of the program's own, as in its attempt before" in mount[1].message


def test_target_that_is_silent_since_an_earlier_message() -> None:
    """H18: it left a DREQ unanswered before; unless it was heard since."""

    def judged(heard_since: bool, numbered: bool = True) -> str:
        old = Conversation(service_id=NVME)
        old.establish(0)
        old.active(4, "DREQ")
        if heard_since:
            old.another().close(12)
        for start in (14, 27):
            talk = old.another(service_id=NVME)
            talk.active(start, "REQ")
            talk.active(start + 3.01, "REJ", reason=4)
        if not numbered:
            old.capture[:] = [replace(said, psn=None) for said in old.capture if isinstance(said, CmMessage)]
        return run(old, until=60).of("H18")[-1].message

    assert "that address has answered nothing since frame 4, a DREQ 23 s before." in judged(False)
    assert "nothing since" not in judged(True, numbered=False)  # as from a live probe
    assert "that address has answered nothing since frame 7, a REQ 13 s before." in judged(True)


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
        (NVME, '"nvme nvmeN: rdma connection establishment failed (-104)"'),
        (0x0000000001061C06, "RDMA_CM_EVENT_UNREACHABLE with status -110"),
    ):
        talk = Conversation(service_id=service_id)
        talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
        assert says in run(talk, until=60).only("H18").advice
    talk = Conversation(service_id=0x1000000000000048)
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
    assert "RDMA_CM" not in run(talk, until=60).only("H18").advice


def errors(talk: Conversation, reason: Unreachable, reporter: Address, times: tuple[float, ...]) -> list[Undelivered]:
    """ICMP errors about packets of the active side."""
    ends = talk.hosts["active"].address, talk.hosts["passive"].address
    start = talk.capture[0].time
    return [Undelivered(0, 90, start + round(time * SECOND), reporter, *ends, reason) for time in times]


def test_icmp_shows_that_answers_are_captured() -> None:
    """H18: no MRA to the second REQ can be missing."""
    talk = Conversation()
    talk.again(6.4, talk.active(0, "REQ"))
    talk.active(10, "REJ", reason=4)
    reported = errors(talk, "port", Host("10.0.0.2").address, (0.001,))
    assert run([*talk.capture, *reported], until=60).only("H18").severity == "warning"


def test_icmp_beside_unanswered_reqs() -> None:
    """H18: the host is up, a router can't reach it, a firewall says no. What is about other packets is not told."""
    target, router = Host("10.0.0.2").address, Host("10.0.0.254").address
    for reason, reporter, times, says, advice in (
        ("port", target, (0.001, 6.4), "the host is up, nothing takes UDP 4791 there (ICMP port unr", "`rdma link`"),
        ("host", router, (3.0, 9.4), "10.0.0.254 cannot reach that host (ICMP host unreachable, tw", "a MAC address"),
        ("network", router, (0.01,), "10.0.0.254 cannot reach that network (ICMP network unreachable, once", "a route"),
        ("prohibited", router, (0.01,), "10.0.0.254 rejects the packets (ICMP administratively", "Let UDP port 4791"),
    ):
        talk = Conversation()
        talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
        finding = run([*talk.capture, *errors(talk, reason, reporter, times)], until=60).only("H18")
        assert says in finding.message
        assert advice in finding.advice
        assert finding.severity == "warning"
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ", max_cm_retries=1), every=6.4, count=1)
    other = talk.another(passive=Host("10.0.0.3"))
    said = [*talk.capture, *errors(talk, "port", target, (-5,)), *errors(other, "port", target, (1,))]
    assert "ICMP" not in run(said, until=60).only("H18").message


def packed(message: CmMessage, partition: int) -> CmMessage:
    """The message as it stood on an InfiniBand link, in a partition."""
    headers = LRH() / BTH(partition_key=partition) / DETH(source_qp=1)
    return replace(message, link_type=247, headers=bytes(headers))


def test_partition_of_unanswered_reqs() -> None:
    """H18: told where it is not the default one, or not that of the target's own messages. No word of UDP."""

    def judged(asked: int, spoken: int | None) -> Finding:
        other = Conversation(Host("10.0.0.3", lid=3), Host("10.0.0.2", lid=2))
        talk = other if spoken is None else other.another(Host(lid=1))
        said = [] if spoken is None else [packed(message, spoken) for message in other.establish(0)]
        req = talk.active(1, "REQ", max_cm_retries=1)
        said += [packed(message, asked) for message in (req, talk.again(8, req))]
        finding = run(said, until=60).only("H18")
        assert "4791" not in finding.advice + finding.message
        assert "soft RoCE" not in finding.advice
        return finding

    for asked, spoken in ((0xFFFF, None), (0xFFFF, 0xFFFF), (0x8001, 0x0001)):
        assert "P_Key 0x" not in judged(asked, spoken).message
    alone, other = judged(0x8001, None), judged(0x8001, 0xFFFF)
    assert alone.message.endswith(" Their P_Key is 0x8001.")
    assert other.message.endswith(" Their P_Key is 0x8001, the target was heard with 0xffff (frame 2).")
    talk = Conversation(Host("10.0.0.1", lid=1), Host("10.0.0.2", lid=2))
    talk.repeat(talk.active(1, "REQ", max_cm_retries=1, partition_key=0x8001), every=7, count=1)
    for finding in (alone, other, run(talk, until=60).only("H18")):
        assert "look for P_Key 0x8001 in /sys/class/infiniband/DEV/ports/N/pkeys/* of the target" in finding.advice


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


def test_attempt_that_gave_way() -> None:
    """H26: both call; A refuses B's attempt, as its own is under way and comes up."""
    there, back = calls()
    back.passive(0.02, "REJ", reason=28)
    there.passive(0.05, "REP")
    there.active(0.06, "RTU")
    result = run(there)
    finding = result.only("H26")
    assert (finding.severity, finding.confidence, finding.connection, finding.related) == ("info", "probable", 2, (1,))
    assert [frame for _, frame in finding.frames] == [1, 2, 3]
    assert [connection.gave_way() for connection in result.connections] == [False, True]
    assert attempts_of(result.connections) == []


def test_attempt_that_was_refused_for_itself() -> None:
    """H26: the other direction was answered before, is of another service, or failed as well."""
    answered, back = calls(second_at=0.1)
    answered.passive(0.05, "REP")
    answered.active(0.06, "RTU")
    other_service, back_there = calls(service_id=0x0000000001060001)
    other_service.establish(0.05)
    failed, back_again = calls()
    failed.passive(0.5, "REJ", reason=8)
    for there, attempt in ((answered, back), (other_service, back_there), (failed, back_again)):
        attempt.passive(0.2, "REJ", reason=28)
        result = run(there)
        assert "H26" not in result.codes
        assert not any(connection.gave_way() for connection in result.connections)


def test_a_requester_that_waited_had_an_mra() -> None:
    """H18: a pause of 69 s between two REQs says that an MRA came, which the capture does not show."""
    talk = Conversation(Host("10.0.0.1"), Host("10.0.0.2"))
    req = talk.active(0, "REQ", max_cm_retries=2)
    talk.again(4.6, req)
    talk.again(75, req)
    finding = run(talk, until=200).only("H18")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_answers_to_other_reqs_are_missing() -> None:
    """H18: an RTU answers a REP that was not captured, so other answers may be missing; after many REQs, too."""
    other = Conversation(A, B)
    other.active(0, "REQ")
    other.active(0.1, "RTU")
    talk = other.another(Host("10.0.0.3"))
    talk.repeat(talk.active(1, "REQ"), every=6.4, count=15)
    finding = run(other, until=300).only("H18")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert "an RTU to 10.0.0.2 answers a REP that was not captured (frame 2)" in finding.message


def test_second_req_may_have_had_an_mra_as_before() -> None:
    """H18: in another attempt the target asked for time when the REQ came again."""
    other = Conversation(A, B)
    other.again(6.4, other.active(0, "REQ"))
    other.passive(6.41, "MRA", service_timeout=24)
    other.active(10, "REJ", reason=4)
    talk = other.another()
    talk.again(17.4, talk.active(11, "REQ"))
    talk.active(21, "REJ", reason=4)
    finding = run(other, until=300).only("H18")
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.message.endswith("the second REQ may have had an MRA, as in another attempt (frame 3).")


def test_capture_that_ends_with_the_last_req() -> None:
    """H18: a few REQs may have been lost and the last be answered; with so many the target is silent anyhow."""

    def judged(sends: int) -> Finding:
        talk = Conversation()
        talk.repeat(talk.active(0, "REQ", max_cm_retries=sends - 1), every=6.4, count=sends - 1)
        return run(talk).only("H18")

    assert (judged(4).severity, judged(8).severity) == ("info", "warning")
    assert judged(4).message.endswith("the capture ends before the answer to the last REQ was due.")
