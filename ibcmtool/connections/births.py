"""How a connection record begins: from a REQ, from a SIDR_REQ, or from the middle."""

from __future__ import annotations

from collections.abc import Callable

from ibcmtool.connections.book import Match
from ibcmtool.model import CmMessage, Connection, End, Role


def new_connection(
    number: int, message: CmMessage, endpoint_names: Callable[[int, bytes], tuple[str, str] | None] | None
) -> Connection:
    """A connection that begins with this REQ or SIDR_REQ; both ends stand as before it."""
    fields = message.fields
    active, passive = End("active", message.source, "IDLE"), End("passive", message.destination, "LISTEN")
    if message.type == "SIDR_REQ":
        active.comm_id = fields.request_id
    else:
        active.comm_id, active.ca_guid, active.qpn = fields.local_comm_id, fields.local_ca_guid, fields.local_qpn
    if endpoint_names is not None and fields.service_id is not None and fields.private_data is not None:
        names = endpoint_names(fields.service_id, fields.private_data)
        if names is not None:
            active.name, passive.name = names
    return Connection(
        number,
        active,
        passive,
        message.transport,
        message.time,
        sidr=message.type == "SIDR_REQ",
        service_id=fields.service_id,
        request=fields,
    )


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
    return Match(connection, sender)


def _likely_sender(message: CmMessage) -> Role:
    """Which end sends such a message; of a DREQ, DREP or LAP nobody can tell: `active` stands for the first sender."""
    if message.type in ("REP", "SIDR_REP"):
        return "passive"
    if message.type == "MRA":
        return "passive" if message.fields.message_mraed == 0 else "active"
    if message.type == "REJ":
        return "passive" if message.fields.message_rejected == 0 else "active"
    if message.type == "APR":
        return "passive"
    return "active"
