"""X12-X14: which machine it is that has a CA GUID, or an address; and who does not come back to one that restarted."""

from __future__ import annotations

from typing import Final, NamedTuple

from ibcmtool.connections.port_trace import Break
from ibcmtool.connections.timers import SECOND
from ibcmtool.evidence import unopposed
from ibcmtool.formatting import address, count, duration, end_name, guid, qpn
from ibcmtool.messages import Rep, Req
from ibcmtool.model import PEER, Connection, Event
from ibcmtool.packets import Address, CmMessage
from ibcmtool.rules.api import CaptureEnd, Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, rejected
from ibcmtool.rules.steps import addresses, between, of_type
from ibcmtool.services import connection_service
from ibcmtool.values import Duration, FrameNumber, Guid, Qpn, Value
from ibcmtool.wire.neighbours import shown

NO_GUID: Final = "Virtual functions that were given no CA GUID all have GUID 0."

X12 = rule(
    "X12",
    "one-guid-two-machines",
    "One CA GUID is at two machines: a target takes them for one",
    severity="warning",
    clause="IBA 12.9.8.3.1; Linux cm_insert_remote_qpn (a peer is its CA GUID and QPN)",
    explanation="A CM knows the QPs of its peers by CA GUID and QPN. Two machines with one GUID (cloned virtual"
    " machines, virtual functions whose GUID is 0 or was copied) look like one to it: as soon as one connects with a"
    " QPN that the other has connected there, the REQ is refused as stale (REJ 10), and the connection of the other"
    " one, which is sound, is closed by the DREQ that must follow. Neither host did anything wrong, nor did the target."
    " Reported once for each GUID, in place of S02, S08, S09 and S13.",
    false_positives="A host with two ports has one GUID at two addresses, too, but its Communication IDs come from one"
    " counter. A host that restarts and comes back at another address is told apart as nothing of its old life is heard"
    " any more: both must have been heard, the QP1 PSNs of the one running on while the other speaks.",
    advice="Give each machine a CA GUID of its own and reload its driver. Virtual functions: `ip link set dev PF vf N"
    " node_guid GUID` on their host. Soft RoCE makes the GUID of the interface's MAC address, so a cloned machine needs"
    " a MAC address of its own. Until then the two go on throwing each other out whenever their QPNs meet.",
    rests_on=(),  # both were heard
)


# By then the owner of the QPN may have been heard again.
@X12.on_event("ENDED", history=rejected, once="subject")
def one_guid_two_machines(connection: Connection, event: Event, context: Context) -> Verdicts:
    for role, conflict, reject, _ in context.refusals.elsewhere(connection):
        end, old, holder = connection.end(role), conflict.other, connection.peer(role)
        if not context.witness.two_machines(conflict, connection, role):
            continue
        if not context.traces.in_one_stretch((*old.steps, *connection.steps)):
            continue  # "went on" is a matter of time
        owner, ca = old.end(conflict.owner), end.ca_guid or 0
        lived = [step for step in old.steps if step.sender == conflict.owner and between(reject, step) > 0]
        closed = " and sent a DREQ for it" if of_type(old, "DREQ", sender=PEER[conflict.owner]) else ""
        asked = of_type(connection, "REQ" if role == "active" else "REP")
        yield Verdict(
            f"CA GUID {guid(ca)} is at {address(owner.address)} and at {address(end.address)}: two machines, as their"
            f" Communication IDs are of two boots and both go on. {end_name(holder)} takes them for one: it holds QPN"
            f" {qpn(owner.qpn)} connected to {end_name(owner)} (connection {old.id}), so it refused {end_name(end)} as"
            f" stale{closed}, though nothing was wrong with connection {old.id}.",
            {
                "ca_guid": Guid(ca),
                "addresses": [address(owner.address), address(end.address)],
                "qpn": Qpn(owner.qpn or 0),
            },
            (unopposed("same machine"),),
            steps=(*asked[:1], reject, *lived[:1]),
            related=(old,),
            advice=X12.advice if ca else f"{NO_GUID} {X12.advice}",
            subject=ca,
        )


X13 = rule(
    "X13",
    "address-taken-over",
    "An address is at another machine, or port, than before",
    severity="info",
    clause="RFC 5227 (announcing an address); Linux bonding, VRRP, cluster managers",
    explanation="REQs and REPs from one address named one CA GUID first and another one later, or came from another MAC"
    " address: the address has moved, as a fail-over of a service's address or of a bond does, or a replaced adapter."
    " The new machine knows nothing of the connections of the one before. It may take a QPN that was connected there,"
    " so that is no fault; connections to the one before break off without a word. A peer that has not noticed the"
    " move goes on sending to the old place (X09).",
    false_positives="None: it says what the packets show. Two machines that claim one address, or two ports of one host"
    " that answer for it by turns, look the same. A new MAC address alone counts only where no router has sent the"
    " packets on.",
    advice="Nothing to do if the move was meant. Else look for a second host with this address.",
    rests_on=(),
)


@X13.on_event("MOVED", once="subject")
def address_taken_over(connection: Connection, event: Event, context: Context) -> Verdicts:
    if event.step is None:
        return
    last, step = context.restarts.moves[event.step.message.source]
    before, after = last.message, step.message
    old_guid, new_guid = _guid(before), _guid(after)
    old_mac, new_mac = shown(before), shown(after)
    changes: list[str] = []
    evidence: dict[str, Value] = {"last_frame": FrameNumber(before.file, before.frame)}
    if old_guid != new_guid:
        changes.append(f"CA GUID {guid(new_guid)} instead of {guid(old_guid)}")
        evidence |= {"ca_guid": Guid(new_guid), "last_ca_guid": Guid(old_guid)}
    if old_mac is not None and new_mac is not None and old_mac.mac != new_mac.mac:
        told = context.neighbourhood.holders(new_mac.vlan_ids, after.source)[-1:]
        announced = told and told[0].first.mac == new_mac.mac and told[0].first.time <= after.time
        changes.append(
            f"MAC address {new_mac.mac.hex(':')} instead of {old_mac.mac.hex(':')}"
            + (f", announced in {context.frame(told[0].first)}" if announced else "")
        )
        evidence |= {"mac": new_mac.mac.hex(":"), "last_mac": old_mac.mac.hex(":")}
    if changes:
        who = "another machine" if old_guid != new_guid else "another port"
        yield Verdict(
            f"{address(after.source)} is {who} now: {', '.join(changes)}. The one before was heard last in"
            f" {context.frame(before)}, {duration(between(last, step))} earlier.",
            evidence | {"gap": Duration(between(last, step))},
            steps=(last, step),
            subject=(after.source, new_guid, new_mac and new_mac.mac),
        )


X14 = rule(
    "X14",
    "clients-not-back",
    "Hosts that were connected to one that restarted have not come back",
    severity="info",
    clause="no specification clause: connecting again is the consumer's affair",
    explanation="A host restarted. Others were connected to it until then, or until it closed their connections"
    " shortly before, and have sent it no REQ for the same service since. The CM does not connect anew by itself: their"
    " programs have to, and did not, or not on a path that was captured. Those that were heard since are up. One that"
    " closed its connection by a DREQ which was answered is not counted.",
    false_positives="A client that had finished, or that goes to another server or address now, has no reason to come"
    " back. Another machine that took the address over (X13) counts as no restart. Reported only when the capture goes"
    " on for a minute after the restart.",
    advice="Look at the log of the program on those hosts, why it does not connect again: it may have given up after a"
    " number of attempts (NVMe: ctrl_loss_tmo, reconnect_delay), or wait for an event that it never got.",
    rests_on=(),
)

SHORTLY: Final = 300 * SECOND  # before the restart shows, a host that shuts down closes its connections
PATIENCE: Final = 60 * SECOND  # after it, until those who come back have done so
MOST_CLIENTS: Final = 4096  # remembered


class Left(NamedTuple):
    """How a client was left by its server."""

    time: int
    service: str


# An RTU, and no DREQ of the active side that the server answered.
@X14.on_event("ENDED", history=matches("[^DU]*U([^D]*|[^De]*D[^e]*)"))
def client_left(connection: Connection, event: Event, context: Context) -> Verdicts:
    server, memory = connection.passive, context.memory["X14"]
    time = server.restarted or connection.closed
    if time is not None:
        memory[server.address, connection.active.address, connection.service_id] = Left(
            time, connection_service(connection)
        )
        if len(memory) > MOST_CLIENTS:
            del memory[next(iter(memory))]
    return ()


@X14.on_capture_end
def clients_not_back(end: CaptureEnd, context: Context) -> Verdicts:
    last = max((known.latest for known in context.traces.inputs.values()), default=0)
    gone: dict[tuple[Address, str], tuple[Break, list[Address]]] = {}
    memory: dict[tuple[Address, Address, int | None], Left] = context.memory["X14"]  # type: ignore[assignment]
    for (server, client, service_id), left in memory.items():
        restart = context.traces.restart(server, left.time - 1, left.time + SHORTLY)
        if restart is None or last - restart.after.time < PATIENCE or server in context.restarts.moves:
            continue
        if context.restarts.request_after(client, server, service_id, left.time) is None:
            gone.setdefault((server, left.service), (restart, []))[1].append(client)
    for (server, service), (restart, clients) in gone.items():
        since = restart.after.time
        newest = [(client, context.ports.newest(client)) for client in clients]
        heard = [client for client, word in newest if word is not None and word.time > since]
        silent = [client for client in clients if client not in heard]
        yield Verdict(
            f"{address(server)} restarted (seen in"
            f" {context.frame(restart.after)}). Of its clients for {service},"
            f" {count(len(clients), 'has', 'have')} sent no REQ to it in the {duration(last - since)} since: "
            + "; ".join(
                f"{addresses(who)}, {how}" for who, how in ((heard, "heard since"), (silent, "not heard since")) if who
            )
            + ".",
            {"clients": len(clients), "heard_since": len(heard), "waited": Duration(last - since)},
            (unopposed("same machine"),),
            frames=[(message.file, message.frame) for message in (restart.before, restart.after)],
            time=since,
        )


def _guid(message: CmMessage) -> int:
    fields = message.fields
    return (fields.local_ca_guid if isinstance(fields, (Req, Rep)) else None) or 0
