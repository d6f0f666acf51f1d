"""X: what shows only across connections, or across captures of the same packets.

Identity of an end is (CA GUID, QPN) or (CA GUID, Communication ID): GUIDs that are 0 or cloned say nothing, so these
rules stay silent without one and never claim more than the GUIDs carry.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from ibcmtool.formatting import address, comm_id, duration, end_name, guid, qpn
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import entangled, first
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import news
from ibcmtool.rules.steps import one_capture

OPEN = ("REP_SENT", "MRA_REP_RCVD", "REP_RCVD", "MRA_REP_SENT", "ESTABLISHED")
PSN_RANGE = 1 << 24
NEAR_ZERO = 1 << 10  # PSNs that a rebooted host's QP1 has within its first MADs
WRAP_MARGIN = 1 << 16  # a last PSN this close to the end of the range may simply have wrapped
MOST_IDS = 1 << 14  # that X02 remembers, two for each connection
COUNTER_BITS = 16  # comm ids of one boot differ in their counter's low bits only


@rule(
    "X01",
    "qp-shared",
    "One QP in two open connections to different peers",
    severity="info",
    on=("REP",),
    history=first,
    when=entangled,
    clause="IBA 12.9.8.3.1 (why stale connections are refused): a connected RC or UC QP has one peer",
    explanation=(
        "A connected RC or UC QP has exactly one peer; RC packets do not even name their sender's QP. Two open"
        " connections that claim the same QPN of the same CA therefore cannot both carry data. Either the QP is of a"
        " service that has many peers (dynamically connected transport: legal), or one connection is dead and its end"
        " was not captured, or the two ends are different CAs with the same GUID. Told once for each QP."
    ),
    false_positives=(
        "XRC serves several initiators with one target QP (silent there). Cloned virtual machines share a CA GUID."
        " A close that the capture missed leaves the first connection open here only. Never more than possible."
    ),
    advice="Nothing to do if the application uses one QP for many peers (dynamically connected transport). Else, if the"
    " CA GUIDs are unique, look for the unseen close of the earlier connection.",
)
def qp_shared(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or _is_xrc(connection):
        return
    sides: tuple[Role, ...] = ("active", "passive")
    for role, conflicts in zip(sides, (connection.request_conflicts, connection.reply_conflicts), strict=True):
        for conflict in conflicts:
            other = conflict.other
            if conflict.same_peer or other.established is None or other.end(conflict.owner).state not in OPEN:
                continue
            end, old_peer = connection.end(role), other.peer(conflict.owner)
            if not news(view, "X01", (end.ca_guid, end.qpn)):
                return
            yield Verdict(
                f"QP {qpn(end.qpn or 0)} of CA {guid(end.ca_guid or 0)} goes to {end_name(connection.peer(role))} here,"
                f" and to {end_name(old_peer)} in connection {other.id}, which is open as far as the capture shows.",
                (*other.steps[:1], step),
                {"qpn": end.qpn, "ca_guid": end.ca_guid, "other_opened_ns": other.opened},
                confidence="possible",
                related=(other,),
            )


def _is_xrc(connection: Connection) -> bool:
    request = connection.request
    return request is not None and request.transport_service_type == 3 and request.extended_transport_type == 1


@rule(
    "X02",
    "comm-id-twice",
    "A CA gave one Communication ID to two established connections",
    severity="error",
    on=("RTU",),
    clause="IBA 12.7.1 (Local Communication ID); Linux local_id_table",
    explanation=(
        "After the handshake a message finds its connection by the Communication IDs alone. A CA that gives the same id"
        " to two connections at once cannot tell their DREQs apart: the wrong connection may be closed. A REQ with an"
        " id in use is T03; this is the id that a REP gave."
    ),
    false_positives=(
        "Only equal CA GUIDs count, and only connections that both are established. Silent for one exchange seen on"
        " both sides of an SR-IOV proxy (X11). Such a proxy (mlx4) rewrites ids, and cloned machines share a GUID: from"
        " different addresses it is a possible warning only."
    ),
    advice="If both came from one CM, it is broken; if the addresses differ, check for cloned node GUIDs.",
)
def comm_id_twice(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return ()
    active, passive = connection.active, connection.passive
    holders = view.memory["X02"]  # by CA GUID and id: the newest connection that came to life with it
    if len(holders) >= MOST_IDS:
        _keep_established(holders)
    if active.ca_guid and active.comm_id:
        holders[(active.ca_guid, active.comm_id)] = connection
    if not (passive.ca_guid and passive.comm_id):
        return ()
    key = (passive.ca_guid, passive.comm_id)
    other = holders.setdefault(key, connection)
    if other is connection:
        return ()
    holders[key] = connection
    if not view.covered(other, other.steps[-1].message.time, step.message.time):
        return ()  # its end may not have been captured
    return _given_twice(connection, step, other)


def _keep_established(holders: dict[Hashable, Any]) -> None:
    """Make room: forget what has been closed, and the oldest where that is not enough."""
    kept = [(key, connection) for key, connection in holders.items() if connection.outcome == "established"]
    holders.clear()
    holders.update(kept[-MOST_IDS // 2 :])


def _given_twice(connection: Connection, step: Step, other: Connection) -> Iterator[Verdict]:
    """The verdict on the passive end's id, which `other` had when this RTU came."""
    end = connection.passive
    key = (end.ca_guid, end.comm_id)
    owner = next((role for role in PEER if (other.end(role).ca_guid, other.end(role).comm_id) == key), None)
    if owner is None or other.end(owner).state != "ESTABLISHED" or other.outcome != "established":
        return  # closed, or it has another id since
    if connection.proxied_copy_of is other or other.proxied_copy_of is connection:
        return  # one exchange on both sides of a proxy (X11)
    reply = next((old for old in connection.steps if old.message.type == "REP"), step)
    same_place = other.end(owner).address == end.address
    yield Verdict(
        f"{end_name(end)} gave Communication ID {comm_id(end.comm_id)} to this connection while another one of CA"
        f" {guid(end.ca_guid or 0)}, established with {end_name(other.peer(owner))}, still has it.",
        (*other.steps[:1], reply),
        {"comm_id": end.comm_id, "ca_guid": end.ca_guid, "same_address": same_place},
        confidence="probable" if same_place else "possible",
        severity=None if same_place else "warning",
        related=(other,),
    )


@rule(
    "X03",
    "reboot-hint",
    "A host seems to have restarted its CM",
    severity="info",
    on=("REQ", "REP"),
    clause="Linux mad.c (QP1 starts at PSN 0) and cm.c (random Communication ID base of each boot)",
    explanation=(
        "QP1 counts its packets from PSN 0, and the Communication IDs of one boot lie close together (a counter XOR a"
        " random number). When the PSN of an address falls back near 0 and the ids come from another range, or the"
        " TransactionIDs from another agent, the host was rebooted or its driver reloaded in between. Connections from"
        " before are dead on that side: expect S02 for them."
    ),
    false_positives=(
        "A PSN that wraps at 2^24 is left out. CMs that draw random ids, or whose PSNs do not count, could mimic it:"
        " probable only when ids and TransactionIDs both changed or the PSN is exactly 0, else possible."
    ),
    advice="Ask the host (uptime, dmesg, driver reload); treat its earlier connections as gone.",
)
def reboot_hint(event: Event, view: Context) -> Iterable[Verdict]:
    fall = None if event.step is None else view.restarts.fall_at(event.step)
    return () if fall is None else _reboot(fall.step, fall.last, fall.last_request)


def _reboot(step: Step, last: Step, last_request: Step | None) -> Iterator[Verdict]:
    """The verdict on an address whose PSN fell from that of `last` to that of `step`."""
    message, before = step.message, last.message
    fields, psn = message.fields, message.psn
    if psn is None or before.psn is None or before.psn >= PSN_RANGE - WRAP_MARGIN:
        return
    old_agent = last_request.message.tid >> 32 if last_request is not None else None
    agent = message.tid >> 32 if message.type == "REQ" else old_agent
    new_agent = old_agent is not None and agent != old_agent
    old_id = before.fields.local_comm_id
    new_ids = _unrelated(old_id, fields.local_comm_id)
    if not (new_agent or new_ids):
        return
    changes = [f"Communication IDs from {comm_id(old_id)} to {comm_id(fields.local_comm_id)}"] if new_ids else []
    if new_agent:
        changes.append(f"TransactionIDs from agent 0x{old_agent or 0:08x} to 0x{agent or 0:08x}")
    yield Verdict(
        f"QP1 of {address(message.source)} fell from PSN {before.psn} back to {psn} within"
        f" {duration(message.time - before.time)}, {' and '.join(changes)}: its host rebooted, or"
        " reloaded the driver.",
        (last, step),
        {
            "last_psn": before.psn,
            "psn": psn,
            "last_comm_id": old_id,
            "comm_id": fields.local_comm_id,
            "last_tid_high": old_agent,
            "tid_high": agent,
        },
        confidence="probable" if psn == 0 or (new_agent and new_ids) else "possible",
    )


def _unrelated(before: int, after: int) -> bool:
    """Whether two Communication IDs are of different boots. Little-endian hosts count in the first byte on the wire."""
    difference = before ^ after
    swapped = int.from_bytes(difference.to_bytes(4, "little"), "big")
    return min(difference, swapped) >> COUNTER_BITS != 0


@rule(
    "X05",
    "captured-twice",
    "Packets are in the input twice",
    severity="info",
    on=("SIGHTING",),
    clause="the BTH PSN counts per packet; a retransmitted MAD has a new one (Linux mad.c)",
    explanation=(
        "The same MAD with the same PSN from the same source is one packet captured at two places: both directions of"
        " a mirror port, both ends of a link, or overlapping files. Such copies count once, and no rule takes them"
        " for retransmissions. Reported once per input, or pair of inputs."
    ),
    false_positives="A sender whose PSNs do not count would look like this when it repeats a message at once.",
    advice="Nothing to do. To capture each packet once, mirror one direction only or capture at one end.",
)
def captured_twice(event: Event, view: Context) -> Iterator[Verdict]:
    step = event.step
    if step is None or not step.sightings:
        return
    copy, original = step.sightings[-1], step.message
    pair = (min(original.file, copy.file), max(original.file, copy.file))
    known = view.memory["X05"]
    if pair in known:
        return
    known[pair] = True
    gap = copy.time - original.time
    where = "in this input" if pair[0] == pair[1] else "in two inputs"
    yield Verdict(
        f"Packets are captured twice {where}; each counts once. First seen: {original.type} with PSN {original.psn},"
        f" frame {original.frame} and again as frame {copy.frame} {duration(gap)} later.",
        (step,),
        {"files": list(pair), "psn": original.psn, "copy_frame": copy.frame, "gap_ns": gap},
    )


def _dreqs_only(history: str) -> bool:
    """Both sides sent a DREQ, and neither a DREP."""
    return "d" in history and "D" in history and "e" not in history and "E" not in history


@rule(
    "X08",
    "crossing-dreqs",
    "Both sides sent a DREQ before either got a DREP",
    severity="info",
    on=("DREQ",),
    history=_dreqs_only,
    clause="IBA 12.9.7, 12.10.8 (communication release); Linux cm_dreq_handler in DREQ_SENT",
    explanation=(
        "Both consumers closed at the same time and their DREQs crossed. Legal: each side answers the other's DREQ and"
        " enters timewait. The TransactionID of a DREP may then differ from that of the DREQ it answers."
    ),
    false_positives="When the gap exceeds a response timeout, the first DREQ was probably lost rather than crossed.",
    advice="Nothing to do.",
)
def crossing_dreqs(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    if connection.history.count("d" if step.sender == "passive" else "D") != 1:
        return
    other = next(old for old in connection.steps if old.message.type == "DREQ" and old.sender == PEER[step.sender])
    gap = step.message.time - other.message.time
    yield Verdict(
        f"DREQ of the {step.sender} side {duration(gap)} after that of the {other.sender} side, before any DREP.",
        (other, step),
        {"gap_ns": gap},
        confidence="certain" if one_capture(other, step) else "probable",
    )
