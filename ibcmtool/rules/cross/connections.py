"""X01-X03, X05, X08: what shows only across connections, or across captures of the same packets.

Identity of an end is (CA GUID, QPN) or (CA GUID, Communication ID): GUIDs that are 0 or cloned say nothing, so these
rules stay silent without one and never claim more than the GUIDs carry.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.matching import is_xrc, of_one_boot
from ibcmtool.connections.port_trace import PSN_RANGE, QUICKEST_RESTART
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import address, comm_id, duration, end_name, frame, guid, qpn
from ibcmtool.messages import Rep, Req
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first, matches
from ibcmtool.rules.steps import sent_by
from ibcmtool.values import CommId, Duration, FrameNumber, Guid, InputNumber, Psn, Qpn, Time

OPEN: Final = ("REP_SENT", "MRA_REP_RCVD", "REP_RCVD", "MRA_REP_SENT", "ESTABLISHED")

X01 = rule(
    "X01",
    "qp-shared",
    "One QP in two open connections to different peers",
    severity="info",
    clause="IBA 12.9.8.3.1 (why stale connections are refused): a connected RC or UC QP has one peer",
    explanation="A connected RC or UC QP has exactly one peer; RC packets do not even name their sender's QP. Two open"
    " connections that claim the same QPN of the same CA therefore cannot both carry data. Either the QP is of a"
    " service that has many peers (dynamically connected transport: legal), or one connection is dead and its end was"
    " not captured, or the two ends are different CAs with the same GUID. Reported once for each QP.",
    false_positives="XRC serves several initiators with one target QP (not reported there). Cloned virtual machines"
    " share a CA GUID. A close that the capture missed leaves the first connection open here only. Never more than"
    " possible.",
    advice="Nothing to do if the application uses one QP for many peers (dynamically connected transport). Else, if"
    " the CA GUIDs are unique, look for the unseen close of the earlier connection.",
)


@X01.on_step("REP", history=first, when=entangled, once="subject")
def qp_shared(connection: Connection, step: Step, context: Context) -> Verdicts:
    if is_xrc(connection):
        return
    for role, conflict in connection.conflicts():
        other = conflict.other
        if conflict.same_peer or other.established is None or other.end(conflict.owner).state not in OPEN:
            continue
        end, old_peer = connection.end(role), other.peer(conflict.owner)
        number, ca = end.qpn or 0, end.ca_guid or 0
        yield Verdict(
            f"QP {qpn(number)} of CA {guid(ca)} goes to {end_name(connection.peer(role))} here, and to"
            f" {end_name(old_peer)} in connection {other.id}, which is open as far as the capture shows.",
            {"qpn": Qpn(number), "ca_guid": Guid(ca), "other_opened": Time(other.opened)},
            (weakened("complete"),),
            steps=(*other.steps[:1], step),
            related=(other,),
            subject=(ca, number),
        )


X02 = rule(
    "X02",
    "comm-id-twice",
    "A CA gave one Communication ID to two established connections",
    severity="error",
    clause="IBA 12.7.1 (Local Communication ID); Linux local_id_table",
    explanation="After the handshake a message finds its connection by the Communication IDs alone. A CA that gives"
    " the same id to two connections at once cannot tell their DREQs apart: the wrong connection may be closed. A REQ"
    " with an id in use is T03; this is the id that a REP gave.",
    false_positives="Only equal CA GUIDs count, and only connections that both are established. Not reported for one"
    " exchange seen on both sides of an SR-IOV proxy (X11). Such a proxy (mlx4) rewrites ids, and cloned machines"
    " share a GUID: from different addresses it is a possible warning only.",
    advice="If both came from one CM, it is broken; if the addresses differ, check for cloned node GUIDs.",
)


@X02.on_step("RTU")
def comm_id_twice(connection: Connection, step: Step, context: Context) -> Verdicts:
    other, end = context.comm_ids.earlier_holder(step), connection.passive
    if other is None:
        return
    number, ca = end.comm_id or 0, end.ca_guid or 0
    owners = [other.end(role) for role in PEER if (other.end(role).ca_guid, other.end(role).comm_id) == (ca, number)]
    if not owners or owners[0].state != "ESTABLISHED" or other.outcome != "established":
        return  # closed, or it has another id since
    if not context.covered(other, other.steps[-1].message.time, step.message.time):
        return  # its end may not have been captured
    if connection.proxied_copy_of is other or other.proxied_copy_of is connection:
        return  # one exchange on both sides of a proxy (X11)
    reply = next((old for old in connection.steps if old.message.type == "REP"), step)
    same_place = owners[0].address == end.address
    yield Verdict(
        f"{end_name(end)} gave Communication ID {comm_id(number)} to this connection while another one of CA"
        f" {guid(ca)}, established with {end_name(other.peer(owners[0].role))}, still has it.",
        {"comm_id": CommId(number), "ca_guid": Guid(ca), "same_address": same_place},
        (
            unopposed("complete") if same_place else weakened("same machine"),
            context.one_clock(other.steps[-1], reply),
        ),
        steps=(*other.steps[:1], reply),
        severity=None if same_place else "warning",
        related=(other,),
    )


X03 = rule(
    "X03",
    "reboot-hint",
    "A host seems to have restarted its CM",
    severity="info",
    clause="Linux mad.c (QP1 starts at PSN 0) and cm.c (random Communication ID base of each boot)",
    explanation="QP1 counts its packets from PSN 0, and the Communication IDs of one boot lie close together (a"
    " counter XOR a random number). When the PSN of an address falls back near 0 and the ids come from another range,"
    " or the TransactionIDs from another agent, the host was rebooted or its driver reloaded in between. Connections"
    " from before are dead on that side: expect S02 for them.",
    false_positives="A PSN that wraps at 2^24 is left out. CMs that draw random ids, or whose PSNs do not count, could"
    " mimic it: probable only when ids and TransactionIDs both changed or the PSN is exactly 0, else possible.",
    advice="Ask the host (uptime, dmesg, driver reload); treat its earlier connections as gone.",
)

WRAP_MARGIN: Final = 1 << 16  # a last PSN this close to the end of the range may simply have wrapped


@X03.on_event("RESTARTED")
def reboot_hint(connection: Connection, event: Event, context: Context) -> Verdicts:
    fall = context.restarts.fall
    if fall is None:
        return
    message, before = fall.step.message, fall.last.message
    psn, old_psn, fields, old_fields = message.psn, before.psn, message.fields, before.fields
    if psn is None or old_psn is None or old_psn >= PSN_RANGE - WRAP_MARGIN:
        return
    if message.time - before.time < QUICKEST_RESTART:
        return  # out of order
    if not isinstance(fields, (Req, Rep)) or not isinstance(old_fields, (Req, Rep)):
        return
    old_agent = fall.last_request.message.tid >> 32 if fall.last_request is not None else None
    agent = message.tid >> 32 if message.type == "REQ" else old_agent
    new_agent = old_agent is not None and agent != old_agent
    old_id, new_id = old_fields.local_comm_id or 0, fields.local_comm_id or 0
    new_ids = not of_one_boot(old_id, new_id)
    restarted = context.witness.restarted(message)  # where ids go on the driver alone was reloaded
    if not (new_agent or new_ids or restarted):
        return
    changes = [f"Communication IDs from {comm_id(old_id)} to {comm_id(new_id)}"] if new_ids else []
    if new_agent:
        changes.append(f"TransactionIDs from agent 0x{old_agent or 0:08x} to 0x{agent or 0:08x}")
    likely = psn == 0 or restarted or (new_agent and new_ids)
    said = "".join(f", {change}" for change in changes[:1]) + "".join(f" and {change}" for change in changes[1:])
    yield Verdict(
        f"QP1 of {address(message.source)} fell from PSN {old_psn} back to {psn} within"
        f" {duration(message.time - before.time)}{said}: its host {'rebooted, or ' if changes else ''}reloaded the"
        " driver.",
        {
            "last_psn": Psn(old_psn),
            "psn": Psn(psn),
            "last_comm_id": CommId(old_id),
            "comm_id": CommId(new_id),
            "last_tid_high": old_agent,
            "tid_high": agent,
        },
        (unopposed("same machine") if likely else weakened("same machine"),),
        steps=(fall.last, fall.step),
    )


X05 = rule(
    "X05",
    "captured-twice",
    "Packets are in the input twice",
    severity="info",
    clause="the BTH PSN counts per packet; a retransmitted MAD has a new one (Linux mad.c)",
    explanation="The same MAD with the same PSN from the same source is one packet captured at two places: both"
    " directions of a mirror port, both ends of a link, or overlapping files. Such copies count once, and no rule"
    " takes them for retransmissions. Reported once per input, or pair of inputs.",
    false_positives="A sender whose PSNs do not count would look like this when it repeats a message at once.",
    advice="Nothing to do. To capture each packet once, mirror one direction only or capture at one end.",
)


@X05.on_event("SIGHTING", once="subject")
def captured_twice(connection: Connection, event: Event, context: Context) -> Verdicts:
    step = event.step
    if step is None or not step.sightings:
        return
    copy, original = step.sightings[-1], step.message
    files = (min(original.file, copy.file), max(original.file, copy.file))
    gap = copy.time - original.time
    where = "in this input" if files[0] == files[1] else "in two inputs"
    yield Verdict(
        f"Packets are captured twice {where}; each counts once. First seen: {original.type} with PSN {original.psn},"
        f" {context.frame(original)} and again as frame {frame(copy[:2], context.coverage.several)}"
        f" {duration(gap)} later.",
        {
            "files": [InputNumber(file) for file in files],
            "psn": Psn(original.psn or 0),
            "copy_frame": FrameNumber(copy.file, copy.frame),
            "gap": Duration(gap),
        },
        subject=files,
    )


X08 = rule(
    "X08",
    "crossing-dreqs",
    "Both sides sent a DREQ before either got a DREP",
    severity="info",
    clause="IBA 12.9.7, 12.10.8 (communication release); Linux cm_dreq_handler in DREQ_SENT",
    explanation="Both consumers closed at the same time and their DREQs crossed. Legal: each side answers the other's"
    " DREQ and enters timewait. The TransactionID of a DREP may then differ from that of the DREQ it answers.",
    false_positives="When the gap exceeds a response timeout, the first DREQ was probably lost rather than crossed.",
    advice="Nothing to do.",
)


# Both sides sent a DREQ, this one its first, and neither a DREP.
@X08.on_step("DREQ", history=matches("[^dDeE]*D[^deE]*d|[^dDeE]*d[^DeE]*D"), needs=("sender",))
def crossing_dreqs(connection: Connection, step: Step, context: Context) -> Verdicts:
    other = next(old for old in connection.steps if old.message.type == "DREQ" and old.sender != step.sender)
    gap = step.message.time - other.message.time
    yield Verdict(
        f"{sent_by(step)} {duration(gap)} after that of {address(other.message.source)}, before any DREP.",
        {"gap": Duration(gap)},
        (one_clock(other, step),),
        steps=(other, step),
    )
