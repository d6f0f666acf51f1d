"""How a connection record begins: from a REQ, from a SIDR_REQ, or from the middle."""

from __future__ import annotations

from collections.abc import Callable

from ibcmtool.connections.codes import MRA_OF_REQ, REQ_REJECTED
from ibcmtool.connections.connection_index import Match
from ibcmtool.model import CmMessage, Connection, End, Role

# (service id, private data of the REQ) -> names of the active and of the passive end, where they are in there
EndpointNames = Callable[[int, bytes], "tuple[str, str] | None"]


def new_connection(number: int, message: CmMessage, endpoint_names: EndpointNames | None) -> Connection:
    """A connection that begins with this REQ or SIDR_REQ; both ends stand as before it."""
    active, passive = End("active", message.source, "IDLE"), End("passive", message.destination, "LISTEN")
    connection = Connection(number, active, passive, message.transport, message.time)
    connection.sidr = message.type == "SIDR_REQ"
    _read_request(connection, message, endpoint_names)
    return connection


def adopt(connection: Connection, message: CmMessage, endpoint_names: EndpointNames | None) -> None:
    """Give a connection whose beginning seemed missing its REQ, which was captured late or is a repetition."""
    _read_request(connection, message, endpoint_names)
    connection.outcome = "connecting" if connection.established is None else "established"


def _read_request(connection: Connection, message: CmMessage, endpoint_names: EndpointNames | None) -> None:
    fields, active = message.fields, connection.active
    connection.request, connection.service_id = fields, fields.service_id
    if connection.sidr:
        active.comm_id = fields.request_id
    else:
        active.comm_id, active.ca_guid, active.qpn = fields.local_comm_id, fields.local_ca_guid, fields.local_qpn
    if endpoint_names is not None and fields.service_id is not None and fields.private_data is not None:
        names = endpoint_names(fields.service_id, fields.private_data)
        if names is not None:
            active.name, connection.passive.name = names


def partial_connection(number: int, message: CmMessage) -> Match:
    """A connection whose beginning was not captured, as far as this message tells of it."""
    sender = _likely_sender(message)
    ends = {
        "active": End("active", message.source, "UNKNOWN"),
        "passive": End("passive", message.destination, "UNKNOWN"),
    }
    if sender == "passive":
        ends["active"].address, ends["passive"].address = message.destination, message.source
    fields = message.fields
    if message.type == "SIDR_REP":
        ends["active"].comm_id = fields.request_id
    else:
        # A REJ may carry zeros, and in a stateless one the Local Communication ID is no id at all.
        ends[sender].comm_id = fields.local_comm_id or None
        ends["passive" if sender == "active" else "active"].comm_id = fields.remote_comm_id or None
    if message.type == "DREQ":
        ends["passive" if sender == "active" else "active"].qpn = fields.remote_qpn
    if message.type == "REP":
        ends["passive"].qpn, ends["passive"].ca_guid = fields.local_qpn, fields.local_ca_guid
    connection = Connection(number, ends["active"], ends["passive"], message.transport, message.time, outcome="partial")
    connection.sidr = message.type == "SIDR_REP"
    if message.type == "REP":
        connection.reply = fields
    return connection, sender


def _likely_sender(message: CmMessage) -> Role:
    """Which end sends such a message; of a DREQ, DREP or LAP nobody can tell: `active` stands for the first sender."""
    if message.type in ("REP", "SIDR_REP"):
        return "passive"
    if message.type == "MRA":
        return "passive" if message.fields.message_mraed == MRA_OF_REQ else "active"
    if message.type == "REJ":
        return "passive" if message.fields.message_rejected == REQ_REJECTED else "active"
    if message.type == "APR":
        return "passive"
    return "active"
