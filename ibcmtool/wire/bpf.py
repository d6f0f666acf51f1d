"""Capture filters: what libpcap is asked for, so that the kernel hands out CM packets and nothing else of the traffic.

Wanted are UD SEND ONLY packets to QP 1 whose MAD is of class 7 (CommMgt), plain or in a tunnel over IPv4, and what
the rules on unanswered REQs look at: ARP, IPv6 neighbour discovery, ICMP errors. A filter belongs to one link type.

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
    ICMP,
    ICMPV6,
    IPV4,
    IPV6,
    IPV6_SIZE,
    PORT_AT,
    ROCE_PORT,
    ROCE_V1,
    SOLICITATION,
    UDP,
    UDP_SIZE,
    VLAN_TYPES,
)
from ibcmtool.wire.readers import layer_size, layout
from ibcmtool.wire.tunnels import (
    BRIDGED,
    ERSPAN_II,
    ERSPAN_II_SIZE,
    ERSPAN_III,
    ERSPAN_III_SIZE,
    ETHERNET_SIZE,
    GENEVE_PORT,
    GENEVE_SIZE,
    GRE,
    GRE_KEY,
    GRE_SEQUENCE,
    IP_IN_IP,
    IPV6_IN_IP,
    MPLS_TYPES,
    VXLAN_PORTS,
    VXLAN_SIZE,
    gre_size,
)
from ibcmtool.wire.undelivered import ICMP_SIZE, UNREACHABLE, UNREACHABLE_V6

IPV4_SIZE, TAG = 20, 4
MOST_TAGS = 2
MOST_LABELS = 2

_at: Final = {f"{layer}.{slot.name}": slot.bit_offset // 8 for layer in ("BTH", "MAD", "LRH") for slot in layout(layer)}
_QPN: Final = _at["BTH.dest_qp"] - 1  # of the word whose lower 24 bits it is
_CLASS: Final = layer_size("BTH") + layer_size("DETH") + _at["MAD.mgmt_class"]
_LNH: Final = _at["LRH.lnh"]

_UNTAGGED: Final = f"udp port {ROCE_PORT} or ether proto {ROCE_V1:#x} or arp or icmp6"
# To be typed for tcpdump: all packets of RoCE, data too, and what tells of neighbours, behind one tag or none.
TYPED: Final = f"{_UNTAGGED} or (vlan and ({_UNTAGGED}))"


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
UNTAGGED_IPV4: Final = f"(udp dst port {ROCE_PORT} and {_cm('udp', UDP_SIZE)})"


def ipv4(at: int) -> str:
    """A CM packet over IPv4, whose header stands at this offset and has no options.

    With fixed offsets: of Linux cooked frames the kernel can test no others.
    """
    udp = at + IPV4_SIZE
    return (
        f"link[{at}] = 0x45 and link[{at + 6}:2] & 0x1fff = 0 and link[{at + 9}] = {UDP} "
        f"and link[{udp + 2}:2] = {ROCE_PORT} and {_cm('link', udp + UDP_SIZE)}"
    )


def ipv6(at: int) -> str:
    """The same over IPv6, without extension headers."""
    udp = at + IPV6_SIZE
    return f"link[{at + 6}] = {UDP} and link[{udp + 2}:2] = {ROCE_PORT} and {_cm('link', udp + UDP_SIZE)}"


def discovery(at: int) -> str:
    """IPv6 neighbour discovery, and errors about packets that were not delivered."""
    message = f"link[{at + IPV6_SIZE}]"
    kinds = any_of(*(f"{message} = {kind}" for kind in (SOLICITATION, ADVERTISEMENT, UNREACHABLE_V6)))
    return f"link[{at + 6}] = {ICMPV6} and ({kinds})"


def unreachable(at: int) -> str:
    """An ICMP error that quotes a RoCE v2 packet, neither of them with options."""
    port = at + 2 * IPV4_SIZE + ICMP_SIZE + PORT_AT
    return (
        f"link[{at}] = 0x45 and link[{at + 9}] = {ICMP} and link[{at + IPV4_SIZE}] = {UNREACHABLE} "
        f"and link[{port}:2] = {ROCE_PORT}"
    )


def _messages(type_at: int, at: int) -> Iterator[str]:
    """CM packets behind the EtherType at offset `type_at`, each with a header at offset `at`."""
    kind = f"link[{type_at}:2]"
    yield f"({kind} = {IPV4:#x} and {ipv4(at)})"
    yield f"({kind} = {IPV6:#x} and {ipv6(at)})"
    yield f"({kind} = {ROCE_V1:#x} and {_cm('link', at + layer_size('GRH'))})"


def _packet(type_at: int, at: int) -> str:
    """What is wanted of the EtherType at offset `type_at` and the packet at offset `at`."""
    kind = f"link[{type_at}:2]"
    others = (
        f"({kind} = {ARP:#x})",
        f"({kind} = {IPV6:#x} and {discovery(at)})",
        f"({kind} = {IPV4:#x} and {unreachable(at)})",
    )
    return (
        "("
        + any_of(*_messages(type_at, at), *others, f"({kind} = {IPV4:#x} and {_tunnels(at)})", *_labels(kind, at))
        + ")"
    )


def _tunnels(at: int) -> str:
    """CM packets in what mirrors put around them, over IPv4 without options at `at`, and behind at most one inner tag.

    Of GRE and Geneve the kernel can test only headers whose length is known: those without options, and ERSPAN's.
    """
    payload, protocol = at + IPV4_SIZE, f"link[{at + 9}]"
    gre, udp = f"{protocol} = {GRE} and link[{payload}:4]", f"{protocol} = {UDP} and link[{payload + PORT_AT}:2]"
    behind_udp = payload + UDP_SIZE
    sequence = GRE_SEQUENCE << 16
    frames = (
        (f"{gre} = {BRIDGED:#x}", payload + gre_size(0)),
        (f"{gre} = {GRE_KEY << 16 | BRIDGED:#x}", payload + gre_size(GRE_KEY)),
        (f"{gre} = {ERSPAN_II:#x}", payload + gre_size(0)),
        (f"{gre} = {sequence | ERSPAN_II:#x}", payload + gre_size(GRE_SEQUENCE) + ERSPAN_II_SIZE),
        (f"{gre} = {sequence | ERSPAN_III:#x}", payload + gre_size(GRE_SEQUENCE) + ERSPAN_III_SIZE),
        (f"{udp} = {min(VXLAN_PORTS)}", behind_udp + VXLAN_SIZE),
        (f"{udp} = {GENEVE_PORT} and link[{behind_udp}] = 0", behind_udp + GENEVE_SIZE),
    )
    cases = [f"({test} and ({_framed(begin)}))" for test, begin in frames]
    cases.append(f"({protocol} = {IP_IN_IP} and {ipv4(payload)})")
    cases.append(f"({protocol} = {IPV6_IN_IP} and {ipv6(payload)})")
    return f"link[{at}] = 0x45 and link[{at + 6}:2] & 0x3fff = 0 and ({any_of(*cases)})"


def _labels(kind: str, at: int) -> Iterator[str]:
    """CM packets over IP behind MPLS labels."""
    bottom = ""
    for _ in range(MOST_LABELS):
        at += 4
        ip = any_of(f"({ipv4(at)})", f"(link[{at}] & 0xf0 = 0x60 and {ipv6(at)})")
        yield f"({one_of(kind, MPLS_TYPES)} and {bottom}link[{at - 2}] & 1 = 1 and ({ip}))"
        bottom += f"link[{at - 2}] & 1 = 0 and "


def _framed(begin: int) -> str:
    """A CM packet in the Ethernet frame that begins at this offset, behind one tag or none."""
    type_at = begin + ETHERNET_SIZE - 2
    tagged = any_of(*_messages(type_at + TAG, type_at + TAG + 2))
    plain = any_of(*_messages(type_at, type_at + 2))
    return f"{plain} or ({one_of(f'link[{type_at}:2]', VLAN_TYPES)} and ({tagged}))"


def behind_ether_type(type_at: int, at: int) -> Iterator[str]:
    """What is wanted of a frame with its first EtherType at offset `type_at`, behind any number of tags."""
    tags = ""
    for _ in range(MOST_TAGS + 1):
        yield f"({tags}{_packet(type_at, at)})"
        tags += f"{one_of(f'link[{type_at}:2]', VLAN_TYPES)} and "
        type_at, at = at + TAG - 2, at + TAG


def behind_nothing() -> str:
    """IP from the first byte on."""
    version_6 = "link[0] & 0xf0 = 0x60"
    return any_of(
        UNTAGGED_IPV4,
        f"({ipv4(0)})",
        f"({_tunnels(0)})",
        f"({unreachable(0)})",
        f"({version_6} and {ipv6(0)})",
        f"({version_6} and {discovery(0)})",
    )


def behind_lrh(at: int) -> str:
    """InfiniBand, from the LRH on: with a GRH behind it, or without."""
    local = at + layer_size("LRH")
    routed = local + layer_size("GRH")
    lnh = f"link[{at + _LNH}] & 3"
    return f"(({lnh} = 2 and {_cm('link', local)}) or ({lnh} = 3 and {_cm('link', routed)}))"
