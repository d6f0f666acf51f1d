"""X09-X11: what the capture shows beside the messages of a connection.

Whether unanswered messages went to the right station (X09, X10) shows in ARP and neighbour discovery, and in what the
target says, to others too. Whether two connections are one (X11) shows in their REQs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.timers import SECOND
from ibcmtool.evidence import Ground, unopposed, weakened
from ibcmtool.formatting import address, comm_id, count, duration, end_name
from ibcmtool.messages import Rep, Req
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.packets import IPV4_MAPPED, CmMessage, Neighbour, Transport
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first, matches, rej_reason, silent
from ibcmtool.rules.steps import DISORDER, between, of_type, receiver_end, sends, unanswered
from ibcmtool.values import CommId, Duration, FrameNumber, Qpn
from ibcmtool.wire.envelope import Envelope, envelope
from ibcmtool.wire.neighbours import Holder, named, shown

X09 = rule(
    "X09",
    "address-moved",
    "Unanswered messages go to another MAC address than that of their target",
    severity="warning",
    clause="RFC 826, RFC 5227, RFC 4861; Linux resolves the address once for each attempt (rdma_resolve_addr)",
    explanation="Messages that nobody answered go to one MAC address, and their target is at another: ARP or IPv6"
    " neighbour discovery gives its IP address to that one, or its own CM messages come from there. So it has"
    " moved (a fail-over, or a replaced port), and the sender has a stale entry, which it looks up once: every retry"
    " goes to the same place, and so do the DREQs of a connection that was there before. Linux since 6.0 ends an"
    " attempt on RoCE when its neighbour table gets the new MAC address (RDMA_CM_EVENT_UNREACHABLE, -110); an older one"
    " goes on for minutes, whatever that table says by then.",
    false_positives="A router's MAC address is never taken for the target's: an unused hop limit shows that none has"
    " sent on what comes from it. Not reported when both MAC addresses claim the address by turns or within 1 s (two"
    " ports in one subnet), in another VLAN, when the old one still speaks for the address, or when the capture has"
    " the messages twice (they may have been forwarded). Possible only, when the move shows after the last message"
    " or in a capture that shares no packets, when the other station has a connection from before, when nothing of the"
    " target was captured since, or when a REP answers a REQ that was not captured.",
    advice="On the sender compare `ip neigh show` with the new MAC address; delete a stale entry and connect anew."
    " Find out why it missed the announcement: gratuitous ARP switched off at the takeover (arp_notify), filtered by a"
    " switch, or an entry that somebody made permanent.",
)

RELEASE: Final = ("DREQ", "DREP")
BEYOND: Final = ("RTU", "DREQ", "LAP", "APR")  # of a station that has connected before
THERE_BEFORE: Final = Ground("order", "weakened", "the other station had the address before: it has a connection")
TAKEOVER: Final = SECOND  # two stations that claim an address within this both have it: one host with two ports, mostly


# A REQ or SIDR_REQ that nobody answered; a REP that was repeated, without an RTU or after it; a DREQ without a DREP.
UNANSWERED: Final = matches(
    r"Q[\^QJ]*|S[\^S]*"
    r"|[^pU]*p[^U^]*(\^[^pU][^U^]*)*\^p[^U]*"
    r"|[^U]*U[^de^]*(\^[^pde][^de^]*)*\^p[^de]*"
    r"|[^dDeE]*[dD][^eE]*"
)


@X09.on_event("ENDED", history=UNANSWERED)
def address_moved(connection: Connection, event: Event, context: Context) -> Verdicts:
    for tries in _unanswered(connection):
        if tries and not any(copy.file == step.message.file for step in tries for copy in step.sightings):
            yield from _sent_elsewhere(connection, tries, context)


def _unanswered(connection: Connection) -> Iterator[list[Step]]:
    """The sends of each message that its receiver shows no sign of having got."""
    yield unanswered(connection)
    if connection.outcome == "timed_out" and connection.sidr:
        yield of_type(connection, "SIDR_REQ")
    reps, rtus = of_type(connection, "REP"), of_type(connection, "RTU")
    if len(reps) > 1:
        said = [step for step in connection.steps if step.sender == "active" and step.message.type != "REQ"]
        if all(rej_reason(step) == TIMEOUT for step in said):  # no more than its REQ, or that it gives up
            yield sends(connection, reps[-1])
        if rtus and between(rtus[0], reps[-1]) > DISORDER and not of_type(connection, *RELEASE, sender="passive"):
            yield sends(connection, rtus[-1])
    for role in PEER:
        dreqs = of_type(connection, "DREQ", sender=role)
        if (
            connection.outcome in ("half_open", "stale")
            and dreqs
            and not of_type(connection, *RELEASE, sender=PEER[role])
        ):
            yield sends(connection, dreqs[-1])


def _sent_elsewhere(connection: Connection, tries: list[Step], context: Context) -> Verdicts:
    """The verdict on sends to another MAC address than the one that their target has."""
    last = tries[-1].message
    around = envelope(last)
    if around is None or around.destination_mac is None:
        return
    vlan_ids, mac = named(around.vlan_ids), around.destination_mac
    said = [step for step in connection.steps if step.message.source == last.destination]
    said += context.restarts.moves.get(last.destination, ())
    words = [*context.ports.words(last), *(step.message for step in said)]
    found = [shown(word) for word in words if word.file == last.file or _back(word, last, around)]
    spoken = [station for station in found if station is not None and station.vlan_ids == vlan_ids]
    holders = context.neighbourhood.holders(vlan_ids, last.destination, spoken)
    if not holders or holders[-1].last.mac == mac:
        return
    new, old = holders[-1], next((holder for holder in holders if holder.last.mac == mac), None)
    # A MAC address that never was the target's may be a router's, unless what comes from the target has met none.
    if (
        new.first.time - old.last.time >= TAKEOVER
        if old is not None
        else any(new.last.mac == one.mac for one in spoken)
    ):
        verdict = _moved(connection, tries, mac, (old, new), spoken, context)
        word = next((one for one in words if (one.file, one.frame) == (new.first.file, new.first.frame)), None)
        if word is None or all(step.message is not word for step in connection.steps):  # else the sends answer it
            verdict = verdict._replace(rests_on=(*verdict.rests_on, _told_before(new.first, last, context)))
        if word is not None and word.type in BEYOND:
            verdict = verdict._replace(rests_on=(*verdict.rests_on, THERE_BEFORE))
        yield verdict


def _back(word: CmMessage, message: CmMessage, around: Envelope) -> bool:
    """Whether what another input has is an answer to the very station that a message came from: on one link with it."""
    its = envelope(word)
    return word.destination == message.source and its is not None and its.destination_mac == around.source_mac


def _moved(
    connection: Connection,
    tries: list[Step],
    mac: bytes,
    holders: tuple[Holder | None, Holder],
    spoken: Sequence[Neighbour],
    context: Context,
) -> Verdict:
    (old, new), last = holders, tries[-1].message
    told = new.first
    later = sum(step.message.time > told.time for step in tries)
    since = (
        f"{'all' if later == len(tries) else later} of them were sent after that"
        if later
        else f"that was {duration(told.time - last.time)} after the last of them"
    )
    protocol = "ARP" if (told.address.gid or b"").startswith(IPV4_MAPPED) else "neighbour discovery"
    old_mac, new_mac, target = mac.hex(":"), told.mac.hex(":"), receiver_end(connection, tries[-1])
    seen = (
        f"its own CM messages come from {new_mac}"
        if told in spoken
        else f"{protocol} gives {address(told.address)} to {new_mac}"
    )
    return Verdict(
        f"{count(len(tries), last.type)} to {end_name(target)} went to MAC {old_mac}, but {seen} since"
        f" {context.frame(told)}; {since}.",
        {
            "sends": len(tries),
            "sends_after": later,
            "destination_mac": old_mac,
            "announced_mac": new_mac,
            "announced_frame": FrameNumber(told.file, told.frame),
            "last_known_frame": FrameNumber(old.last.file, old.last.frame) if old is not None else None,
        },
        (_still_there(connection, tries, holders) if later else weakened("same machine"),),
        steps=(tries[0], tries[-1]),
    )


def _told_before(told: Neighbour, last: CmMessage, context: Context) -> Ground:
    """When it was told can be compared with when a message was sent: packets that two captures share tie the clocks."""
    places, ports = context.coverage.places(), (last.source, last.destination)
    tied = context.lags.inputs(ports) | context.lags.inputs(ports[::-1])
    if told.file == last.file or told.file in tied or places[told.file] == places[last.file]:
        return unopposed("order")
    return Ground("order", "weakened", "the move shows in another capture, which shares no packets with this one")


def _still_there(connection: Connection, tries: list[Step], holders: tuple[Holder | None, Holder]) -> Ground:
    """The target has not moved on to where the sends went, nor is it there too, as two hosts with one address are."""
    old, new = holders
    if old is None and new.last.time < tries[0].message.time:
        return Ground("same machine", "weakened", "nothing of the target was captured since: it may have moved there")
    if connection.request is None and tries[0].sender == "passive":
        return Ground("same machine", "weakened", "the REQ, which may have come from there, was not captured")
    return unopposed("same machine")


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
    who = "" if heard.source == message.destination else f" as {address(heard.source)}"
    yield Verdict(
        f"{count(len(tries), 'REQ')} to {end_name(connection.passive)} went out as {message.transport}, but that"
        f" host was heard{who} with {other} only, first in {context.frame(heard)}.",
        {
            "sends": len(tries),
            "req_version": message.transport,
            "heard_version": other,
            "heard_frame": FrameNumber(heard.file, heard.frame),
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
