"""Reports 1 to 7 and 10: connections that one side has lost, and QPNs that come back."""

from __future__ import annotations

from . import services
from .containers import erf_pcap, pcap, pcapng
from .wire import OFED_GAP, REP_GAP, REQ_GAP, Station, Story, Talk


def power_loss() -> bytes:
    """The host comes back on its second port, so the target's DREQs go to an address where nobody is."""
    story = Story("01")
    target = Station("10.10.0.1", 0xB8599F0300C3D401, psn=48211)
    first_port = Station("10.10.0.11", 0xB8599F0300A1B211, psn=730)
    lost = story.talk(first_port, target, services.nvme(0), port=47563, active_qpn=0x11, passive_qpn=0x128)
    lost.establish(0)
    for time in range(5, 41, 5):
        lost.command(time)  # then the lights go out
    second_port = Station("10.10.0.12", first_port.guid, mac="b8:59:9f:a1:b2:12", first_comm_id=0x71B8496A)
    dreq = None
    for attempt in range(7):  # nvme-rdma reconnects 10 s after a failure
        start = 103 + 10.8 * attempt
        refused = story.talk(second_port, target, services.nvme(0), port=40513 + 2 * attempt, active_qpn=0x11)
        refused.active(start, "REQ")
        refused.passive(start + 0.0009, "REJ", reason=10)
        if dreq is None:
            dreq = lost.passive(start + 0.0012, "DREQ")
    assert dreq is not None
    lost.repeat(dreq, REP_GAP, 15)
    back = story.talk(second_port, target, services.nvme(0), port=40527, active_qpn=0x11, passive_qpn=0x12B)
    back.establish(103 + 10.8 * 7)
    back.command(181.2)
    return pcap(story.in_order())


def retry_loop() -> bytes:
    """The target's first DREQ is lost, so it holds the old connection until the second one is answered."""
    story = Story("02")
    server = Station("fd00:20::1", 0xB8599F0300C3D402, vlan=120, psn=9120)
    client = Station("fd00:20::15", 0xB8599F0300A1B215, vlan=120, psn=388)
    lost = story.talk(client, server, services.tcp(7471), port=53170, active_qpn=0x48, passive_qpn=0x91)
    lost.establish(0)
    lost.command(0.4)
    dreq = None
    for attempt in range(5):
        start = 12 + 0.2 * attempt
        refused = story.talk(client, server, services.tcp(7471), port=53172 + attempt, active_qpn=0x48)
        refused.active(start, "REQ")
        refused.passive(start + 0.0006, "REJ", reason=10)
        if dreq is None:
            dreq = lost.passive(start + 0.0008, "DREQ")
    assert dreq is not None
    lost.repeat(dreq, REP_GAP, 1)
    lost.active(12 + REP_GAP + 0.02, "DREP")
    late = story.talk(client, server, services.tcp(7471), port=53180, active_qpn=0x48, passive_qpn=0x92)
    late.establish(40)
    late.command(40.3)
    return pcap(story.in_order())


def mesh() -> bytes:
    """Nodes A to D; C is reset and comes back. D had noticed, A and B had not; then D starts its own mesh anew."""
    story = Story("03")
    service = services.mesh(0x1A2)
    nodes = {
        name: Station(f"fe80::b859:9f03:a1:{lid:x}", 0xB8599F0300A10000 | lid, lid=lid, psn=100 * lid)
        for name, lid in (("A", 0x11), ("B", 0x12), ("C", 0x13), ("D", 0x14))
    }
    pairs: dict[str, Talk] = {}
    for number, (active, passive) in enumerate(("AB", "AC", "AD", "BC", "BD", "CD")):
        qpns = {"active_qpn": 0x40 + "ABCD".index(passive), "passive_qpn": 0x40 + "ABCD".index(active)}
        pair = pairs[active + passive] = story.talk(nodes[active], nodes[passive], service, **qpns)
        pair.establish(0.05 * number)
        pair.command(1 + 0.05 * number)
    # C is reset at 300 s. D sends to it, gets no answer, and gives the connection up.
    dreq = pairs["CD"].passive(312, "DREQ")
    pairs["CD"].repeat(dreq, REP_GAP, 15)
    c = nodes["C"].rebooted()
    for time, peer in ((420.0, "A"), (420.002, "B")):
        refused = story.talk(c, nodes[peer], service, active_qpn=0x40 + "ABCD".index(peer))
        refused.active(time, "REQ")
        refused.passive(time + 0.0004, "REJ", reason=10)
        pairs[peer + "C"].active(time + 0.0006, "DREQ")
        pairs[peer + "C"].passive(time + 0.0009, "DREP")
    again = story.talk(c, nodes["D"], service, active_qpn=0x44, passive_qpn=0x48)
    again.establish(420.004)
    for time, peer in ((420.06, "A"), (420.0604, "B")):
        pairs[peer + "D"].passive(time, "DREQ")
        pairs[peer + "D"].active(time + 0.0002, "DREP")
    again.command(421)
    return erf_pcap(story.in_order())


def stale_rep() -> bytes:
    """The server was rebooted; its first QP has the QPN that the client still holds connected."""
    story = Story("04")
    client = Station("10.20.0.5", 0xB8599F0300A1B205, psn=2044)
    server = Station("10.20.0.9", 0xB8599F0300C3D409, psn=51877)
    lost = story.talk(client, server, services.tcp(7471), port=39911, active_qpn=0x118, passive_qpn=0x2A)
    lost.establish(0)
    lost.command(2)
    up_again = server.rebooted()
    new = story.talk(client, up_again, services.tcp(7471), port=39977, active_qpn=0x11C, passive_qpn=0x2A)
    req = new.active(200, "REQ")
    new.passive(200.0013, "REP")
    new.active(200.0016, "REJ", reason=10, message_rejected=1)
    lost.active(200.0018, "DREQ")
    lost.hosts["passive"] = up_again
    lost.passive(200.0022, "DREP")
    new.again(200 + REQ_GAP, req)
    new.comm_ids["passive"], new.qpns["passive"] = up_again.next_comm_id(), 0x2B
    new.passive(200 + REQ_GAP + 0.0011, "REP")
    new.active(200 + REQ_GAP + 0.0015, "RTU")
    new.command(207)
    return pcap(story.in_order())


def no_dreq() -> bytes:
    """A server with a kernel of 2014: it refuses the stale REQ, and keeps the old connection for ever."""
    story = Story("05")
    client = Station("10.30.0.21", 0xB8599F0300A1B221, psn=1500)
    server = Station("10.30.0.3", 0xB8599F0300C3D403, psn=77003)
    lost = story.talk(client, server, services.NFS, port=871, active_qpn=0x5C, passive_qpn=0x201)
    lost.establish(0)
    lost.command(1)
    rebooted = client.rebooted()
    for attempt in range(3):
        start = 95 + 15 * attempt
        refused = story.talk(rebooted, server, services.NFS, port=880 + attempt, active_qpn=0x5C)
        refused.active(start, "REQ")
        refused.passive(start + 0.0007, "REJ", reason=10)
    # Another client shows that the capture goes on.
    other = Station("10.30.0.22", 0xB8599F0300A1B222)
    mount = story.talk(other, server, services.NFS, port=902)
    mount.establish(138)
    mount.close(141)
    return pcapng(story.in_order())


def new_qpn() -> bytes:
    """The client is killed, its only DREQ is lost; it comes back with another QPN and is let in."""
    story = Story("06")
    client = Station("10.30.0.7", 0xB8599F0300A1B207, psn=10)
    server = Station("10.30.0.2", 0xB8599F0300C3D402, psn=4242)
    lost = story.talk(client, server, services.tcp(7471), port=44120, active_qpn=0x1D3, passive_qpn=0x310)
    lost.establish(0)
    lost.command(12)
    lost.active(21, "DREQ")
    new = story.talk(client, server, services.tcp(7471), port=44188, active_qpn=0x1D7, passive_qpn=0x311)
    new.establish(45)
    new.command(45.2)
    new.command(120)
    return pcap(story.in_order())


def unanswered_dreqs() -> bytes:
    """MLNX OFED's timers: the host repeats its DREQ for four and a half minutes before it connects again."""
    story = Story("07")
    timers = {"remote_cm_response_timeout": 22, "local_cm_response_timeout": 22}
    host = Station("10.40.0.31", 0xB8599F0300A1B231, psn=602, packet_life=16)
    target = Station("10.40.0.4", 0xB8599F0300C3D404, psn=20011)
    old = story.talk(host, target, services.nvme(0), port=51144, active_qpn=0x1A9, passive_qpn=0x77)
    old.establish(0, **timers)
    old.command(5)
    dreq = old.active(60, "DREQ")  # the target lost power; the host's error recovery closes its queue
    last = old.repeat(dreq, OFED_GAP, 15)[-1]
    given_up = (last.time - dreq.time) / 1e9 + 60 + OFED_GAP
    new = story.talk(host, target.rebooted(), services.nvme(0), port=51198, active_qpn=0x1AD, passive_qpn=0x41)
    new.establish(given_up + 0.15, **timers)
    new.command(given_up + 0.4)
    return pcap(story.in_order())


def reused_at_once() -> bytes:
    """IPoIB connected mode: the active side's starting PSN is always 0; the QPN comes back 60 ms after the close."""
    story = Story("10")
    service = services.ipoib(0x48, 0x52)
    sender = Station("fe80::b859:9f03:a1:61", 0xB8599F0300A10061, lid=0x61, psn=310)
    receiver = Station("fe80::b859:9f03:a1:62", 0xB8599F0300A10062, lid=0x62, psn=815)
    fields = {"starting_psn": 0, "responder_resources": 4, "initiator_depth": 0, "retry_count": 0, "rnr_retry_count": 0}
    for start, passive_qpn in ((0.0, 0x9B0), (30.07, 0x9B3)):
        talk = story.talk(sender, receiver, service, active_qpn=0xA12, passive_qpn=passive_qpn)
        talk.establish(start, **fields)
        talk.command(start + 0.5)
        if not start:
            talk.close(30)
    return erf_pcap(story.in_order())
