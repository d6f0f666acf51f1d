"""What stands around a MAD in its frame: the headers of the link, the network and the transport, in one record.

The decoder keeps the bytes in front of a MAD (`CmMessage.headers`) and reads only what every message needs; the rules
about the packet itself ask here. Offsets and widths come from the layers, as in readers.py, and from the record of the
link type.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ibcmtool.packets import IPV4_MAPPED, CmMessage
from ibcmtool.wire.header_readers import read_global_route, read_local_route, read_transport
from ibcmtool.wire.link_record import LinkType
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.network import Kind
from ibcmtool.wire.readers import layer_size
from ibcmtool.wire.tunnels import OUTER, layers

_LRH_SIZE: Final = layer_size("LRH")

_ipv4: Final = struct.Struct("!xB6xB3x4s4s").unpack_from  # type of service, time to live, source, destination
_tag_control: Final = struct.Struct("!H").unpack_from


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
    data, link = message.headers, LINK_TYPES.get(message.link_type)
    if link is None or not data:
        return None
    try:
        found = link.find(data)
        if found is None:
            return None
        kind, network, bth, _ = found
        return Envelope._make(
            (
                *read_transport(data, bth),
                *_lids(kind, data, network),
                *_route(kind, data, network),
                *_ethernet(link, data),
            )
        )
    except (IndexError, struct.error):
        return None


def _lids(kind: Kind, data: bytes, network: int) -> tuple[int | None, int | None, int | None]:
    """Source LID, destination LID and service level."""
    if kind not in ("lrh", "lrh+grh"):
        return None, None, None
    slid, dlid, service_level = read_local_route(data, network if kind == "lrh" else network - _LRH_SIZE)
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
    return read_global_route(data, network)  # an IPv6 header has the same layout


def _ethernet(link: LinkType, data: bytes) -> tuple[bytes | None, bytes | None, tuple[int, ...]]:
    """MAC addresses of source and destination, and the ids of the tags in front of the network header.

    Inside a tunnel those of the Ethernet frame in it, if there is one: the outer ones are those of its ends.
    """
    carried = link.carried(data)
    if carried is None:
        return *link.macs(data), ()
    found = layers(data, carried[1], carried[0])
    _, at, tags, ethernet = found[-1]
    vlan_ids = tuple(_tag_control(data, tag)[0] & 0xFFF for tag in range(tags, at, 4))
    if len(found) == 1:
        return *link.macs(data), vlan_ids
    if ethernet == OUTER:
        return None, None, vlan_ids
    return data[ethernet + 6 : ethernet + 12], data[ethernet : ethernet + 6], vlan_ids
