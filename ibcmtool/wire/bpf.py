"""Capture filters: what libpcap is asked for, so that the kernel hands out CM packets and nothing else of the traffic.

Wanted are UD SEND ONLY packets to QP 1 whose MAD is of class 7 (CommMgt), and what tells of neighbours: ARP and IPv6
neighbour discovery, which the rules on unanswered REQs look at. A filter belongs to one link type.

VLAN tags are looked for by bytes: none, one or two of them. libpcap's `vlan` cannot be used in filters as large as
these: it keeps the place of the tag in a scratch register, which tests in front of it may overwrite (seen with 1.10.3,
where QinQ frames were missed). From a frame that came in, the kernel takes the outer tag away before the filter sees
it, and libpcap puts it back afterwards; a frame that goes out has all of its tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dissectors.recognition import CM_CLASS, GSI_QPN, UD_SEND_ONLY
from ibcmtool.wire.network import (
    ADVERTISEMENT,
    ARP,
    ICMPV6,
    IPV4,
    IPV6,
    ROCE_PORT,
    ROCE_V1,
    SOLICITATION,
    UDP,
    VLAN_TYPES,
)
from ibcmtool.wire.readers import layer_size, layout

IPV6_HEADER, UDP_HEADER, TAG = 40, 8, 4
MOST_TAGS = 2

_at: Final = {f"{layer}.{slot.name}": slot.bit_offset // 8 for layer in ("BTH", "MAD", "LRH") for slot in layout(layer)}
_QPN: Final = _at["BTH.dest_qp"] - 1  # of the word whose lower 24 bits it is
_CLASS: Final = layer_size("BTH") + layer_size("DETH") + _at["MAD.mgmt_class"]
_LNH: Final = _at["LRH.lnh"]


def any_of(*cases: str) -> str:
    """A clause that holds where one of these does."""
    return " or ".join(cases)


def one_of(place: str, values: frozenset[int]) -> str:
    """A clause for a place that holds one of these values."""
    return "(" + any_of(*(f"{place} = {value:#x}" for value in sorted(values))) + ")"


def _cm(base: str, bth: int) -> str:
    """A CM packet whose BTH stands at this offset of what libpcap calls `base`."""
    return (
        f"{base}[{bth}] = {UD_SEND_ONLY:#x} and {base}[{bth + _QPN}:4] & 0xffffff = {GSI_QPN} "
        f"and {base}[{bth + _CLASS}] = {CM_CLASS}"
    )


# The one case in which an IPv4 header may have options.
UNTAGGED_IPV4: Final = f"(udp dst port {ROCE_PORT} and {_cm('udp', UDP_HEADER)})"


def _packet(type_at: int, at: int) -> str:
    """What is wanted of the EtherType at offset `type_at` and the packet at offset `at`.

    With fixed offsets, so IPv4 headers without options: of Linux cooked frames the kernel can test no others.
    """
    kind = f"link[{type_at}:2]"
    udp4, udp6 = at + 20, at + IPV6_HEADER
    ipv4 = (
        f"{kind} = {IPV4:#x} and link[{at}] = 0x45 and link[{at + 6}:2] & 0x1fff = 0 and link[{at + 9}] = {UDP} "
        f"and link[{udp4 + 2}:2] = {ROCE_PORT} and {_cm('link', udp4 + UDP_HEADER)}"
    )
    ipv6 = (
        f"{kind} = {IPV6:#x} and link[{at + 6}] = {UDP} "
        f"and link[{udp6 + 2}:2] = {ROCE_PORT} and {_cm('link', udp6 + UDP_HEADER)}"
    )
    roce_v1 = f"{kind} = {ROCE_V1:#x} and {_cm('link', at + layer_size('GRH'))}"
    arp = f"{kind} = {ARP:#x}"
    message = f"link[{at + IPV6_HEADER}]"
    discovery = (
        f"{kind} = {IPV6:#x} and link[{at + 6}] = {ICMPV6} "
        f"and ({message} = {SOLICITATION} or {message} = {ADVERTISEMENT})"
    )
    cases = (ipv4, ipv6, roce_v1, arp, discovery)
    return "(" + any_of(*(f"({case})" for case in cases)) + ")"


def behind_ether_type(type_at: int, at: int) -> Iterator[str]:
    """What is wanted of a frame with its first EtherType at offset `type_at`, behind any number of tags."""
    tags = ""
    for _ in range(MOST_TAGS + 1):
        yield f"({tags}{_packet(type_at, at)})"
        tags += f"{one_of(f'link[{type_at}:2]', VLAN_TYPES)} and "
        type_at, at = at + TAG - 2, at + TAG


def behind_lrh(at: int) -> str:
    """InfiniBand, from the LRH on: with a GRH behind it, or without."""
    local = at + layer_size("LRH")
    routed = local + layer_size("GRH")
    lnh = f"link[{at + _LNH}] & 3"
    return f"(({lnh} = 2 and {_cm('link', local)}) or ({lnh} = 3 and {_cm('link', routed)}))"
