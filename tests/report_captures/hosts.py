"""Reports 9, 12, 17 and 18: what shows only when several connections are seen together."""

from __future__ import annotations

from dissectors.private_data import NVMe_REJ

from . import services
from .containers import erf_pcap, pcap
from .wire import LATENCY, REQ_GAP, Station, Story


def one_qpn() -> bytes:
    """A dynamically connected transport: one QPN towards eight peers at once, as it is meant to be."""
    story = Story("09")
    node = Station("fe80::b859:9f03:a1:31", 0xB8599F0300A10031, lid=0x31, psn=900)
    talks = []
    for number in range(8):
        lid = 0x40 + number
        peer = Station(f"fe80::b859:9f03:a1:{lid:x}", 0xB8599F0300A10000 | lid, lid=lid, psn=number)
        talk = story.talk(node, peer, services.mesh(0x77), active_qpn=0x1C4, passive_qpn=0x200 + number)
        talk.establish(0.05 * number)
        talks.append(talk)
    for number, talk in enumerate(talks):
        talk.close(20 + 0.01 * number)
    return erf_pcap(story.in_order())


def refusals() -> bytes:
    """The NVMe target's service is down (REJ 8), then up again; two queues are refused by the target (REJ 28)."""
    story = Story("12")
    target = Station("10.120.0.1", 0xB8599F0300C3D401, psn=300)
    hosts = [Station(f"10.120.0.{20 + number}", 0xB8599F0300A1B220 | number, psn=number) for number in range(6)]
    for number, host in enumerate(hosts):
        for attempt in range(10):
            talk = story.talk(host, target, services.nvme(0), port=41000 + attempt, active_qpn=0x50 + attempt)
            time = 0.3 * number + 10.3 * attempt
            talk.active(time, "REQ")
            talk.passive(time + 0.0004, "REJ", reason=8)
    for number, host in enumerate(hosts):
        admin = story.talk(host, target, services.nvme(0), port=42000, active_qpn=0x70, passive_qpn=0x300 + number)
        admin.establish(104 + 0.3 * number)
    for number, queue, status in ((4, 9, 3), (5, 1, 6)):  # invalid queue id; no resources
        talk = story.talk(hosts[number], target, services.nvme(queue, 128), port=42001, active_qpn=0x71)
        time = 106.5 + number
        talk.active(time, "REQ")
        private = bytes(NVMe_REJ(status=status))
        talk.passive(time + 0.0011, "REJ", reason=28, private_data=private)
    return pcap(story.in_order())


def version_1() -> bytes:
    """A host that was configured for RoCE v1 asks a target that speaks RoCE v2 with everybody else."""
    story = Story("17")
    target = Station("10.130.0.1", 0xB8599F0300C3D401, psn=18)
    modern = Station("10.130.0.20", 0xB8599F0300A1B220)
    fine = story.talk(modern, target, services.nvme(0), port=43000)
    fine.establish(0)
    fine.command(1)
    old = Station("10.130.0.21", 0xB8599F0300A1B221, transport="RoCE v1", psn=2)
    unheard = story.talk(old, target, services.nvme(0), port=43001)
    unheard.repeat(unheard.active(5, "REQ"), REQ_GAP, 15)
    fine.command(104)
    return pcap(story.in_order())


def virtual_function(where: str) -> bytes:
    """One exchange of a virtual function of an mlx4 HCA: in the VM, and on the wire, where the host has put in ids."""
    on_wire = where == "wire"
    story = Story("18" + where)
    delay = LATENCY if on_wire else 0.0
    client = Station("10.140.0.31", 0x0002C90300A1B231, psn=5120 if on_wire else 41)
    server = Station("10.140.0.2", 0x0002C90300C3D402, psn=77 if on_wire else 6)
    talk = story.talk(client, server, services.tcp(7471), port=45100, active_qpn=0x40A61, passive_qpn=0x40B02)
    tid = client.own_tid(talk.comm_ids["active"])
    if on_wire:
        talk.comm_ids["active"] = 0x00000007  # pv_cm_id of the physical function; the TransactionID stays
    talk.active(0 + delay, "REQ", tid=tid, starting_psn=0x6B3A91)  # no proxy changes it
    talk.passive(0.0011 - delay, "REP", tid=tid)
    talk.active(0.0015 + delay, "RTU", tid=tid)
    talk.active(8 + delay, "DREQ", tid=tid)
    talk.passive(8.0004 - delay, "DREP", tid=tid)
    return pcap(story.in_order())
