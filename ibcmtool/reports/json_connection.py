"""The JSON of a connection: its service, its two ends, its times; its messages are written in json_messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import TypeVar

from ibcmtool import formatting, services
from ibcmtool.connections.knowledge import knowledge
from ibcmtool.connections.release import retry_of
from ibcmtool.model import Connection, Role
from ibcmtool.packets import Address
from ibcmtool.reports import rejects
from ibcmtool.reports.json_messages import messages_text
from ibcmtool.reports.json_rows import refusal_object
from ibcmtool.views.tally import refusal_of

T = TypeVar("T")


def connection_text(conn: Connection, display_filter: str) -> str:
    """One connection as a JSON object, with the Wireshark filter that shows its frames."""
    retry = retry_of(conn)
    safe = "" if retry is None else f'"earliest_safe_retry": {_time(retry.time)}, "retry_basis": "{retry.basis}", '
    return (
        f'{{"id": {conn.id}, "outcome": "{conn.outcome}", "history": {quoted(conn.history)}, '
        f'"service": {{"id": {_identifier(conn.service_id, formatting.service_id)}, '
        f'"name": {quoted(services.connection_service(conn))}}}, '
        f'"transport": "{conn.transport}", "display_filter": "{display_filter}", '
        f'"active": {_end_text(conn, "active")}, "passive": {_end_text(conn, "passive")}, '
        f'"opened": {_time(conn.opened)}, "established": {_time(conn.established)}, '
        f'"closed": {_time(conn.closed)}, "duration": {_time(conn.lasted())}, {safe}'
        f'"refusal": {_refusal_text(conn)}, '
        f'"messages": [{messages_text(conn.steps)}]}}'
    )


def _refusal_text(conn: Connection) -> str:
    refusal = refusal_of(conn)
    if refusal is None:
        return "null"
    return json.dumps({**refusal_object(refusal), "meaning": rejects.meaning(conn) or None})


def _end_text(conn: Connection, role: Role) -> str:
    end = conn.end(role)
    return (
        f'{{"name": {quoted(formatting.end_name(end))}, {_port_text(end.ca_guid, end.address)}, '
        f'"qpn": {_identifier(end.qpn, formatting.qpn)}, '
        f'"comm_id": {_identifier(end.comm_id, formatting.comm_id)}, "state": "{end.state}", '
        f'"knowledge": "{knowledge(conn, role)}", '
        f'"timewait_until": {_time(None if end.timewait is None else end.timewait.likely)}, '
        f'"implementation": {"null" if end.implementation is None else quoted(end.implementation.name)}}}'
    )


@lru_cache(4096)
def _port_text(ca_guid: int | None, address: Address) -> str:
    """What is the same for all connections of a port."""
    gid, lid = _identifier(address.gid, formatting.gid), "null" if address.lid is None else str(address.lid)
    return f'"ca_guid": {_identifier(ca_guid, formatting.guid)}, "gid": {gid}, "lid": {lid}'


def _identifier(value: T | None, written: Callable[[T], str]) -> str:
    return "null" if value is None else f'"{written(value)}"'


def _time(ns: int | None) -> str:
    """A time or duration."""
    return "null" if ns is None else f'"{formatting.seconds(ns)}"'
