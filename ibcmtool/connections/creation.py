"""How a connection record begins: from a REQ, from a SIDR_REQ, or from the middle."""

from __future__ import annotations

from collections.abc import Callable

from ibcmtool.connections.codes import MRA_OF_REQ, OTHER_REJECTED, REQ_REJECTED, TIMEOUT
from ibcmtool.connections.connection_index import Match
from ibcmtool.connections.matching import refusal, reply_qpn
from ibcmtool.messages import Apr, Dreq, Mra, Paired, Rej, Rep, Req, Request, SidrRep, SidrReq
from ibcmtool.model import PEER, Conflict, Connection, End, Role
from ibcmtool.packets import CmMessage

# (service id, private data of the REQ) -> names of the active and of the passive end, where they are in there
EndpointNames = Callable[[int, bytes], "tuple[str, str] | None"]


def new_connection(
    number: int, message: CmMessage, request: Request, endpoint_names: EndpointNames | None
) -> Connection:
    """A connection that begins with this REQ or SIDR_REQ, of these fields; both ends stand as before it."""
    active, passive = End("active", message.source, "IDLE"), End("passive", message.destination, "LISTEN")
    connection = Connection(number, active, passive, message.transport, message.time)
    connection.sidr = isinstance(request, SidrReq)
    _read_request(connection, request, endpoint_names)
    return connection


def adopt(connection: Connection, request: Req, endpoint_names: EndpointNames | None) -> None:
    """Give a connection whose beginning seemed missing its REQ, which was captured late or is a repetition."""
    _read_request(connection, request, endpoint_names)
    if connection.reject is not None:  # it was captured behind its answer, which stands
        connection.outcome = refusal(connection.reject.message)
    else:
        connection.outcome = "connecting" if connection.established is None else "established"


def _read_request(connection: Connection, request: Request, endpoint_names: EndpointNames | None) -> None:
    active = connection.active
    connection.request, connection.service_id = request, request.service_id
    if isinstance(request, SidrReq):
        active.comm_id = request.request_id
    else:
        active.comm_id, active.ca_guid, active.qpn = request.local_comm_id, request.local_ca_guid, request.local_qpn
    if endpoint_names is not None and request.service_id is not None and request.private_data is not None:
        names = endpoint_names(request.service_id, request.private_data)
        if names is not None:
            active.name, connection.passive.name = names


def stale_connection(number: int, message: CmMessage, fields: Dreq, attempt: Connection, holder: Role) -> Match:
    """A connection from before the capture: the end in role `holder` refused `attempt`, and sends the DREQ it owes.

    The DREQ names the QPN that was refused: so both ends are known (IBA 12.9.8.3.1).
    """
    match = partial_connection(number, message, fields, holder)
    connection, owner = match[0], attempt.end(PEER[holder])
    connection.outcome, connection.stale_by = "stale", attempt
    connection.end(PEER[holder]).ca_guid, connection.end(PEER[holder]).state = owner.ca_guid, "IDLE"
    explain(attempt, holder, Conflict(connection, PEER[holder], True, "IDLE", "ESTABLISHED"))
    return match


def explain(attempt: Connection, holder: Role, conflict: Conflict) -> None:
    """Why the end in role `holder` refused an attempt, as its DREQ has shown."""
    if holder == "passive":
        attempt.request_conflicts += (conflict,)
    else:
        attempt.reply_conflicts += (conflict,)


def partial_connection(number: int, message: CmMessage, fields: Paired | SidrRep, sent_by: Role | None = None) -> Match:
    """A connection whose beginning was not captured, as far as this message, of these fields, tells of it."""
    role = sent_by or _likely_sender(fields)
    sender, receiver = End(role, message.source, "UNKNOWN"), End(PEER[role], message.destination, "UNKNOWN")
    active, passive = (sender, receiver) if role == "active" else (receiver, sender)
    connection = Connection(number, active, passive, message.transport, message.time, outcome="partial")
    if isinstance(fields, SidrRep):
        connection.sidr = True
        active.comm_id = fields.request_id
        return connection, role
    # A REJ may carry zeros, and in a stateless one the Local Communication ID is no id at all.
    sender.comm_id, receiver.comm_id = fields.local_comm_id or None, fields.remote_comm_id or None
    if isinstance(fields, Dreq):
        receiver.qpn = fields.remote_qpn
    elif isinstance(fields, Rep):
        connection.reply = fields
        passive.qpn, passive.ca_guid = reply_qpn(connection, fields), fields.local_ca_guid
    return connection, role


def _likely_sender(fields: Paired | SidrRep) -> Role:
    """Which end sends such a message; of a DREQ, DREP or LAP nobody can tell: `active` stands for the first sender."""
    if isinstance(fields, Mra):
        return "passive" if fields.message_mraed == MRA_OF_REQ else "active"
    if isinstance(fields, Rej):  # one that names no message: an active side's timeout, or a passive side lets go
        rejected = fields.message_rejected
        let_go = rejected == OTHER_REJECTED and fields.reason != TIMEOUT
        return "passive" if rejected == REQ_REJECTED or let_go else "active"
    return "passive" if isinstance(fields, (Rep, SidrRep, Apr)) else "active"
