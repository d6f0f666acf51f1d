"""What stands around a MAD, by link type; nothing of it raises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet

from dissectors.cm import CM_RTU
from dissectors.encapsulation import ERF, ERFEthernet, ERFExtension
from dissectors.fields import gid_bytes
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.envelope import Envelope, envelope
from ibcmtool.wire.links import LINK_TYPES

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
MACS = {"source_mac": bytes.fromhex("020000000001"), "destination_mac": bytes.fromhex("020000000002")}
IPV4 = IP(src="10.77.0.1", dst="10.77.0.2", ttl=61, tos=0x68) / UDP(sport=50_000, dport=4791)
V4 = {
    "hop_limit": 61,
    "traffic_class": 0x68,
    "source_gid": gid_bytes("10.77.0.1"),
    "destination_gid": gid_bytes("10.77.0.2"),
}
IPV6 = IPv6(src="fd77::1", dst="fd77::2", hlim=62, tc=0x69, fl=0x12345)
IPV6_UDP = IPV6 / UDP(sport=50_000, dport=4791)
V6 = {
    "hop_limit": 62,
    "traffic_class": 0x69,
    "flow_label": 0x12345,
    "source_gid": gid_bytes("fd77::1"),
    "destination_gid": gid_bytes("fd77::2"),
}
GLOBAL = GRH(sgid="fe80::1", dgid="fe80::2", hop_limit=63, traffic_class=0x6A, flow_label=0x54321)
GRH_FIELDS = {
    "hop_limit": 63,
    "traffic_class": 0x6A,
    "flow_label": 0x54321,
    "source_gid": gid_bytes("fe80::1"),
    "destination_gid": gid_bytes("fe80::2"),
}
LOCAL = LRH(slid=18, dlid=12, service_level=3)
LRH_FIELDS = {"slid": 18, "dlid": 12, "service_level": 3}
CM = BTH(partition_key=0x8005, psn=7) / DETH(source_qp=0x77) / MAD() / CM_RTU()

STACKS: list[tuple[str, int, Packet, dict[str, Any]]] = [
    ("RoCE v2", 1, ETHER / IPV4, V4 | MACS),
    ("IPv6", 1, ETHER / IPV6_UDP, V6 | MACS),
    ("hop-by-hop", 1, ETHER / IPV6 / IPv6ExtHdrHopByHop(options=[PadN()]) / IPV6_UDP[UDP], V6 | MACS),
    ("RoCE v1", 1, ETHER / GLOBAL, GRH_FIELDS | MACS),
    ("VLAN", 1, ETHER / Dot1Q(vlan=5, prio=3) / IPV4, V4 | MACS | {"vlan_ids": (5,)}),
    ("QinQ", 1, ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / GLOBAL, GRH_FIELDS | MACS | {"vlan_ids": (5, 6)}),
    (
        "cooked v1",
        113,
        CookedLinux(lladdrtype=1, lladdrlen=6, src=MACS["source_mac"] + b"\0\0") / Dot1Q(vlan=9) / IPV4,
        V4 | {"source_mac": MACS["source_mac"], "vlan_ids": (9,)},
    ),
    (
        "cooked v2",
        276,
        CookedLinuxV2(lladdrtype=1, lladdrlen=6, src=MACS["source_mac"] + b"\0\0") / Dot1Q(vlan=9) / GLOBAL,
        GRH_FIELDS | {"source_mac": MACS["source_mac"], "vlan_ids": (9,)},
    ),
    ("cooked, of a tunnel", 113, CookedLinux(lladdrtype=768, lladdrlen=4) / IPV4, V4),
    ("ERF", 197, ERF() / LOCAL, LRH_FIELDS),
    ("ERF, GRH", 197, ERF() / ERFExtension() / LOCAL / GLOBAL, LRH_FIELDS | GRH_FIELDS),
    (
        "ERF, Ethernet",
        197,
        ERF(type=2) / ERFExtension() / ERFEthernet() / ETHER / Dot1Q(vlan=7) / IPV4,
        V4 | MACS | {"vlan_ids": (7,)},
    ),
    ("247", 247, LOCAL, LRH_FIELDS),
    ("247, GRH", 247, LOCAL / GLOBAL, LRH_FIELDS | GRH_FIELDS),
]


def message(below: Packet, link_type: int, above: Packet = CM) -> CmMessage:
    data = bytes(below / above)
    decoded = Decoder()(Frame(0, 1, 0, link_type, data, len(data)))
    assert isinstance(decoded, CmMessage)
    return decoded


@pytest.mark.parametrize(("name", "link_type", "below", "present"), STACKS, ids=[row[0] for row in STACKS])
def test_every_link_type(name: str, link_type: int, below: Packet, present: dict[str, Any]) -> None:
    around = envelope(message(below, link_type))
    absent = dict.fromkeys(Envelope._fields) | {"vlan_ids": ()}
    transport = {"partition_key": 0x8005, "destination_qp": 1, "source_qp": 0x77, "q_key": 0x80010000}
    assert around == Envelope(**absent | transport | present)


def test_immediate_data_come_behind_it() -> None:
    above = BTH(opcode=0x65, partition_key=0x8005) / DETH(source_qp=0x77) / ImmDt() / MAD() / CM_RTU()
    around = envelope(message(ETHER / IPV4, 1, above))
    assert around is not None
    assert (around.partition_key, around.source_qp) == (0x8005, 0x77)


def test_a_source_without_headers_has_none() -> None:
    whole = message(ETHER / IPV4, 1)
    assert envelope(replace(whole, headers=b"")) is None
    assert envelope(replace(whole, link_type=0)) is None  # a live probe


@pytest.mark.parametrize(("name", "link_type", "below", "present"), STACKS, ids=[row[0] for row in STACKS])
def test_cut_headers_give_none(name: str, link_type: int, below: Packet, present: dict[str, Any]) -> None:
    whole = message(below, link_type)
    for size in range(len(whole.headers)):
        assert envelope(replace(whole, headers=whole.headers[:size])) is None, size


@given(link_type=st.sampled_from([*LINK_TYPES]), data=st.binary(max_size=120))
def test_any_bytes(link_type: int, data: bytes) -> None:
    around = envelope(replace(message(ETHER / IPV4, 1), link_type=link_type, headers=data))
    assert around is None or isinstance(around, Envelope)


@given(
    which=st.integers(0, len(STACKS) - 1),
    changes=st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), max_size=4),
)
def test_damaged_headers(which: int, changes: list[tuple[int, int]]) -> None:
    _, link_type, below, _ = STACKS[which]
    whole = message(below, link_type)
    data = bytearray(whole.headers)
    for at, value in changes:
        data[at % len(data)] = value
    around = envelope(replace(whole, headers=bytes(data)))
    assert around is None or isinstance(around, Envelope)
