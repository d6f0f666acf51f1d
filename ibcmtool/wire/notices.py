"""What frames tell that have no BTH: who has an IP address (neighbours.py), which packet was not delivered."""

from __future__ import annotations

import struct
from typing import Final

from ibcmtool.packets import Address, Frame, Neighbour, Undelivered
from ibcmtool.wire import Buffer
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.neighbours import Announcement, announcement
from ibcmtool.wire.network import ICMP, IPV4
from ibcmtool.wire.tunnels import CARRIERS, layers
from ibcmtool.wire.undelivered import Complaint, complaint

_TELLING: Final = CARRIERS | {ICMP}  # protocols


def told(link_type: int, data: Buffer) -> Announcement | Complaint | None:
    """What a frame tells; None for nearly all frames. Never raises."""
    try:
        link = LINK_TYPES.get(link_type)
        carried = None if link is None else link.carried(data)
        if carried is None:
            return None
        kind, at = carried
        if kind == IPV4 and data[at + 9] not in _TELLING:
            return None  # at once: a capture may hold much TCP
        layer = layers(data, at, kind)[-1]
        return announcement(data, layer) or complaint(data, layer)
    except (IndexError, struct.error):
        return None


def notice(frame: Frame) -> Neighbour | Undelivered | None:
    """The same as a record."""
    found = told(frame.link_type, frame.data)
    if found is None:
        return None
    place = frame.file, frame.number, frame.time
    if isinstance(found, Announcement):
        return Neighbour(*place, Address(found.gid), found.mac, found.vlan_ids)
    ends = Address(found.reporter), Address(found.source), Address(found.destination)
    return Undelivered(*place, *ends, found.reason)
