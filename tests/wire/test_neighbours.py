"""ARP and neighbour discovery: what a frame announces, and who is known to have an address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import (
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptMTU,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
)
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from dissectors.encapsulation import ERF, ERFEthernet, ERFExtension
from dissectors.fields import gid_bytes
from ibcmtool.packets import Address, Frame, Neighbour
from ibcmtool.wire import neighbours
from ibcmtool.wire.neighbours import Neighbourhood
from ibcmtool.wire.notices import notice
from ibcmtool.wire.notices import told as read

MAC, OTHER = "52:54:00:aa:00:02", "52:54:00:aa:00:09"
IPV4, IPV6 = "10.77.0.2", "fe80::2"
ETHER = Ether(src=MAC, dst="ff:ff:ff:ff:ff:ff")
REPLY = ARP(op=2, hwsrc=MAC, psrc=IPV4, hwdst=OTHER, pdst="10.77.0.9")
V6 = IPv6(src=IPV6, dst="ff02::1", hlim=255)
ADVERTISEMENT = V6 / ICMPv6ND_NA(tgt=IPV6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=MAC)
SOLICITATION = V6 / ICMPv6ND_NS(tgt="fe80::1") / ICMPv6NDOptSrcLLAddr(lladdr=MAC)


def told(packet, link_type=1):
    """(address, MAC, VLANs) as text; None where nothing is announced."""
    found = read(link_type, bytes(packet))
    return found and (found.gid, found.mac.hex(":"), found.vlan_ids)


@pytest.mark.parametrize(
    ("packet", "address"),
    [
        (REPLY, IPV4),
        (ARP(op=1, hwsrc=MAC, psrc=IPV4, pdst="10.77.0.1"), IPV4),
        (ARP(op=1, hwsrc=MAC, psrc=IPV4, pdst=IPV4), IPV4),  # gratuitous
        (ADVERTISEMENT, IPV6),
        (SOLICITATION, IPV6),
        (V6 / ICMPv6ND_NS(tgt="fe80::1") / ICMPv6NDOptMTU() / ICMPv6NDOptSrcLLAddr(lladdr=MAC), IPV6),
        (IPv6(src="fe80::7", hlim=255) / ICMPv6ND_NA(tgt="fd77::2", O=1) / ICMPv6NDOptDstLLAddr(lladdr=MAC), "fd77::2"),
    ],
)
def test_announcements(packet, address):
    assert told(ETHER / packet) == (gid_bytes(address), MAC, ())


@pytest.mark.parametrize(
    "packet",
    [
        ARP(op=1, hwsrc=MAC, psrc="0.0.0.0", pdst=IPV4),  # a probe, RFC 5227
        ARP(op=3, hwsrc=MAC, psrc=IPV4),  # RARP
        ARP(op=2, hwsrc="00:00:00:00:00:00", psrc=IPV4),
        ARP(op=2, hwsrc="01:00:5e:00:00:01", psrc=IPV4),
        ARP(op=2, hwtype=32, hwlen=20, ptype=0x0800, plen=4) / Raw(bytes(40)),  # IPoIB
        V6 / ICMPv6ND_NA(tgt=IPV6, O=0) / ICMPv6NDOptDstLLAddr(lladdr=MAC),  # a proxy's
        V6 / ICMPv6ND_NA(tgt=IPV6, O=1),
        V6 / ICMPv6ND_NA(tgt=IPV6, O=1) / ICMPv6NDOptSrcLLAddr(lladdr=MAC),
        V6 / ICMPv6ND_RA() / ICMPv6NDOptSrcLLAddr(lladdr=MAC),
        IPv6(src="::", hlim=255) / ICMPv6ND_NS(tgt=IPV6) / ICMPv6NDOptSrcLLAddr(lladdr=MAC),
        IPv6(src=IPV6, hlim=64) / ICMPv6ND_NA(tgt=IPV6, O=1) / ICMPv6NDOptDstLLAddr(lladdr=MAC),  # from elsewhere
        V6 / ICMPv6ND_NA(tgt=IPV6, O=1) / Raw(bytes(16)),  # an option without a length
        IP() / UDP(),
    ],
)
def test_what_announces_nothing(packet):
    assert told(ETHER / packet) is None


def test_padding_is_no_option():
    """An advertisement's options end where its IPv6 header says."""
    packet = ETHER / V6 / ICMPv6ND_NA(tgt=IPV6, O=1)
    assert told(bytes(packet) + bytes(ICMPv6NDOptDstLLAddr(lladdr=MAC))) is None


@pytest.mark.parametrize(
    ("link_type", "link", "vlan_ids"),
    [
        (1, ETHER / Dot1Q(vlan=77), (77,)),
        (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77), (7, 77)),
        (1, ETHER / Dot1Q(vlan=0, prio=3), ()),
        (113, CookedLinux(), ()),
        (113, CookedLinux() / Dot1Q(vlan=77), (77,)),
        (276, CookedLinuxV2(), ()),
        (197, ERF() / ERFEthernet() / ETHER, ()),
        (197, ERF(type="Ethernet") / ERFExtension(type=17) / ERFEthernet() / ETHER / Dot1Q(vlan=5), (5,)),
    ],
)
@pytest.mark.parametrize(("packet", "address"), [(REPLY, IPV4), (ADVERTISEMENT, IPV6)])
def test_every_link_type(link_type, link, vlan_ids, packet, address):
    assert told(link / packet, link_type) == (gid_bytes(address), MAC, vlan_ids)


def test_link_types_without_mac_addresses():
    assert told(bytes(100), 247) is None
    assert told(ETHER / REPLY, 228) is None
    assert told(ERF(type=21) / Raw(bytes(ETHER / REPLY)), 197) is None


@given(st.sampled_from([1, 113, 197, 247, 276]), st.sampled_from([REPLY, ADVERTISEMENT, SOLICITATION]), st.data())
def test_never_raises(link_type, packet, data):
    content = bytearray(bytes(ETHER / packet))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read(link_type, bytes(content[: data.draw(st.integers(0, len(content)))]))


def test_record_of_a_frame():
    data = bytes(ETHER / REPLY)
    frame = Frame(1, 7, 1_000, 1, data, len(data))
    assert notice(frame) == Neighbour(1, 7, 1_000, Address(gid_bytes(IPV4)), bytes.fromhex(MAC.replace(":", "")), ())


# -- who has it --------------------------------------------------------------------------------------------------------


def at(time: int, mac: bytes, address: str = IPV4, vlan_ids: tuple[int, ...] = ()) -> Neighbour:
    return Neighbour(0, time, time, Address(gid_bytes(address)), mac, vlan_ids)


def known(neighbourhood: Neighbourhood, address: str = IPV4, vlan_ids: tuple[int, ...] = ()) -> list[tuple]:
    holders = neighbourhood.holders(vlan_ids, Address(gid_bytes(address)))
    return [(holder.last.mac, holder.first.time, holder.last.time) for holder in holders]


def test_holders_come_in_the_order_of_their_last_word():
    neighbourhood = Neighbourhood()
    for time, mac in ((1, b"aaaaaa"), (2, b"bbbbbb"), (5, b"aaaaaa"), (3, b"bbbbbb")):
        neighbourhood.note(at(time, mac))
    assert known(neighbourhood) == [(b"bbbbbb", 2, 3), (b"aaaaaa", 1, 5)]
    assert known(neighbourhood, vlan_ids=(7,)) == []


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(neighbours, "MOST_ADDRESSES", 3)
    neighbourhood = Neighbourhood()
    for number in range(5):
        neighbourhood.note(at(number, b"aaaaaa", f"10.0.0.{number}"))
        neighbourhood.note(at(number, b"aaaaaa", "10.0.0.99"))
    assert known(neighbourhood, "10.0.0.99")
    assert [bool(known(neighbourhood, f"10.0.0.{number}")) for number in range(5)] == [False] * 3 + [True] * 2
    for number in range(9):
        neighbourhood.note(at(number, bytes([number]) * 6))
    assert len(known(neighbourhood)) == neighbours.MOST_HOLDERS
