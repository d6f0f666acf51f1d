"""Service ids in words, and what the private data of a connection says.

A service id is 64 bits. Its first byte (AGN) says who administers it: 0x00 IBTA, 0x01 IETF, 0x02 local. The IBTA gave
0x0000000001PPpppp to the RDMA IP CM Service (annex A11): PP is an IP protocol number, pppp a port; Linux calls the
16 bits 0x01PP a port space. `name` and `endpoint_names` work on the bare bytes and load nothing; the other functions
import the Scapy layers of `dissectors.private_data` when they are first called.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.messages import Rej, Rep, Req, SidrRep
from ibcmtool.service_ports import PORTS

if TYPE_CHECKING:
    from ibcmtool.model import Connection
    from ibcmtool.packets import CmMessage

_IP_CM: Final = 0x0000000001  # the upper 40 bits of every RDMA IP CM service id
_IP_CM_HEADER: Final = struct.Struct("!2xH16s16s")  # source port, source and destination address
_NO_ENDS: Final = b"\0\x40".ljust(_IP_CM_HEADER.size, b"\0")  # such a header with zeros for them
_IPV4_PADDING: Final = bytes(12)
_PORT_SPACES: Final = {0x06: "TCP", 0x11: "UDP", 0x3F: "IB"}  # 0x3F is Linux's own, for AF_IB addresses
_TCP_SERVICES: Final = {**PORTS, 445: "SMB Direct"}  # which has no private data of its own
# RFC 4755 puts the UD QPN under the IETF's byte 0x01; Linux has always put it under 0x10, one hex digit off.
_IPOIB_CM_BASES: Final = (0x0100000000000000, 0x1000000000000000)


def name(service_id: int) -> str:
    """The service that an id stands for, e.g. "NVMe/RDMA 4420", "RDMA UDP 7174" or "IPoIB-CM UD QPN 0x000048"."""
    if service_id >> 24 == _IP_CM:
        port = service_id & 0xFFFF
        if service_id >> 16 & 0xFF == 0x06 and port in _TCP_SERVICES:
            return f"{_TCP_SERVICES[port]} {port}"
        return _port_name(service_id)
    if service_id >> 16 == 0x0001:
        return f"SDP {service_id & 0xFFFF}"
    if service_id >> 16 == 0x0002:
        return f"RDMA IPoIB {service_id & 0xFFFF}"
    if service_id & ~0xFFFFFF in _IPOIB_CM_BASES:
        return f"IPoIB-CM UD QPN 0x{service_id & 0xFFFFFF:06x}"
    owner = {0x00: "IBTA assigned ", 0x01: "IETF assigned ", 0x02: "locally administered "}.get(service_id >> 56, "")
    return f"{owner}0x{service_id:016x}"


def _port_name(service_id: int) -> str:
    """ "RDMA TCP 7174": an RDMA IP CM service without the name that goes with its port."""
    protocol = service_id >> 16 & 0xFF
    return f"RDMA {_PORT_SPACES.get(protocol, f'IP protocol {protocol}')} {service_id & 0xFFFF}"


def connection_service(connection: Connection) -> str:
    """The service of a connection: its service id in words, made more precise by the private data of its REQ."""
    service_id, data = connection.service_id, _request_data(connection)
    if service_id is None:
        return "unknown"
    if connection.passive.name:  # from the RDMA IP CM header; who connects does not tell the service
        data = _NO_ENDS + data[_IP_CM_HEADER.size :]
    return _service(service_id, data)


@lru_cache(maxsize=4096)  # one application's requests mostly carry the same data
def _service(service_id: int, data: bytes) -> str:
    by_id = name(service_id)
    if not any(data[_IP_CM_HEADER.size :] if service_id >> 24 == _IP_CM else data):
        return by_id  # nothing to recognise; the layers need not be loaded
    from dissectors import private_data as formats

    protocol = formats.recognise(service_id, data)
    if protocol is formats.RDMA_IP_CM_SERVICE and formats.recognise(service_id, b"") is not protocol:
        return _port_name(service_id)  # the data are not those of the protocol that the port stands for
    if protocol is None or protocol is formats.RDMA_IP_CM_SERVICE or by_id.startswith(protocol.name):
        return by_id
    if service_id >> 24 == _IP_CM:
        return f"{protocol.name} (RDMA CM port {service_id & 0xFFFF})"
    return protocol.name


def private_data(connection: Connection, message: CmMessage) -> list[tuple[str, str]] | None:
    """The telling fields of a message's private data as (name, value), the most telling one first.

    None where nothing is known: other messages than REQ, REP and REJ, a connection whose REQ was not captured or names
    no protocol that we know, private data that does not have the protocol's form. REP and REJ carry no service id: they
    are read as what the REQ of their connection was.

    A consumer's reject is told as ("", "Lustre: connection race lost ..."), or as text or bytes where its form is not
    known. A REJ with any other reason than 28 is the CM's own: its private data say nothing, so that REJ 10 (stale
    connection) cannot be taken for a consumer's "stale".
    """
    fields = message.fields
    if not isinstance(fields, (Req, Rep, Rej)) or (connection.service_id is None and not isinstance(fields, Rej)):
        return None
    if isinstance(fields, Rej) and fields.reason != CONSUMER_REJECT:
        return None
    service_id, data = connection.service_id or 0, fields.private_data or b""
    from dissectors import private_data as formats
    from dissectors.text import data_words

    words: list[tuple[str, str]] = []
    if isinstance(fields, Rej) and service_id >> 24 == _IP_CM:
        length = fields.reject_info_length or 0
        words += formats.ip_cm_reject_words((fields.additional_reject_info or b"")[:length])
    protocol = formats.recognise(service_id, _request_data(connection))
    said = [] if protocol is None else formats.words(protocol, message.type, data)
    for label, value in said:
        refusal = message.type == "REJ" and label == "reason"  # its words are this protocol's, not the CM's
        words.append(("", f"{protocol.short_name}: {value}") if refusal and protocol else (label, value))
    if isinstance(fields, Rej) and not said and any(data):
        shown = data_words(data)
        words.append(("" if shown.startswith('"') else "private data", shown))
    return words or None


def refusal_words(connection: Connection, message: CmMessage) -> str:
    """What a REJ or SIDR_REP says beyond its reason or status: a consumer's words, or what would be accepted; or ""."""
    from dissectors.cm_codes import additional_reject_info, additional_sidr_info

    fields = message.fields
    if isinstance(fields, SidrRep):
        pairs = [additional_sidr_info(fields.status or 0, fields.additional_info or b"")]
    elif isinstance(fields, Rej) and fields.reason != CONSUMER_REJECT:
        length, info = fields.reject_info_length or 0, fields.additional_reject_info or b""
        pairs = [additional_reject_info(fields.reason or 0, length, info)]
    else:
        pairs = [*(private_data(connection, message) or ())]
    # A label says what a number is; the consumer's reason stands without one, first.
    known = [pair for pair in pairs if pair is not None]
    return next((value for label, value in known if not label), "") or ", ".join(f"{one} {two}" for one, two in known)


def refuses_with_words(service: str) -> str:
    """The short name of a service's protocol, if its programs say in private data why they refuse; else ""."""
    from dissectors import private_data as formats

    protocols = (protocol for protocol in formats.PROTOCOLS if "REJ" in protocol.layers)
    return next((protocol.short_name for protocol in protocols if service.startswith(protocol.name)), "")


def _request_data(connection: Connection) -> bytes:
    """Private data of the connection's REQ; empty where it was not captured."""
    return (connection.request and connection.request.private_data) or b""


def endpoint_names(service_id: int, private_data: bytes) -> tuple[str, str] | None:
    """The ends that the RDMA IP CM header of a REQ or SIDR_REQ names: ("10.77.0.2:41234", "10.77.0.1:4420").

    IPv6 addresses stand in brackets. The port is left out where the header has none (0, as librdmacm sends over AF_IB).
    None without a header: another class of service id, fewer than 36 bytes, or bytes that Linux would refuse
    (a version that is not 0, an IP version that is neither 4 nor 6) or that no IPv4 address has before it.
    """
    ip_version = _ip_version(private_data) if service_id >> 24 == _IP_CM else None
    if ip_version is None:
        return None
    source_port, source, destination = _IP_CM_HEADER.unpack_from(private_data)
    source_name, destination_name = _ip_name(ip_version, source), _ip_name(ip_version, destination)
    return f"{source_name}:{source_port}" if source_port else source_name, f"{destination_name}:{service_id & 0xFFFF}"


def _ip_version(private_data: bytes) -> int | None:
    """4 or 6 where the private data of a REQ begin with a valid RDMA IP CM header."""
    if len(private_data) < _IP_CM_HEADER.size or private_data[0] != 0:
        return None
    version = private_data[1] >> 4
    if version == 4:
        return 4 if private_data[4:16] == private_data[20:32] == _IPV4_PADDING else None
    return 6 if version == 6 else None


@lru_cache(maxsize=4096)
def _ip_name(version: int, address: bytes) -> str:
    """An address of the header as text."""
    if version == 4:
        return ".".join(map(str, address[12:]))
    from dissectors.text import gid_text

    return f"[{gid_text(address)}]"
