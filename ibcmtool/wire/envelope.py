"""What stands around a MAD in its frame: the headers of the link, the network and the transport, in one record.

The decoder keeps the bytes in front of a MAD (`CmMessage.headers`) and reads only what every message needs; the rules
about the packet itself ask here. Offsets and widths come from the layers, as in readers.py; those of Ethernet and of
Linux cooked captures, which have no layer of ours, stand here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ibcmtool.model import IPV4_MAPPED, CmMessage
from ibcmtool.wire.frames import ERF, ERF_ETHERNET_PAD, FINDERS, LINUX_SLL, LINUX_SLL2, Kind, erf_record
from ibcmtool.wire.readers import layer_size, stack_reader

_ARPHRD_ETHERNET = 1
_LRH_SIZE = layer_size("LRH")

_transport = stack_reader(("BTH", "DETH"), "partition_key", "dest_qp", "source_qp", "q_key")
_local_route = stack_reader(("LRH",), "slid", "dlid", "service_level")
_global_route = stack_reader(("GRH",), "hop_limit", "traffic_class", "flow_label", "sgid", "dgid")  # an IPv6 header too
_ipv4 = struct.Struct("!xB6xB3x4s4s").unpack_from  # type of service, time to live, source, destination
_macs = struct.Struct("!6s6s").unpack_from  # destination, source
_vlan_tag = struct.Struct("!2xH").unpack_from  # tag control
_sll = struct.Struct("!2xHH6s").unpack_from  # ARPHRD_ type, address length, address
_sll2 = struct.Struct("!8xHxB6s").unpack_from


class Envelope(NamedTuple):
    """The packet around a MAD. None for what its link type or its network header has not, or did not capture.

    GIDs are 16 bytes (RoCE v2 over IPv4: IPv4-mapped), MAC addresses 6. `hop_limit` and `traffic_class` are IPv4's time
    to live and type of service there. `vlan_ids` holds the outer tag first; empty without tags, and without Ethernet.
    """

    partition_key: int
    destination_qp: int
    source_qp: int
    q_key: int
    slid: int | None
    dlid: int | None
    service_level: int | None
    hop_limit: int | None
    traffic_class: int | None
    flow_label: int | None
    source_gid: bytes | None
    destination_gid: bytes | None
    source_mac: bytes | None
    destination_mac: bytes | None
    vlan_ids: tuple[int, ...]


def envelope(message: CmMessage) -> Envelope | None:
    """The envelope of a message; None where its source has no headers, or where they cannot be read. Never raises."""
    data, link_type = message.headers, message.link_type
    finder = FINDERS.get(link_type)
    if finder is None or not data:
        return None
    try:
        found = finder(data)
        if found is None:
            return None
        kind, network, bth, _ = found
        return Envelope._make(
            (
                *_transport(data, bth),
                *_lids(kind, data, network),
                *_route(kind, data, network),
                *_link(link_type, kind, data, network),
            )
        )
    except (IndexError, struct.error):
        return None


def _lids(kind: Kind, data: bytes, network: int) -> tuple[int | None, int | None, int | None]:
    """Source LID, destination LID and service level."""
    if kind not in ("lrh", "lrh+grh"):
        return None, None, None
    slid, dlid, service_level = _local_route(data, network if kind == "lrh" else network - _LRH_SIZE)
    return slid, dlid, service_level


def _route(
    kind: Kind, data: bytes, network: int
) -> tuple[int | None, int | None, int | None, bytes | None, bytes | None]:
    """Hop limit, traffic class, flow label, source and destination GID."""
    if kind == "lrh":
        return None, None, None, None, None
    if kind == "ipv4":
        service, hops, source, destination = _ipv4(data, network)
        return hops, service, None, IPV4_MAPPED + source, IPV4_MAPPED + destination
    hops, traffic_class, flow_label, sgid, dgid = _global_route(data, network)
    return hops, traffic_class, flow_label, sgid, dgid


def _link(link_type: int, kind: Kind, data: bytes, network: int) -> tuple[bytes | None, bytes | None, tuple[int, ...]]:
    """Source and destination MAC address, VLAN ids."""
    if kind in ("lrh", "lrh+grh"):
        return None, None, ()
    if link_type == LINUX_SLL:
        return _cooked_source(*_sll(data)), None, _vlan_ids(data, 16, network)
    if link_type == LINUX_SLL2:
        return _cooked_source(*_sll2(data)), None, _vlan_ids(data, 20, network)
    start = erf_record(data)[1] + ERF_ETHERNET_PAD if link_type == ERF else 0
    destination, source = _macs(data, start)
    return source, destination, _vlan_ids(data, start + 14, network)


def _cooked_source(hardware: int, length: int, address: bytes) -> bytes | None:
    """The one address that a cooked capture has, if it is a MAC address."""
    return address if hardware == _ARPHRD_ETHERNET and length == len(address) else None


def _vlan_ids(data: bytes, first: int, network: int) -> tuple[int, ...]:
    """The ids of the tags between the link layer's first type field, which ends at `first`, and the network header."""
    return tuple(_vlan_tag(data, at - 2)[0] & 0xFFF for at in range(first, network, 4))
