"""Which MAC address has an IP address? What stations announce by ARP and by IPv6 neighbour discovery.

ARP (RFC 826): requests and replies, the gratuitous ones among them, tell the sender's addresses; a probe (RFC 5227)
tells none. Neighbour discovery (RFC 4861): a solicitation tells those of its source, an advertisement those of its
target, if it overrides what others know; one that does not is a proxy's or an anycast address's. InfiniBand has no MAC
addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from ibcmtool.packets import IPV4_MAPPED, Address, CmMessage, Neighbour
from ibcmtool.wire import Buffer
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.network import ADVERTISEMENT, ARP, ICMPV6, IPV6, SOLICITATION
from ibcmtool.wire.tunnels import Layer

MOST_ADDRESSES = 4096  # of which it is remembered who had them; those that were told of longest ago are forgotten
MOST_HOLDERS = 4  # of one address
FIRST_HOP_LIMITS: Final = frozenset({64, 128, 255})  # what hosts begin with; a router takes one off

_ARP_ETHERNET_IPV4: Final = 1, 0x0800, 6, 4  # hardware and protocol, lengths of their addresses
_ARP_REQUEST, _ARP_REPLY = 1, 2

_OVERRIDE: Final = 0x20  # flag of an advertisement
_SOURCE_MAC, _TARGET_MAC = 1, 2  # options
_UNROUTED: Final = 255  # the hop limit that shows that a message comes from a neighbour
_OPTIONS: Final = 24  # where they begin in both messages
_MOST_OPTIONS: Final = 8

_short: Final = struct.Struct("!H").unpack_from
_arp: Final = struct.Struct("!HHBBH6s4s").unpack_from  # operation, the sender's MAC and IP address behind the above
_ipv6: Final = struct.Struct("!4xHBB16s").unpack_from  # payload length, next header, hop limit, source
_icmpv6: Final = struct.Struct("!BB2xB3x16s").unpack_from  # type, code, flags, target
_option: Final = struct.Struct("!BB6s").unpack_from

_time: Final = attrgetter("time")


class Announcement(NamedTuple):
    """What a frame tells: an IP address, as a GID, and its MAC address; and in which VLAN (see `named`)."""

    gid: bytes
    mac: bytes
    vlan_ids: tuple[int, ...]


def announcement(data: Buffer, layer: Layer) -> Announcement | None:
    """What the innermost layer of a frame announces. May raise IndexError, struct.error."""
    kind, at, tags, _ = layer
    told = _arp_sender(data, at) if kind == ARP else _discovered(data, at) if kind == IPV6 else None
    if told is None or told[1][0] & 1 or not any(told[1]):  # no station's MAC address
        return None
    return Announcement(*told, named([_short(data, tag)[0] & 0xFFF for tag in range(tags, at, 4)]))


def _arp_sender(data: Buffer, at: int) -> tuple[bytes, bytes] | None:
    """IP address and MAC address of the sender of an ARP packet."""
    *kinds, operation, mac, address = _arp(data, at)
    if tuple(kinds) != _ARP_ETHERNET_IPV4 or operation not in (_ARP_REQUEST, _ARP_REPLY) or not any(address):
        return None
    return IPV4_MAPPED + address, mac


def _discovered(data: Buffer, at: int) -> tuple[bytes, bytes] | None:
    """IP address and MAC address that a neighbour solicitation or advertisement tells."""
    length, next_header, hop_limit, source = _ipv6(data, at)
    if next_header != ICMPV6 or hop_limit != _UNROUTED:
        return None
    at += 40
    kind, code, flags, target = _icmpv6(data, at)
    if code or kind not in (SOLICITATION, ADVERTISEMENT):
        return None
    if kind == SOLICITATION:
        address, wanted = source, _SOURCE_MAC
    else:
        address, wanted = target, _TARGET_MAC if flags & _OVERRIDE else 0
    if not any(address):
        return None  # a probe for a duplicate
    end, at = at + length, at + _OPTIONS
    for _ in range(_MOST_OPTIONS):
        if at + 8 > end:
            break
        option, units, mac = _option(data, at)
        if option == wanted:
            return address, mac
        if not units:
            break
        at += units * 8
    return None


def shown(message: CmMessage) -> Neighbour | None:
    """The MAC address that a message shows its sender to have; None where a router may have sent it on."""
    around = envelope(message)
    if around is None or around.source_mac is None:
        return None
    if message.transport != "RoCE v1" and around.hop_limit not in FIRST_HOP_LIMITS:
        return None
    place = message.file, message.frame, message.time
    return Neighbour(*place, message.source, around.source_mac, named(around.vlan_ids))


def named(vlan_ids: Sequence[int]) -> tuple[int, ...]:
    """The VLANs that tags name: one with id 0 gives a priority only (IEEE 802.1Q)."""
    return tuple(filter(None, vlan_ids))


class Holder(NamedTuple):
    """A MAC address that an IP address had: where that showed first, and where last."""

    first: Neighbour
    last: Neighbour


class Neighbourhood:
    """Who has had which IP address, of the addresses told of last. An address counts per VLAN."""

    def __init__(self) -> None:
        self._holders: dict[tuple[tuple[int, ...], Address], Sequence[Holder]] = {}

    def holders(
        self, vlan_ids: tuple[int, ...], address: Address, spoken: Sequence[Neighbour] = ()
    ) -> Sequence[Holder]:
        """Those known to have had the address, the one that showed it last at the end.

        spoken: what else shows it, of that address.
        """
        known = self._holders.get((vlan_ids, address), ())
        for told in spoken:
            known = _with(known, told)
        return known

    def note(self, told: Neighbour) -> None:
        """Remember it."""
        key = told.vlan_ids, told.address
        self._holders[key] = _with(self._holders.pop(key, ()), told)
        if len(self._holders) > MOST_ADDRESSES:
            del self._holders[next(iter(self._holders))]


def _with(known: Sequence[Holder], told: Neighbour) -> tuple[Holder, ...]:
    """The holders of an address, with what shows one of them."""
    holder = Holder(told, told)
    for other in known:
        if other.first.mac == told.mac:
            holder = Holder(min(other.first, told, key=_time), max(other.last, told, key=_time))
    others = [other for other in known if other.first.mac != told.mac]
    return tuple(sorted((*others, holder), key=lambda each: each.last.time)[-MOST_HOLDERS:])
