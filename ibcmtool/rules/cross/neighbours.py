"""X09-X11: what the capture shows beside the messages of a connection.

Whether an unanswered REQ went to the right station (X09, X10) shows in ARP and neighbour discovery, and in what the
target says to others. Whether two connections are one (X11) shows in their REQs.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.timers import SECOND
from ibcmtool.evidence import unopposed, weakened
from ibcmtool.formatting import address, comm_id, count, duration, end_name, frames
from ibcmtool.messages import Rep, Req
from ibcmtool.model import Connection, Event, Step
from ibcmtool.packets import IPV4_MAPPED, CmMessage, Transport
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first, silent
from ibcmtool.rules.steps import unanswered
from ibcmtool.values import CommId, Duration, Qpn
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.neighbours import Holder, named, shown

X09 = rule(
    "X09",
    "address-moved",
    "Unanswered REQs go to the MAC address that the target's address had before",
    severity="warning",
    clause="RFC 826, RFC 5227, RFC 4861; Linux resolves the address once for each attempt (rdma_resolve_addr)",
    explanation="ARP or IPv6 neighbour discovery in the capture gives the target's IP address to another MAC address"
    " than the one that the REQs go to, and that one had it before: a failover, or a replaced port. The requester has"
    " looked up the address before an attempt, and every retry goes to the same place. Linux since 6.0 ends such an"
    " attempt on RoCE when its neighbour table gets the new MAC address (RDMA_CM_EVENT_UNREACHABLE, -110); an older"
    " one goes on for minutes, whatever that table says by then.",
    false_positives="A router's MAC address is never taken for the target's: the old one must have been announced for"
    " the address, or CM messages must have come from it with an unused hop limit. Not reported when both MAC"
    " addresses claim the address by turns or within 1 s (two ports in one subnet), in another VLAN, when the old one"
    " still speaks for the address, or when the REQ was captured twice (it may have been forwarded). Possible only,"
    " when the announcement came after the last REQ.",
    advice="On the requester compare `ip neigh show` with the new MAC address; delete a stale entry and connect anew."
    " Find out why it missed the announcement: gratuitous ARP switched off at the takeover (arp_notify), or filtered"
    " by a switch.",
)

TAKEOVER: Final = SECOND  # two stations that claim an address within this both have it: one host with two ports, mostly


@X09.on_event("ENDED", history=silent)
def address_moved(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = unanswered(connection)
    if not tries or any(step.sightings for step in tries):
        return
    target, around = tries[-1].message.destination, envelope(tries[-1].message)
    if around is None or around.destination_mac is None:
        return
    holders = context.neighbourhood.holders(named(around.vlan_ids), target)
    old = next((holder for holder in holders if holder.last.mac == around.destination_mac), None)
    if old is None or holders[-1] is old:
        return
    new = holders[-1]
    word = context.ports.newest(target)
    speaker = shown(word) if word is not None else None
    if speaker is not None and speaker.mac == old.last.mac and speaker.time > new.first.time:
        return
    if new.first.time - old.last.time >= TAKEOVER:
        yield _moved(connection, tries, old, new)


def _moved(connection: Connection, tries: list[Step], old: Holder, new: Holder) -> Verdict:
    announced, last = new.first, tries[-1].message
    later = sum(step.message.time > announced.time for step in tries)
    since = (
        f"{'all' if later == len(tries) else later} of them were sent after that"
        if later
        else f"that was {duration(announced.time - last.time)} after the last of them"
    )
    where = frames([(announced.file, announced.frame)], announced.file != last.file)
    protocol = "ARP" if (announced.address.gid or b"").startswith(IPV4_MAPPED) else "neighbour discovery"
    old_mac, new_mac = old.last.mac.hex(":"), announced.mac.hex(":")
    return Verdict(
        f"{count(len(tries), 'REQ')} to {end_name(connection.passive)} went to MAC {old_mac}, but {protocol} gives"
        f" {address(announced.address)} to {new_mac} since {where}; {since}.",
        {
            "sends": len(tries),
            "sends_after": later,
            "destination_mac": old_mac,
            "announced_mac": new_mac,
            "announced_frame": announced.frame,
            "last_known_frame": old.last.frame,
        },
        (unopposed("same machine") if later else weakened("same machine"),),
        steps=(tries[0], tries[-1]),
    )


X10 = rule(
    "X10",
    "roce-version-mismatch",
    "An unanswered REQ has another version of RoCE than its target speaks",
    severity="warning",
    clause="IBTA RoCE (annex A16, EtherType 0x8915) and RoCE v2 (annex A17, UDP port 4791)",
    explanation="Both versions may run in one network, but a port takes only packets for which it has a GID of that"
    " version: a REQ of the other one vanishes without an answer. The target, found by its GID or its MAC address, was"
    " heard with the other version only.",
    false_positives="A target that takes both versions and does not answer for another reason. Not reported when it"
    " was heard with the REQ's version as well, or when the REQ was answered in any way. Never more than probable.",
    advice="Set the requester's default version to that of its target:"
    " /sys/kernel/config/rdma_cm/DEVICE/ports/PORT/default_roce_mode (MLNX OFED: cma_roce_mode)."
    " /sys/class/infiniband/DEV/ports/N/gid_attrs/types/* say which versions a port has (MLNX OFED: show_gids).",
)

OTHER_VERSION: Final[dict[Transport, Transport]] = {"RoCE v1": "RoCE v2", "RoCE v2": "RoCE v1"}
EUI64: Final = b"\xff\xfe"  # in the middle of an interface id that was made from a MAC address
LOCAL_BIT: Final = 0x02  # turned over in its first byte


@X10.on_event("ENDED", history=silent)
def roce_version_mismatch(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = unanswered(connection)
    message = tries[-1].message if tries else None
    other = OTHER_VERSION.get(message.transport) if message is not None else None
    if message is None or other is None:
        return
    names = _names(message)
    heard = context.ports.with_version(other, *names)
    if heard is None or context.ports.with_version(message.transport, *names) is not None:
        return
    where = frames([(heard.file, heard.frame)], heard.file != message.file)
    who = "" if heard.source == message.destination else f" as {address(heard.source)}"
    yield Verdict(
        f"{count(len(tries), 'REQ')} to {end_name(connection.passive)} went out as {message.transport}, but that"
        f" host was heard{who} with {other} only, first in {where}.",
        {
            "sends": len(tries),
            "req_version": message.transport,
            "heard_version": other,
            "heard_frame": heard.frame,
            "heard_gid": address(heard.source),
        },
        (unopposed("received"),),
        steps=(tries[0], tries[-1]),
    )


def _names(message: CmMessage) -> tuple[bytes | None, ...]:
    """What a message calls the host that it goes to: GID, MAC address, and the MAC address that the GID was made of."""
    around, gid = envelope(message), message.destination.gid
    embedded = None
    if gid is not None and gid[11:13] == EUI64:
        embedded = bytes([gid[8] ^ LOCAL_BIT]) + gid[9:11] + gid[13:16]
    return gid, around.destination_mac if around is not None else None, embedded


X11 = rule(
    "X11",
    "same-exchange-other-ids",
    "One exchange was captured on both sides of a proxy that rewrites ids",
    severity="info",
    clause="Linux mlx4 SR-IOV (drivers/infiniband/hw/mlx4/cm.c): ids of virtual functions are replaced on the wire",
    explanation="The driver of an SR-IOV port (mlx4) stands between virtual functions and the wire, and gives their"
    " connections Communication IDs of its own. A capture in the VM and one on the wire then show the same exchange"
    " with different ids: two connections here, one in truth. All else of the two REQs (or REPs, where the virtual"
    " function is the passive side) is equal. Rules on the reuse of QPNs and ids count them as one.",
    false_positives="Both messages must agree in every byte but the Local Communication ID and the upper half of the"
    " TransactionID, and lie within 100 ms; a second attempt has another TransactionID.",
    advice="Read either of them. In the VM's logs look for the ids of the one, in the peer's for those of the other.",
)


@X11.on_step("REQ", "REP", history=first, when=entangled)
def same_exchange(connection: Connection, step: Step, context: Context) -> Verdicts:
    original, kind = connection.proxied_copy_of, step.message.type
    if original is None or (kind == "REP" and connection.steps[0].message is not original.steps[0].message):
        return  # the REQ was the first message that showed them apart
    known = next((other for other in original.steps if other.message.type == kind), None)
    if known is None:
        return
    gap = step.message.time - known.message.time
    ids = [_own_id(known), _own_id(step)]
    yield Verdict(
        f"Connection {connection.id} is connection {original.id} as seen on the other side of a proxy that rewrites ids"
        f" (SR-IOV): the same {kind} {duration(abs(gap))} {'earlier' if gap < 0 else 'later'}, but for Communication ID"
        f" {comm_id(ids[1])} instead of {comm_id(ids[0])}.",
        {"comm_ids": [CommId(one) for one in ids], "qpn": Qpn(connection.active.qpn or 0), "gap": Duration(gap)},
        (unopposed("not a copy"),),
        steps=(known, step),
        related=(original,),
    )


def _own_id(step: Step) -> int:
    fields = step.message.fields
    return (fields.local_comm_id if isinstance(fields, (Req, Rep)) else None) or 0
