"""The JSON of a connection: its service, its two ends, its times, and its messages.

Written straight as text: an analysis may have tens of thousands of them.
"""

from __future__ import annotations

from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted

from ibcmtool import formatting, services
from ibcmtool.model import Address, Connection, End
from ibcmtool.reports import values
from ibcmtool.reports.message_json import messages_text

_QPN = f'"{values.number_format("qpn")}"'
_COMM_ID = f'"{values.number_format("comm_id")}"'
_SERVICE_ID = f'"{values.number_format("service_id")}"'


def connection_text(conn: Connection, display_filter: str) -> str:
    """One connection as a JSON object, with the Wireshark filter that shows its frames."""
    duration = None if conn.closed is None else conn.closed - conn.opened
    return (
        f'{{"id": {conn.id}, "outcome": "{conn.outcome}", "history": {quoted(conn.history)}, '
        f'"service": {{"id": {"null" if conn.service_id is None else _SERVICE_ID % conn.service_id}, '
        f'"name": {quoted(services.connection_service(conn))}}}, '
        f'"transport": "{conn.transport}", "display_filter": "{display_filter}", '
        f'"active": {_end_text(conn.active)}, "passive": {_end_text(conn.passive)}, '
        f'"opened": {_time(conn.opened)}, "established": {_time(conn.established)}, '
        f'"closed": {_time(conn.closed)}, "duration": {_time(duration)}, '
        f'"messages": [{messages_text(conn.steps)}]}}'
    )


def _end_text(end: End) -> str:
    return (
        f'{{"name": {quoted(formatting.end_name(end))}, {_port_text(end.ca_guid, end.address)}, '
        f'"qpn": {"null" if end.qpn is None else _QPN % end.qpn}, '
        f'"comm_id": {"null" if end.comm_id is None else _COMM_ID % end.comm_id}, "state": "{end.state}", '
        f'"timewait_until": {_time(None if end.timewait is None else end.timewait.likely)}, '
        f'"implementation": {"null" if end.implementation is None else quoted(end.implementation.name)}}}'
    )


@lru_cache(4096)
def _port_text(ca_guid: int | None, address: Address) -> str:
    """What is the same for all connections of a port."""
    guid = "null" if ca_guid is None else f'"{formatting.guid(ca_guid)}"'
    gid = "null" if address.gid is None else f'"{formatting.gid(address.gid)}"'
    return f'"ca_guid": {guid}, "gid": {gid}, "lid": {"null" if address.lid is None else address.lid}'


def _time(ns: int | None) -> str:
    """A time or duration."""
    return "null" if ns is None else f'"{formatting.seconds(ns)}"'
