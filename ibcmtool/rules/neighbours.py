"""X: what the capture tells beside the messages of a connection.

Whether an unanswered REQ went to the right station (X09, X10) shows in ARP and neighbour discovery, and in what the
target says to others. Whether two connections are one (X11) shows in their REQs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibcmtool.connections.timers import SECOND
from ibcmtool.formatting import address, comm_id, count, duration, end_name, frames
from ibcmtool.model import IPV4_MAPPED, CmMessage, Connection, Event, Step, Transport
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import entangled, first, silent
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import unanswered
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.neighbours import Holder, named, shown

TAKEOVER = SECOND  # two stations that claim an address within this both have it: one host with two ports, mostly
OTHER_VERSION: dict[Transport, Transport] = {"RoCE v1": "RoCE v2", "RoCE v2": "RoCE v1"}
EUI64 = b"\xff\xfe"  # in the middle of an interface id that was made from a MAC address
LOCAL_BIT = 0x02  # turned over in its first byte


@rule(
    "X09",
    "address-moved",
    "Unanswered REQs go to the MAC address that the target's address had before",
    severity="warning",
    on=("ENDED",),
    history=silent,
    clause="RFC 826, RFC 5227, RFC 4861; Linux resolves the address once for each attempt (rdma_resolve_addr)",
    explanation=(
        "ARP or IPv6 neighbour discovery in the capture gives the target's IP address to another MAC address than the"
        " one that the REQs go to, and that one had it before: a failover, or a replaced port. The requester has looked"
        " up the address before an attempt, and every retry goes to the same place, for minutes, whatever its"
        " neighbour table says by then."
    ),
    false_positives=(
        "A router's MAC address is never taken for the target's: the old one must have been announced for the address,"
        " or CM messages must have come from it with an unused hop limit. Silent when both MAC addresses claim the"
        " address by turns or within 1 s (two ports in one subnet), in another VLAN, when the old one still speaks for"
        " the address, or when the REQ was captured twice (it may have been forwarded). Possible only, when the"
        " announcement came after the last REQ."
    ),
    advice=(
        "On the requester compare `ip neigh show` with the new MAC address; delete a stale entry and connect anew. Find"
        " out why it missed the announcement: gratuitous ARP switched off at the takeover (arp_notify), or filtered by"
        " a switch."
    ),
)
def address_moved(event: Event, view: Context) -> Iterator[Verdict]:
    tries = unanswered(event.connection)
    if not tries or any(step.sightings for step in tries):
        return
    target, around = tries[-1].message.destination, envelope(tries[-1].message)
    if around is None or around.destination_mac is None:
        return
    holders = view.neighbourhood.holders(named(around.vlan_ids), target)
    old = next((holder for holder in holders if holder.last.mac == around.destination_mac), None)
    if old is None or holders[-1] is old:
        return
    new = holders[-1]
    word = view.ports.newest(target)
    speaker = shown(word) if word is not None else None
    if speaker is not None and speaker.mac == old.last.mac and speaker.time > new.first.time:
        return
    if new.first.time - old.last.time < TAKEOVER:
        return
    yield _moved(event.connection, tries, old, new)


def _moved(connection: Connection, tries: list[Step], old: Holder, new: Holder) -> Verdict:
    later = sum(step.message.time > new.first.time for step in tries)
    last = tries[-1].message.time
    since = (
        f"{'all' if later == len(tries) else later} of them were sent after that"
        if later
        else f"that was {duration(new.first.time - last)} after the last of them"
    )
    told, several = new.first, new.first.file != tries[-1].message.file
    gid = told.address.gid or b""
    return Verdict(
        f"{count(len(tries), 'REQ')} to {end_name(connection.passive)} went to MAC {old.last.mac.hex(':')}, but"
        f" {'ARP' if gid.startswith(IPV4_MAPPED) else 'neighbour discovery'} gives {address(told.address)} to"
        f" {told.mac.hex(':')} since {frames([(told.file, told.frame)], several)}; {since}.",
        (tries[0], tries[-1]),
        {
            "sends": len(tries),
            "sends_after": later,
            "destination_mac": old.last.mac.hex(":"),
            "announced_mac": told.mac.hex(":"),
            "announced_frame": told.frame,
            "last_known_frame": old.last.frame,
        },
        confidence="probable" if later else "possible",
    )


@rule(
    "X10",
    "roce-version-mismatch",
    "An unanswered REQ has another version of RoCE than its target speaks",
    severity="warning",
    on=("ENDED",),
    history=silent,
    clause="IBTA RoCE (annex A16, EtherType 0x8915) and RoCE v2 (annex A17, UDP port 4791)",
    explanation=(
        "Both versions may run in one network, but a port takes only packets for which it has a GID of that version:"
        " a REQ of the other one vanishes without an answer. The target, found by its GID or its MAC address, was heard"
        " with the other version only."
    ),
    false_positives=(
        "A target that takes both versions and is silent for another reason. Silent when it was heard with the REQ's"
        " version as well, or when the REQ was answered in any way. Never more than probable."
    ),
    advice=(
        "Set the requester's default version to that of its target: cma_roce_mode, or"
        " /sys/kernel/config/rdma_cm/DEVICE/ports/PORT/default_roce_mode; show_gids lists what each port has."
    ),
)
def roce_version_mismatch(event: Event, view: Context) -> Iterator[Verdict]:
    tries = unanswered(event.connection)
    message = tries[-1].message if tries else None
    other = OTHER_VERSION.get(message.transport) if message is not None else None
    if message is None or other is None:
        return
    names = _names(message)
    heard = view.ports.with_version(other, *names)
    if heard is None or view.ports.with_version(message.transport, *names) is not None:
        return
    connection = event.connection
    where = frames([(heard.file, heard.frame)], heard.file != message.file)
    who = "" if heard.source == message.destination else f" as {address(heard.source)}"
    yield Verdict(
        f"{count(len(tries), 'REQ')} to {end_name(connection.passive)} went out as {message.transport}, but that host"
        f" was heard{who} with {other} only, first in {where}.",
        (tries[0], tries[-1]),
        {
            "sends": len(tries),
            "req_version": message.transport,
            "heard_version": other,
            "heard_frame": heard.frame,
            "heard_gid": address(heard.source),
        },
        confidence="probable",
    )


def _names(message: CmMessage) -> tuple[bytes | None, ...]:
    """What a message calls the host that it goes to: GID, MAC address, and the MAC address that the GID was made of."""
    around, gid = envelope(message), message.destination.gid
    embedded = None
    if gid is not None and gid[11:13] == EUI64:
        embedded = bytes([gid[8] ^ LOCAL_BIT]) + gid[9:11] + gid[13:16]
    return gid, around.destination_mac if around is not None else None, embedded


@rule(
    "X11",
    "same-exchange-other-ids",
    "One exchange was captured on both sides of a proxy that rewrites ids",
    severity="info",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="Linux mlx4 SR-IOV (drivers/infiniband/hw/mlx4/cm.c): ids of virtual functions are replaced on the wire",
    explanation=(
        "The driver of an SR-IOV port (mlx4) stands between virtual functions and the wire, and gives their connections"
        " Communication IDs of its own. A capture in the VM and one on the wire then show the same exchange with"
        " different ids: two connections here, one in truth. All else of the two REQs (or REPs, where the virtual"
        " function is the passive side) is equal. Rules on the reuse of QPNs and ids count them as one."
    ),
    false_positives=(
        "Both messages must agree in every byte but the Local Communication ID and the upper half of the TransactionID,"
        " and lie within 100 ms; a second attempt has another TransactionID."
    ),
    advice="Read either of them. In the VM's logs look for the ids of the one, in the peer's for those of the other.",
)
def same_exchange(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step, twin = event.connection, event.step, event.connection.proxied_copy_of
    if step is None or twin is None:
        return ()
    if event.kind == "REP" and connection.steps[0].message is not twin.steps[0].message:
        return ()  # the REQ was the first message that told them apart
    known = next((other for other in twin.steps if other.message.type == event.kind), None)
    if known is None:
        return ()
    gap = step.message.time - known.message.time
    ids = [each.message.fields.local_comm_id for each in (known, step)]
    return (
        Verdict(
            f"Connection {connection.id} is connection {twin.id} as seen on the other side of a proxy that rewrites ids"
            f" (SR-IOV): the same {event.kind} {duration(abs(gap))} {'earlier' if gap < 0 else 'later'}, but for"
            f" Communication ID {comm_id(ids[1])} instead of {comm_id(ids[0])}.",
            (known, step),
            {"comm_ids": [comm_id(each) for each in ids], "qpn": connection.active.qpn, "gap_ns": gap},
            confidence="probable",
            related=(twin,),
        ),
    )
