"""X09, X10, X11: REQs to where the target no longer is, or never listened; and one exchange that looks like two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conversation import FIRST_DAY, SECOND, Conversation, Host, Result, run
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

import dissectors.encapsulation  # noqa: F401  (binds RoCE v1)
from dissectors.fields import gid_bytes
from dissectors.transport import BTH, DETH, GRH
from ibcmtool.formatting import gid
from ibcmtool.packets import Address, CmMessage, Neighbour
from ibcmtool.values import FrameNumber

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
CLIENT, OLD, NEW, ROUTER = (f"52:54:00:aa:00:{number:02x}" for number in (1, 2, 9, 0xFE))
MACS = {A: CLIENT, B: OLD, C: "52:54:00:aa:00:03", "fd00::1": CLIENT, "fd00::2": OLD}
BODY = BTH() / DETH(source_qp=1)


def framed(message: CmMessage, macs: dict[str, str], vlan: int | None = None, hops: int = 64) -> CmMessage:
    """The message as it stood on an Ethernet, between the stations that have these addresses."""
    source, destination = gid(message.source.gid), gid(message.destination.gid)
    link = Ether(src=macs[source], dst=macs[destination])
    link = link if vlan is None else link / Dot1Q(vlan=vlan)
    if message.transport == "RoCE v1":
        network = GRH(sgid=message.source.gid, dgid=message.destination.gid)
    elif ":" in source:
        network = IPv6(src=source, dst=destination, hlim=hops) / UDP(dport=4791)
    else:
        network = IP(src=source, dst=destination, ttl=hops) / UDP(dport=4791)
    return replace(message, link_type=1, headers=bytes(link / network / BODY))


def on_ethernet(talk: Conversation, macs: dict[str, str] = MACS, **options: Any) -> None:
    """Put frames around all that was said since the last time."""
    talk.capture[:] = [
        framed(item, macs, **options) if isinstance(item, CmMessage) and not item.headers else item
        for item in talk.capture
    ]


def announce(talk: Conversation, time: float, mac: str, address: str = B, vlan_ids: tuple[int, ...] = ()) -> Neighbour:
    told = Neighbour(
        0,
        len(talk.capture) + 1,
        FIRST_DAY + round(time * SECOND),
        Address(gid_bytes(address)),
        bytes.fromhex(mac.replace(":", "")),
        vlan_ids,
    )
    talk.capture.append(told)  # type: ignore[arg-type]
    return told


def heard_then_moved(time_of_move: float = 50, new: str = NEW) -> tuple[Conversation, list[CmMessage]]:
    """B closes a connection and moves; a client, which does not know, sends it 16 REQs from second 70 on."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.close(1)
    announce(first, time_of_move, new)
    late = first.another()
    req = late.active(70, "REQ")
    sent = [req, *late.repeat(req, every=6.4, count=15)]
    on_ethernet(first)
    return first, sent


def test_reqs_to_where_the_address_was() -> None:
    """X09: the old MAC address is known from what came from it, the new one from gratuitous ARP."""
    talk, sent = heard_then_moved()
    result = run(talk)
    finding = result.only("X09")
    assert (finding.severity, finding.confidence, finding.connection) == ("warning", "probable", 2)
    assert finding.frames == ((0, sent[0].frame), (0, sent[-1].frame))
    assert finding.message == (
        f"16 REQs to {B} went to MAC {OLD}, but ARP gives {B} to {NEW} since frame 6; all of them were sent after that."
    )
    assert finding.evidence == {
        "sends": 16,
        "sends_after": 16,
        "destination_mac": OLD,
        "announced_mac": NEW,
        "announced_frame": FrameNumber(0, 6),
        "last_known_frame": FrameNumber(0, 2),
    }
    assert "H18" in result.codes


def test_address_that_moves_between_the_reqs() -> None:
    """X09"""
    talk, _ = heard_then_moved(time_of_move=100)
    finding = run(talk).only("X09")
    assert finding.confidence == "probable"
    assert "; 11 of them were sent after that" in finding.message


def test_address_that_moves_after_the_last_req() -> None:
    """X09: possible only; the target may have been down all the time."""
    talk, _ = heard_then_moved(time_of_move=169)
    finding = run(talk, until=170).only("X09")
    assert finding.confidence == "possible"
    assert "that was 3 s after the last of them" in finding.message


def test_dreqs_to_where_the_address_was() -> None:
    """X09: h41's kind, told apart from a target that is only silent."""
    for moves in (True, False):
        talk = Conversation(Host(A), Host(B))
        talk.establish(0)
        if moves:
            announce(talk, 8.9, NEW)
        talk.repeat(talk.active(9, "DREQ"), every=4.6, count=15)
        on_ethernet(talk)
        found = run(talk).of("X09")
        assert [finding.message.split(",")[0] for finding in found] == [f"16 DREQs to {B} went to MAC {OLD}"] * moves


def moved_unheard(hops: int = 64, *, inputs: int = 1) -> Conversation:
    """B has another MAC address, by its own messages; A answers to the old one."""
    talk = Conversation(Host(B), Host(A))
    req = talk.active(10, "REQ", file=inputs - 1)
    talk.again(16.4, req)
    on_ethernet(talk, {**MACS, B: NEW}, hops=hops)
    rep = talk.passive(10.1, "REP")
    talk.again(14.4, rep)
    on_ethernet(talk)
    talk.active(20, "REJ", reason=4)
    on_ethernet(talk, {**MACS, B: NEW}, hops=hops)
    return talk


def test_reps_to_where_the_address_was() -> None:
    """X09: no ARP, and nothing from before the move; the input of the other end may show it."""
    for inputs in (1, 2):
        finding = run(moved_unheard(inputs=inputs)).only("X09")
        assert (finding.severity, finding.confidence) == ("warning", "probable")
        assert finding.message.startswith(
            f"2 REPs to {B} went to MAC {OLD}, but its own CM messages come from {NEW} since frame"
        )


def test_the_clock_of_another_capture_tells_no_order() -> None:
    """X09: it may have been set, and the address have moved after the DREQ."""
    talk = Conversation(Host(A), Host(B))
    talk.establish(0)
    talk.active(9, "DREQ")
    announce(talk, 1, OLD)
    told = announce(talk, 8, NEW)
    on_ethernet(talk)
    talk.capture[talk.capture.index(told)] = replace(told, file=1)  # type: ignore[arg-type,call-overload]
    finding = run(talk, until=200).only("X09")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_a_station_that_has_a_connection_had_the_address_before() -> None:
    """X09: two stations have it, one of which is captured only when it closes."""
    first = Conversation(Host(B), Host(A))
    request = first.active(10, "REQ")
    on_ethernet(first)
    second = first.another()
    second.active(12, "DREQ")
    on_ethernet(first, {**MACS, B: NEW})
    reply = first.passive(10.1, "REP")
    first.again(14.4, reply)
    on_ethernet(first)
    assert request.destination == reply.source
    finding = run(first, until=200).only("X09")
    assert (finding.severity, finding.confidence) == ("info", "possible")


def test_other_messages_to_where_the_address_was() -> None:
    """X09: SIDR_REQs, RTUs after which the REP comes again, a DREQ that was sent once."""
    sidr = Conversation(Host(A), Host(B))
    sidr.repeat(sidr.active(9, "SIDR_REQ"), every=4.6, count=15)
    rtu = Conversation(Host(A), Host(B))
    _, rep, confirmed = rtu.establish(9)
    for again in range(1, 16):
        rtu.again(9 + 4.3 * again, rep)
        rtu.again(9.01 + 4.3 * again, confirmed)
    dreq = Conversation(Host(A), Host(B))
    dreq.establish(0)
    dreq.active(9, "DREQ")
    for talk, said in ((sidr, "16 SIDR_REQs"), (rtu, "16 RTUs"), (dreq, "1 DREQ")):
        announce(talk, 1, OLD)
        announce(talk, 8, NEW)
        on_ethernet(talk)
        if talk is rtu:  # B has moved, and its REPs come from there
            talk.capture[:] = [
                framed(item, {**MACS, B: NEW}) if isinstance(item, CmMessage) and item.type == "REP" else item
                for item in talk.capture
            ]
        finding = run(talk, until=200).only("X09")
        assert finding.message.startswith(f"{said} to {B} went to MAC {OLD}, but")


def test_reps_to_a_router() -> None:
    """X09: what comes from B has met a router, so its MAC address says nothing of B."""
    assert "X09" not in run(moved_unheard(hops=63)).codes


def test_requester_that_gives_up() -> None:
    """X09: with a REJ 4, after two REQs."""
    first = Conversation(Host(A), Host(B))
    announce(first, 0, OLD)
    announce(first, 50, NEW)
    talk = first.another()
    req = talk.active(70, "REQ")
    talk.again(76.4, req)
    talk.active(80, "REJ", reason=4)
    on_ethernet(first)
    assert run(first).only("X09").evidence["sends"] == 2


def test_ipv6_address_that_moved() -> None:
    """X09"""
    talk = Conversation(Host("fd00::1"), Host("fd00::2"))
    announce(talk, 0, OLD, "fd00::2")
    announce(talk, 50, NEW, "fd00::2")
    talk.repeat(talk.active(70, "REQ"), every=6.4, count=3)
    on_ethernet(talk)
    assert f"neighbour discovery gives fd00::2 to {NEW}" in run(talk, until=300).only("X09").message


def test_address_that_did_not_move() -> None:
    """X09: silence has another reason."""
    talk, _ = heard_then_moved(new=OLD)
    assert "X09" not in run(talk).codes


def test_reqs_to_the_new_address() -> None:
    """X09: the requester knows, and is not answered either."""
    first = Conversation(Host(A), Host(B))
    announce(first, 0, OLD)
    announce(first, 50, NEW)
    talk = first.another()
    talk.repeat(talk.active(70, "REQ"), every=6.4, count=15)
    on_ethernet(first, {**MACS, B: NEW})
    assert "X09" not in run(first).codes


def test_answered_reqs() -> None:
    """X09: whatever ARP says, somebody is there."""
    first = Conversation(Host(A), Host(B))
    announce(first, 0, OLD)
    announce(first, 50, NEW)
    talk = first.another()
    req = talk.active(70, "REQ")
    talk.again(76.4, req)
    talk.passive(76.5, "REJ", reason=8)
    on_ethernet(first)
    assert "X09" not in run(first).codes


def test_router_on_the_way() -> None:
    """X09: what comes from B was sent on by a router, as its hop limit shows; that is no MAC address of B's."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.close(1)
    on_ethernet(first, {**MACS, B: ROUTER}, hops=63)
    announce(first, 50, NEW)  # in its own subnet, which the capture shows as well
    late = first.another()
    late.repeat(late.active(70, "REQ"), every=6.4, count=15)
    on_ethernet(first, {**MACS, B: ROUTER})
    assert run(first).codes == ["H18"]


def test_mac_address_that_the_target_never_had() -> None:
    """X09: a router's, of which nothing more is known."""
    talk = Conversation(Host(A), Host(B))
    announce(talk, 0, NEW)
    talk.repeat(talk.active(70, "REQ"), every=6.4, count=15)
    on_ethernet(talk, {**MACS, B: ROUTER})
    assert "X09" not in run(talk).codes


def test_target_that_was_not_heard_since() -> None:
    """X09: nothing of it was captured since the sends went elsewhere: their sender may know better where it is."""
    first = Conversation(Host(A), Host(B))
    first.establish(0)
    first.close(1)
    on_ethernet(first, {**MACS, B: OLD})
    talk = first.another()
    talk.repeat(talk.active(70, "REQ"), every=6.4, count=15)
    on_ethernet(first, {**MACS, B: NEW})
    assert run(first, until=200).only("X09").severity == "info"


def test_reps_to_one_of_two_hosts_with_one_address() -> None:
    """X09: its REQ, which would show that it is there, was not captured."""
    talk = moved_unheard()
    shown = talk.another()
    shown.establish(1)
    on_ethernet(talk, {**MACS, B: NEW})
    del talk.capture[:2]
    assert run(talk).only("X09").severity == "info"


def test_two_ports_that_answer_for_one_address() -> None:
    """X09: both within a moment, or by turns."""
    for times in ((0, OLD), (0.0002, NEW)), ((0, OLD), (20, NEW), (40, OLD), (60, NEW)):
        talk = Conversation(Host(A), Host(B))
        for time, mac in times:
            announce(talk, time, mac)
        talk.repeat(talk.active(70, "REQ"), every=6.4, count=15)
        on_ethernet(talk)
        assert "X09" not in run(talk).codes


def test_old_station_that_still_speaks() -> None:
    """X09: the announcement was false."""
    talk, _ = heard_then_moved()
    other = talk.another(active=Host(C))
    other.establish(80)
    on_ethernet(talk)
    assert "X09" not in run(talk).codes


def test_same_address_in_another_vlan() -> None:
    """X09"""
    talk = Conversation(Host(A), Host(B))
    announce(talk, 0, OLD, vlan_ids=(7,))
    announce(talk, 50, NEW, vlan_ids=(8,))
    talk.repeat(talk.active(70, "REQ"), every=6.4, count=15)
    on_ethernet(talk, vlan=7)
    assert "X09" not in run(talk).codes
    announce(talk, 60, NEW, vlan_ids=(7,))
    assert run(talk).only("X09").evidence["announced_mac"] == NEW


def test_req_that_was_captured_twice() -> None:
    """X09: it may have been sent on; and the second capture shows that it came further."""
    talk, sent = heard_then_moved()
    talk.copy(70.0001, next(item for item in talk.capture if item.frame == sent[0].frame))
    assert "X09" not in run(talk).codes


def test_capture_without_headers() -> None:
    """X09"""
    talk, _ = heard_then_moved()
    talk.capture[:] = [replace(item, headers=b"") if isinstance(item, CmMessage) else item for item in talk.capture]
    assert "X09" not in run(talk).codes


# -- X10 ---------------------------------------------------------------------------------------------------------------


def version(address: str, transport: str, **options: Any) -> Host:
    host = Host(address, **options)
    host.transport = transport
    return host


def asked_in(asked: str, heard: str, *, target: str = B, heard_as: str = B) -> tuple[Conversation, CmMessage]:
    """The target speaks one version of RoCE with C; A asks it in another one and is not answered."""
    first = Conversation(version(C, heard), version(heard_as, heard))
    first.establish(0)
    talk = first.another(active=version(A, asked), passive=version(target, asked))
    req = talk.active(5, "REQ")
    talk.repeat(req, every=6.4, count=15)
    return first, req


def test_roce_v1_req_to_a_roce_v2_peer() -> None:
    """X10: the GID is the same in both versions, the IPv4-mapped one."""
    talk, req = asked_in("RoCE v1", "RoCE v2")
    on_ethernet(talk)
    finding = run(talk).only("X10")
    assert (finding.severity, finding.confidence, finding.connection) == ("warning", "probable", 2)
    assert finding.message == (
        f"16 REQs to {B} went out as RoCE v1, but that host was heard with RoCE v2 only, first in frame 2."
    )
    assert finding.frames == ((0, req.frame), (0, req.frame + 15))


def test_roce_v2_req_to_a_roce_v1_peer() -> None:
    """X10"""
    talk, _ = asked_in("RoCE v2", "RoCE v1")
    assert run(talk).only("X10").evidence["heard_version"] == "RoCE v1"


def test_peer_known_by_its_mac_address() -> None:
    """X10: a link-local GID is made of it."""
    link_local = "fe80::5054:ff:feaa:2"
    talk, _ = asked_in("RoCE v1", "RoCE v2", target=link_local)
    on_ethernet(talk, {**MACS, link_local: "33:33:00:00:00:01"})
    finding = run(talk).only("X10")
    assert f"was heard as {B} with RoCE v2 only" in finding.message
    assert finding.evidence["heard_gid"] == B


def test_peer_known_by_the_mac_address_that_the_req_goes_to() -> None:
    """X10"""
    talk, _ = asked_in("RoCE v1", "RoCE v2", target="fe80::77")
    on_ethernet(talk, {**MACS, "fe80::77": OLD})
    assert run(talk).only("X10").evidence["heard_gid"] == B


def test_peer_that_speaks_both_versions() -> None:
    """X10"""
    talk, _ = asked_in("RoCE v1", "RoCE v2")
    ids = {"first_comm_id": 0x51000000}
    old_style = talk.another(active=version(C, "RoCE v1", **ids), passive=version(B, "RoCE v1", **ids))
    old_style.establish(20)
    on_ethernet(talk)
    assert "X10" not in run(talk).codes


def test_peer_that_was_never_heard() -> None:
    """X10"""
    talk, _ = asked_in("RoCE v1", "RoCE v2", target="10.0.0.4")
    assert run(talk).codes == ["H18"]


def test_peer_that_answers_in_the_end() -> None:
    """X10: it takes both versions."""
    talk = Conversation(Host(C), Host(B))
    talk.establish(0)
    late = talk.another(active=version(A, "RoCE v1"), passive=version(B, "RoCE v1"))
    req = late.active(5, "REQ")
    late.again(11.4, req)
    late.passive(11.5, "REP")
    late.active(11.6, "RTU")
    assert "X10" not in run(talk).codes


# -- X11 ---------------------------------------------------------------------------------------------------------------


def behind_a_proxy(
    ahead: float = 0.0, *, file: int = 0, passive_id: int | None = None, **req: Any
) -> tuple[Conversation, Result]:
    """An exchange in a VM, and on the wire with other ids, by a clock that is some seconds ahead."""
    gap = 0.00004  # between VM and wire
    inside = Conversation(Host(A, psn=500), Host(B, psn=900), active_qpn=0x11, passive_qpn=0x22)
    wire = inside.another(active_qpn=0x11, passive_qpn=0x22)
    wire.comm_ids["passive"] = inside.comm_ids["passive"] if passive_id is None else passive_id
    wire.comm_ids["active"] = 0x00000007
    tid = inside.hosts["active"].own_tid(inside.comm_ids["active"])
    upper = tid | 3 << 56  # the virtual function's number
    inside.active(0, "REQ", tid=tid)
    wire.active(ahead + gap, "REQ", **{"tid": upper, "file": file, **req})
    wire.passive(ahead + 0.01, "REP", tid=upper, file=file)
    inside.passive(0.01 + gap, "REP", tid=tid)
    inside.active(0.02, "RTU", tid=tid)
    wire.active(ahead + 0.02 + gap, "RTU", tid=upper, file=file)
    inside.active(3, "DREQ", tid=tid)
    wire.active(ahead + 3 + gap, "DREQ", tid=upper, file=file)
    wire.passive(ahead + 3.01, "DREP", tid=upper, file=file)
    inside.passive(3.01 + gap, "DREP", tid=tid)
    return inside, run(inside, until=10)


def test_exchange_on_both_sides_of_a_proxy() -> None:
    """X11: told once, and no other rule accuses."""
    talk, result = behind_a_proxy()
    finding = result.only("X11")
    assert result.codes == ["X11"]
    assert (finding.severity, finding.confidence) == ("info", "probable")
    assert (finding.connection, finding.related) == (2, (1,))
    assert finding.frames == ((0, talk.capture[0].frame), (0, talk.capture[1].frame))
    assert "Connection 2 is connection 1 as seen on the other side of a proxy" in finding.message
    assert "the same REQ 40 us later, but for Communication ID 0x00000007 instead of 0x01f7a001" in finding.message
    assert [connection.outcome for connection in result.connections] == ["closed", "closed"]


def test_proxy_before_both_ends() -> None:
    """X11: the ids of both ends are others, and the captures come from two inputs whose clocks differ."""
    for ahead in (-0.03, -0.00005, 0, 0.03):
        assert behind_a_proxy(ahead, file=1, passive_id=0x00000009)[1].codes == ["X11"]


def test_proxy_before_the_passive_end() -> None:
    """X11: the REQ is the same on both sides, and perhaps in another packet; the REP tells them apart."""
    for psn in (500, 77):
        wire = Conversation(Host(A, psn=500), Host(B, psn=900), active_qpn=0x11, passive_qpn=0x22)
        inside = wire.another(passive=Host(B, psn=20), active_qpn=0x11, passive_qpn=0x22)
        inside.comm_ids = {"active": wire.comm_ids["active"], "passive": 0x00000077}
        req = wire.active(0, "REQ")
        wire.copy(0.00004, req, file=1, psn=psn)
        reply = inside.passive(0.01, "REP", tid=req.tid, file=1)
        other = wire.passive(0.01004, "REP", tid=req.tid)
        for time, kind in ((0.02, "RTU"), (3, "DREQ")):
            wire.active(time, kind, tid=req.tid)
            inside.active(time + 0.00004, kind, tid=req.tid, file=1)
        inside.passive(3.01, "DREP", tid=req.tid, file=1)
        wire.passive(3.01004, "DREP", tid=req.tid)
        result = run(wire, until=10)
        assert set(result.codes) - {"X05"} == {"X11"}
        finding = result.only("X11")
        assert finding.frames == ((1, reply.frame), (0, other.frame))
        assert "the same REP 40 us later, but for Communication ID 0x01f7a002 instead of 0x00000077" in finding.message
        assert [connection.history.removeprefix("Q^") for connection in result.connections] == ["QpUDe", "QpUDe"]


def test_second_rep_with_another_id() -> None:
    """X11: to a REQ that was taken as new, another QP answers."""
    talk = Conversation()
    talk.active(0, "REQ")
    talk.passive(0.01, "REP")
    talk.passive(0.02, "REP", local_comm_id=0x77, local_qpn=0x333)
    assert "X11" not in run(talk).codes


def test_qpn_of_twins_reused_in_timewait() -> None:
    """X11: T01 tells it once, of one of the two."""
    talk, _ = behind_a_proxy()
    again = talk.another(active_qpn=0x11)
    again.establish(3.05)
    assert run(talk, until=60).only("T01").related == (1,)


def test_second_attempt_with_the_same_qpn() -> None:
    """X11: a CM gives it another TransactionID; a rebooted host draws another starting PSN."""
    for other in ({"tid": 0x0000000200000123}, {"starting_psn": 0x777777}, {"private_data": b"other"}):
        assert "X11" not in behind_a_proxy(**other)[1].codes
    assert "X11" not in behind_a_proxy(ahead=0.5)[1].codes
