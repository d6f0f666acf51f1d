"""Reports 8, 11, 13, 14, 15, 16 and 19: messages that are repeated, and why nobody answers."""

from __future__ import annotations

from . import services
from .containers import gzipped, pcap
from .wire import REP_GAP, REQ_GAP, Station, Story, Talk

MRA_GAP = 67.6  # service timeout 24 as Linux counts it, 65.5 s, and a Local ACK Timeout of 19


def moved_address() -> bytes:
    """The target's address moves to another machine; the client's neighbour entry keeps the old MAC."""
    story = Story("08")
    client = Station("10.50.0.8", 0xB8599F0300A1B208, psn=44)
    target = Station("10.50.0.1", 0xB8599F0300C3D401, psn=160)
    story.arp(0, client, target)
    story.arp(0.0002, target, client, reply_to=client)
    before = story.talk(client, target, services.nvme(0), port=46021, active_qpn=0x21, passive_qpn=0xD0)
    before.establish(0.001)
    before.command(0.2)
    before.close(50)
    stand_in = Station("10.50.0.1", 0xB8599F0300C3D499, mac="b8:59:9f:c3:d4:99")
    story.arp(61, stand_in, stand_in)  # gratuitous, to all
    client.arp_cache[target.gid] = target.mac
    late = story.talk(client, stand_in, services.nvme(0), port=46090, active_qpn=0x25)
    late.repeat(late.active(70, "REQ"), REQ_GAP, 15)
    story.arp(172, client, stand_in)
    story.arp(172.0002, stand_in, client, reply_to=client)
    del client.arp_cache[target.gid]
    found = story.talk(client, stand_in, services.nvme(0), port=46120, active_qpn=0x29, passive_qpn=0x12)
    found.establish(173)
    found.command(173.2)
    return pcap(story.in_order())


def gave_up() -> bytes:
    """The server hangs. Two clients with the same Communication ID give up before their retries are used up."""
    story = Story("11")
    server = Station("10.60.0.2", 0xB8599F0300C3D402, psn=811)
    early = Station("10.60.0.10", 0xB8599F0300A1B210)
    story.talk(early, server, services.tcp(18515), port=35001).establish(0)
    one, two = (
        Station(f"10.60.0.{number}", 0xB8599F0300A1B200 | number, first_comm_id=0x5AA11223, psn=number)
        for number in (0x11, 0x12)
    )
    for client, start, repeats, end in ((one, 4.0, 2, 19.2), (two, 7.0, 1, 17.0)):
        attempt = story.talk(client, server, services.tcp(18515), port=35010)
        attempt.repeat(attempt.active(start, "REQ"), REQ_GAP, repeats)
        attempt.active(end, "REJ", reason=4)
    return pcap(story.in_order())


def storm() -> bytes:
    """1,000 clients after a server's restart; each gives up after 10 s. Of 60 no REQ ever comes here, only the REJ."""
    story = Story("13")
    server = Station("10.70.0.1", 0xB8599F0300C3D401, psn=5)
    for number in range(1000):
        client = Station(
            f"10.70.{1 + number // 250}.{1 + number % 250}",
            0xB8599F0300B00000 | number,
            psn=number % 7,
            first_comm_id=0x01020000 | number,
        )
        talk = story.talk(client, server, services.tcp(987), port=1023 - number % 500, active_qpn=0x60 + number % 5)
        start = 0.002 * number
        if number % 17 == 3 and number < 1020:  # 59 of them
            client.next_psn()
            talk.active(start + 10, "REJ", reason=4)
        elif number % 8 == 0:
            talk.establish(start)
        else:
            talk.repeat(talk.active(start, "REQ"), REQ_GAP, 1)
            talk.active(start + 10, "REJ", reason=4)
    return gzipped(pcap(story.in_order()))


def mra() -> bytes:
    """A slow accept with MRAs, after which the REQ comes at growing gaps; and an MRA whose consumer then refuses."""
    story = Story("14")
    server = Station("10.80.0.2", 0xB8599F0300C3D402, psn=12)
    slow_client = Station("10.80.0.21", 0xB8599F0300A1B221, psn=3)
    slow = story.talk(slow_client, server, services.tcp(7471), port=40001, active_qpn=0x31, passive_qpn=0x77)
    req = slow.active(0, "REQ")
    slow.again(REQ_GAP, req)
    asked = slow.passive(REQ_GAP + 0.0003, "MRA")
    slow.again(REQ_GAP + MRA_GAP, req)
    slow.again(REQ_GAP + MRA_GAP + 0.0003, asked)
    slow.passive(80, "REP")
    slow.active(80.0004, "RTU")
    slow.command(80.01)
    refused_client = Station("10.80.0.22", 0xB8599F0300A1B222, psn=9)
    refused = story.talk(refused_client, server, services.tcp(7471), port=40002, active_qpn=0x32)
    req = refused.active(2, "REQ")
    refused.again(2 + REQ_GAP, req)
    refused.passive(2 + REQ_GAP + 0.0003, "MRA")
    # The consumer takes it from its backlog at last, and refuses.
    refused.passive(40, "REJ", reason=28, local_comm_id=refused.comm_ids["passive"])
    slow.close(90)
    return pcap(story.in_order())


def dying() -> bytes:
    """The process is killed; its kernel sends one DREQ. The peer's consumer takes 12 s to let go."""
    story = Story("15")
    client = Station("10.90.0.9", 0xB8599F0300A1B209, psn=70)
    server = Station("10.90.0.2", 0xB8599F0300C3D402, psn=71)
    talk = story.talk(client, server, services.tcp(7471), port=40404, active_qpn=0x88, passive_qpn=0x90)
    talk.establish(0)
    talk.command(3)
    talk.active(10, "DREQ")
    talk.passive(22, "DREP")
    return pcap(story.in_order())


def wrong_message() -> bytes:
    """A REJ that says "other" instead of "REQ", with an id of its sender's own: Linux then looks up both ids.

    The requester knows no id of its peer yet, finds no attempt that the REJ can mean, and goes on.
    """
    story = Story("16")
    client = Station("10.100.0.9", 0xB8599F0300A1B209, psn=33)
    server = Station("10.100.0.2", 0xB8599F0300C3D402, psn=34)
    talk = story.talk(client, server, services.tcp(7471), port=40600, active_qpn=0x91)
    req = talk.active(0, "REQ")
    sent = [req, *talk.repeat(req, REQ_GAP, 15)]
    for message in sent:
        after = (message.time - req.time) / 1e9
        talk.passive(after + 0.0005, "REJ", reason=28, message_rejected=2, local_comm_id=talk.comm_ids["passive"])
    return pcap(story.in_order())


def bad_icrc() -> bytes:
    """A bad cable: a REQ and then a REP arrive with one bit turned over, and are dropped by the receiver's port."""
    story = Story("19")
    client = Station("10.110.0.9", 0xB8599F0300A1B209, psn=5)
    server = Station("10.110.0.2", 0xB8599F0300C3D402, psn=6)
    talk = story.talk(client, server, services.nvme(0), port=40700, active_qpn=0x61, passive_qpn=0x6A)
    req = talk.damaged(0, "active", "REQ", flip=-100)
    talk.again(REQ_GAP, req)
    rep = talk.damaged(REQ_GAP + 0.0009, "passive", "REP", flip=-2)
    talk.again(REQ_GAP + 0.0009 + REP_GAP, rep)
    talk.active(REQ_GAP + 0.0014 + REP_GAP, "RTU")
    talk.command(11)
    talk.close(30)
    return pcap(story.in_order())


def attempt(talk: Talk, time: float, **reject: int) -> None:
    """A REQ that is refused at once."""
    talk.active(time, "REQ")
    talk.passive(time + 0.0004, "REJ", **reject)
