"""Capture filters: what libpcap is asked for, so that the kernel hands out CM packets and nothing else of the traffic.

Wanted are UD SEND ONLY packets to QP 1 whose MAD is of class 7 (CommMgt), and what tells of neighbours: ARP and IPv6
neighbour discovery, as the rules on unanswered REQs ask for them. A filter belongs to one link type.

Two properties of libpcap decide how the filters are written. `vlan` moves all offsets behind it, also behind the
following `or`, so whatever it must not move stands in front, and the second `vlan` means a second tag. And the kernel
takes the outer tag away from a frame that came in: `vlan` knows that, tests by bytes see the frame without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.recognition import CM_CLASS, GSI_QPN, UD_SEND_ONLY
from ibcmtool.frames import (
    ERF,
    ERF_ETHERNET,
    ETHERNET,
    INFINIBAND,
    IPV6,
    LINUX_SLL,
    LINUX_SLL2,
    ROCE_PORT,
    VLAN_TYPES,
)
from ibcmtool.readers import layer_size, layout

IPV4, ROCE_V1 = 0x0800, 0x8915
UDP = 17
IPV6_HEADER, UDP_HEADER, TAG = 40, 8, 4
ERF_HEADER, ERF_EXTENSION, ERF_PAD = 16, 8, 2  # the last in front of an Ethernet frame
ERF_INFINIBAND = 21
MOST_EXTENSIONS = 2  # of an ERF header
SOLICITATION, ADVERTISEMENT = 135, 136

_at = {f"{layer}.{slot.name}": slot.bit_offset // 8 for layer in ("BTH", "MAD", "LRH") for slot in layout(layer)}
_QPN = _at["BTH.dest_qp"] - 1  # of the word whose lower 24 bits it is
_CLASS = layer_size("BTH") + layer_size("DETH") + _at["MAD.mgmt_class"]
_LNH = _at["LRH.lnh"]


def bpf_filter(link_type: int) -> str:
    """The filter expression for a link type among frames.FINDERS."""
    return " or ".join(_FILTERS[link_type]())


def _cm(base: str, bth: int) -> str:
    """A CM packet whose BTH stands at this offset of what libpcap calls `base`."""
    return (
        f"{base}[{bth}] = {UD_SEND_ONLY:#x} and {base}[{bth + _QPN}:4] & 0xffffff = {GSI_QPN} "
        f"and {base}[{bth + _CLASS}] = {CM_CLASS}"
    )


# By protocol, for Ethernet and behind `vlan`: the offsets are libpcap's business.
_V4 = f"(udp dst port {ROCE_PORT} and {_cm('udp', UDP_HEADER)})"
_V6 = f"(ip6 and ip6[6] = {UDP} and ip6[{IPV6_HEADER + 2}:2] = {ROCE_PORT} and {_cm('ip6', IPV6_HEADER + UDP_HEADER)})"
_DISCOVERY = f"(ip6 and ip6[6] = 58 and (ip6[{IPV6_HEADER}] = {SOLICITATION} or ip6[{IPV6_HEADER}] = {ADVERTISEMENT}))"
_ROUTED = f"({_V4} or {_V6} or arp or {_DISCOVERY})"


def _any_of(place: str, values: frozenset[int]) -> str:
    return "(" + " or ".join(f"{place} = {value:#x}" for value in sorted(values)) + ")"


def _roce_v1(type_at: int, network: int) -> str:
    """By bytes: offsets of the EtherType and of the GRH."""
    return f"(link[{type_at}:2] = {ROCE_V1:#x} and {_cm('link', network + layer_size('GRH'))})"


def _tagged(type_at: int, network: int, tags: int) -> tuple[str, int, int]:
    """The test for so many VLAN tags, where the EtherType behind them is, and what follows it."""
    tests = []
    for _ in range(tags):
        tests.append(_any_of(f"link[{type_at}:2]", VLAN_TYPES))
        type_at, network = network + 2, network + TAG
    return " and ".join(tests), type_at, network


def _ethernet() -> Iterator[str]:
    yield _ROUTED
    yield _roce_v1(12, 14)
    for tags in (1, 2):
        test, type_at, network = _tagged(12, 14, tags)
        yield f"({test} and {_roce_v1(type_at, network)})"
    yield f"(vlan and {_ROUTED})"
    yield f"(vlan and {_ROUTED})"


def _cooked(type_at: int, network: int) -> Iterator[str]:
    """Linux "cooked" frames, for which libpcap has no `vlan`.

    Offsets behind tags are numbers, for IPv4 headers without options: only then the kernel can do the filtering.
    """
    yield _ROUTED
    yield _roce_v1(type_at, network)
    for tags in (1, 2):
        test, *places = _tagged(type_at, network, tags)
        yield f"({test} and {_by_bytes(*places)})"


def _by_bytes(type_at: int, network: int) -> str:
    """RoCE of any version behind an EtherType."""
    kind = f"link[{type_at}:2]"
    udp4, udp6 = network + 20, network + IPV6_HEADER
    return (
        f"({_roce_v1(type_at, network)}"
        f" or ({kind} = {IPV4:#x} and link[{network}] = 0x45 and link[{network + 6}:2] & 0x1fff = 0"
        f" and link[{network + 9}] = {UDP} and link[{udp4 + 2}:2] = {ROCE_PORT} and {_cm('link', udp4 + UDP_HEADER)})"
        f" or ({kind} = {IPV6:#x} and link[{network + 6}] = {UDP} and link[{udp6 + 2}:2] = {ROCE_PORT}"
        f" and {_cm('link', udp6 + UDP_HEADER)}))"
    )


def _native(at: int) -> str:
    """InfiniBand, from the LRH on: with a GRH behind it, or without."""
    local = at + layer_size("LRH")
    routed = local + layer_size("GRH")
    lnh = f"link[{at + _LNH}] & 3"
    return f"(({lnh} = 2 and {_cm('link', local)}) or ({lnh} = 3 and {_cm('link', routed)}))"


def _infiniband() -> Iterator[str]:
    yield _native(0)


def _erf() -> Iterator[str]:
    """Records of InfiniBand and of Ethernet, with as many extension headers as are met."""
    for extensions in range(MOST_EXTENSIONS + 1):
        heads = [8, *range(ERF_HEADER, ERF_HEADER + ERF_EXTENSION * extensions, ERF_EXTENSION)]
        more = " and ".join(f"link[{at}] & 0x80 {'=' if at == heads[-1] else '!='} 0" for at in heads)
        at = ERF_HEADER + ERF_EXTENSION * extensions
        yield f"({more} and link[8] & 0x7f = {ERF_INFINIBAND} and {_native(at)})"
        ethernet = []
        for tags in (0, 1, 2):
            test, *places = _tagged(at + ERF_PAD + 12, at + ERF_PAD + 14, tags)
            ethernet.append(f"({test + ' and ' if test else ''}{_by_bytes(*places)})")
        yield f"({more} and {_any_of('link[8] & 0x7f', ERF_ETHERNET)} and ({' or '.join(ethernet)}))"


_FILTERS = {
    ETHERNET: _ethernet,
    LINUX_SLL: lambda: _cooked(14, 16),
    LINUX_SLL2: lambda: _cooked(0, 20),
    INFINIBAND: _infiniband,
    ERF: _erf,
}
