"""Frames of every link type to CM messages; what is cut, strange, wrong or noise never raises."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP, IPOption_NOP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapReader

from dissectors.cm import CM_LAYERS, CM_RTU, CM_SIDR_REP
from dissectors.encapsulation import ERF, ERFEthernet, ERFExtension
from dissectors.fields import gid_bytes, layout
from dissectors.mad import CM_ATTRIBUTES, MAD, ClassPortInfo
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.packets import Address, CmMessage, DataPacket, Frame
from ibcmtool.wire.decode import Decoder, field_names
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.readers import read_message

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "captures" / "linux-rxe"
PUBLIC = ROOT.parent / "shared" / "captures" / "public"

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
IPV4 = IP(src="10.77.0.1", dst="10.77.0.2") / UDP(sport=50_000, dport=4791)
IPV6 = IPv6(src="fd77::1", dst="fd77::2")
IPV6_UDP = IPV6 / UDP(sport=50_000, dport=4791)
ROCE_V1 = GRH(sgid="fe80::1", dgid="fe80::2")
LOCAL = LRH(slid=18, dlid=12)
CM = BTH(psn=0x123456) / DETH() / MAD(tid=0x77) / CM_RTU(local_comm_id=1, remote_comm_id=2, private_data=b"hello")

V4 = (Address(gid_bytes("10.77.0.1")), Address(gid_bytes("10.77.0.2")))
V6 = (Address(gid_bytes("fd77::1")), Address(gid_bytes("fd77::2")))
V1 = (Address(gid_bytes("fe80::1")), Address(gid_bytes("fe80::2")))
LID = (Address(None, 18), Address(None, 12))
LID_AND_GID = (Address(gid_bytes("fe80::1"), 18), Address(gid_bytes("fe80::2"), 12))

STACKS: list[tuple[str, int, Packet, tuple[Address, Address], str]] = [
    ("RoCE v2", 1, ETHER / IPV4, V4, "RoCE v2"),
    (
        "IPv4 options",
        1,
        ETHER / IP(src="10.77.0.1", dst="10.77.0.2", options=[IPOption_NOP()]) / IPV4[UDP],
        V4,
        "RoCE v2",
    ),
    ("IPv6", 1, ETHER / IPV6_UDP, V6, "RoCE v2"),
    ("hop-by-hop", 1, ETHER / IPV6 / IPv6ExtHdrHopByHop(options=[PadN()]) / IPV6_UDP[UDP], V6, "RoCE v2"),
    (
        "two extension headers",
        1,
        ETHER / IPV6 / IPv6ExtHdrHopByHop(options=[PadN()]) / IPv6ExtHdrDestOpt(options=[PadN()]) / IPV6_UDP[UDP],
        V6,
        "RoCE v2",
    ),
    ("RoCE v1", 1, ETHER / ROCE_V1, V1, "RoCE v1"),
    ("VLAN", 1, ETHER / Dot1Q(vlan=5) / IPV4, V4, "RoCE v2"),
    ("QinQ", 1, ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / ROCE_V1, V1, "RoCE v1"),
    ("four tags", 1, ETHER / Dot1AD() / Dot1AD() / Dot1Q() / Dot1Q() / IPV6_UDP, V6, "RoCE v2"),
    ("cooked v1", 113, CookedLinux() / IPV4, V4, "RoCE v2"),
    ("cooked v1, VLAN", 113, CookedLinux() / Dot1Q() / IPV6_UDP, V6, "RoCE v2"),
    ("cooked v2", 276, CookedLinuxV2() / ROCE_V1, V1, "RoCE v1"),
    ("ERF", 197, ERF() / LOCAL, LID, "InfiniBand"),
    ("ERF, GRH", 197, ERF() / LOCAL / ROCE_V1, LID_AND_GID, "InfiniBand"),
    ("ERF, extensions", 197, ERF() / ERFExtension() / ERFExtension() / LOCAL, LID, "InfiniBand"),
    ("ERF, Ethernet", 197, ERF() / ERFEthernet() / ETHER / Dot1Q() / IPV4, V4, "RoCE v2"),
    ("247", 247, LOCAL, LID, "InfiniBand"),
    ("247, GRH", 247, LOCAL / ROCE_V1, LID_AND_GID, "InfiniBand"),
]


def frame(data: bytes, link_type: int = 1, wire_length: int | None = None) -> Frame:
    return Frame(3, 7, 1_000, link_type, data, len(data) if wire_length is None else wire_length)


def decode(data: bytes, link_type: int = 1, wire_length: int | None = None) -> CmMessage:
    message = Decoder()(frame(data, link_type, wire_length))
    assert isinstance(message, CmMessage)
    return message


def recorded(name: str) -> list[Frame]:
    path = RECORDED / f"{name}.pcap"
    with RawPcapReader(str(path)) as packets:
        return [frame(data) for data, _ in packets]


@pytest.mark.parametrize(("name", "link_type", "below", "ends", "transport"), STACKS, ids=[row[0] for row in STACKS])
def test_every_link_type(
    name: str, link_type: int, below: Packet, ends: tuple[Address, Address], transport: str
) -> None:
    message = decode(bytes(below / CM), link_type)
    assert (message.file, message.frame, message.time, message.type) == (3, 7, 1_000, "RTU")
    assert (message.source, message.destination) == ends
    assert message.transport == transport
    assert (message.psn, message.tid, message.icrc_ok) == (0x123456, 0x77, True)
    assert (message.class_version, message.method) == (2, 3)
    assert message.fields == (1, 2, b"hello".ljust(224, b"\0"))
    assert message.mad == bytes(CM[MAD])


@pytest.mark.parametrize(("name", "link_type", "below", "ends", "transport"), STACKS, ids=[row[0] for row in STACKS])
def test_every_link_type_cut_at_every_byte(
    name: str, link_type: int, below: Packet, ends: tuple[Address, Address], transport: str
) -> None:
    whole = bytes(below / CM)
    mad_at = whole.index(bytes(CM[MAD])[:18])
    decoder = Decoder()
    for size in range(len(whole)):
        message = decoder(frame(whole[:size], link_type, len(whole)))
        if size < mad_at + 18:
            assert message is None, size
            continue
        assert isinstance(message, CmMessage)
        assert message.mad == whole[mad_at : min(size, mad_at + 256)]
        assert message.icrc_ok is None
        captured = size - mad_at - 24
        assert message.fields.local_comm_id == (1 if captured >= 4 else None), size
        assert message.fields.remote_comm_id == (2 if captured >= 8 else None), size
        private_data = b"hello".ljust(224, b"\0")[: max(0, captured - 8)]
        assert message.fields.private_data == (private_data or None), size


@pytest.mark.parametrize("name", CM_LAYERS)
def test_every_message_has_the_fields_of_its_layer(name: str) -> None:
    layer = CM_LAYERS[name]
    data = bytes((3 * index + 1) % 256 for index in range(232))
    message = decode(bytes(ETHER / IPV4 / BTH() / DETH() / MAD() / layer(data)))
    assert message.type == name
    assert message.fields == read_message(name, data)
    assert message.fields._fields == field_names(name) == tuple(slot.name for slot in layout(layer))
    assert message.fields._fields == tuple(field.name for field in layer.fields_desc)


def test_class_port_info() -> None:
    message = decode(bytes(ETHER / IPV4 / BTH() / DETH() / MAD() / ClassPortInfo(redirect_lid=9)))
    assert (message.type, message.method, message.fields.redirect_lid) == ("ClassPortInfo", 0x81, 9)


def test_an_attribute_that_no_edition_knows() -> None:
    message = decode(bytes(ETHER / IPV4 / BTH() / DETH() / MAD(attribute_id=0x2A) / Raw(b"\x55" * 232)))
    assert message.type == "attribute 0x002a"
    assert message.fields == (b"\x55" * 232,)
    assert message.fields._fields == field_names("attribute 0x002a") == ("data",)


@pytest.mark.parametrize("name", CM_LAYERS)
def test_of_another_class_version_only_the_certain_fields_are_read(name: str) -> None:
    certain = {
        *("local_comm_id", "remote_comm_id", "request_id", "local_qpn", "remote_qpn", "message_rejected", "reason"),
        *(("service_id",) if name in ("REQ", "SIDR_REQ") else ()),
    }
    attribute = {value: key for key, value in CM_ATTRIBUTES.items()}[name]
    data = b"\xff" * 232
    message = decode(bytes(ETHER / IPV4 / BTH() / DETH() / MAD(class_version=1, attribute_id=attribute) / Raw(data)))
    assert (message.type, message.class_version) == (name, 1)
    whole = read_message(name, data)._asdict()
    assert message.fields._asdict() == {key: value if key in certain else None for key, value in whole.items()}


def test_immediate_data_is_skipped() -> None:
    built = bytes(ETHER / IPV4 / BTH(opcode=0x65) / DETH() / ImmDt(immediate_data=0x01020304) / CM[MAD])
    message = decode(built)
    assert (message.type, message.icrc_ok, message.fields.remote_comm_id) == ("RTU", True, 2)


@pytest.mark.parametrize(
    "packet",
    [
        BTH(dest_qp=2) / DETH() / CM[MAD],
        BTH(opcode=0x04) / DETH() / CM[MAD],
        BTH(opcode=0x44) / DETH() / CM[MAD],
        BTH() / DETH(q_key=0x80010001) / CM[MAD],
        BTH() / DETH() / MAD(base_version=2) / CM_RTU(),
        BTH() / DETH() / MAD(mgmt_class=3) / CM_RTU(),
    ],
)
def test_other_packets_are_no_messages(packet: Packet) -> None:
    assert Decoder()(frame(bytes(ETHER / IPV4 / packet))) is None


@pytest.mark.parametrize(
    "below",
    [
        ETHER / IP(src="10.77.0.1", dst="10.77.0.2") / UDP(sport=4791, dport=4790),
        ETHER / IP(src="10.77.0.1", dst="10.77.0.2", proto=6) / UDP(dport=4791),
        ETHER / IP(src="10.77.0.1", dst="10.77.0.2", frag=5) / UDP(dport=4791),
        ETHER / IP(src="10.77.0.1", dst="10.77.0.2", version=5) / UDP(dport=4791),
        ETHER / IPv6(src="fd77::1", dst="fd77::2", version=4) / UDP(dport=4791),
        ETHER / IPv6(src="fd77::1", dst="fd77::2", nh=59) / UDP(dport=4791),
        ETHER / IPV6 / IPv6ExtHdrFragment(offset=3) / UDP(dport=4791),
        ETHER / GRH(next_header=17),
        Ether(src=ETHER.src, dst=ETHER.dst, type=0x0806) / Raw(bytes(8)),
        ETHER / Dot1Q() / Dot1Q() / Dot1Q() / Dot1Q() / Dot1Q() / IPV4,
    ],
)
def test_other_networks_are_no_messages(below: Packet) -> None:
    assert Decoder()(frame(bytes(below / CM))) is None


@pytest.mark.parametrize("link_type", [0, 101, 242, 276_000, -1])
def test_other_link_types_are_no_messages(link_type: int) -> None:
    assert Decoder()(frame(bytes(ETHER / IPV4 / CM), link_type)) is None


def test_any_source_port_will_do() -> None:
    below = ETHER / IP(src="10.77.0.1", dst="10.77.0.2") / UDP(sport=69, dport=4791)
    assert decode(bytes(below / CM)).type == "RTU"


def test_first_fragment_counts_when_the_whole_mad_is_in_it() -> None:
    packet = IP(bytes(IPV4 / BTH(opcode=0x65) / DETH() / ImmDt() / CM[MAD]))
    packet.chksum = None
    first, second = fragment(packet, 288)  # the MAD ends where the first fragment does
    message = decode(bytes(ETHER / first))
    assert (message.fields.private_data, message.icrc_ok) == (b"hello".ljust(224, b"\0"), None)
    assert Decoder()(frame(bytes(ETHER / second))) is None
    assert Decoder()(frame(bytes(ETHER / fragment(packet, 280)[0]))) is None


def test_first_ipv6_fragment() -> None:
    below = ETHER / IPV6 / IPv6ExtHdrFragment(m=1) / IPV6_UDP[UDP]
    message = decode(bytes(below / CM))
    assert (message.type, message.icrc_ok) == ("RTU", None)
    whole = decode(bytes(ETHER / IPV6 / IPv6ExtHdrFragment(m=0) / IPV6_UDP[UDP] / CM))
    assert whole.icrc_ok is True


@pytest.mark.parametrize(("name", "link_type", "below", "ends", "transport"), STACKS, ids=[row[0] for row in STACKS])
def test_a_wrong_icrc_is_told(
    name: str, link_type: int, below: Packet, ends: tuple[Address, Address], transport: str
) -> None:
    whole = bytearray(bytes(below / CM))
    at = whole.index(b"hello")
    whole[at] ^= 1
    message = decode(bytes(whole), link_type)
    assert (message.icrc_ok, message.fields.private_data[:5]) == (False, b"iello")


def test_icrc_of_a_frame_that_was_longer_on_the_wire_is_not_judged() -> None:
    whole = bytes(ETHER / IPV4 / CM)
    assert decode(whole, wire_length=len(whole) + 4).icrc_ok is None
    assert decode(whole + bytes(4)).icrc_ok is True, "an Ethernet check sequence behind the packet"


def test_lengths_that_lie() -> None:
    whole = bytes(ETHER / IP(src="10.77.0.1", dst="10.77.0.2") / UDP(dport=4791, len=8 + 12 + 8 + 24 + 8 + 4) / CM)
    message = decode(whole)
    assert (message.icrc_ok, message.fields) == (False, (1, 2, None))
    assert len(message.mad) == 32
    message = decode(bytes(ETHER / IP(src="10.77.0.1", dst="10.77.0.2") / UDP(dport=4791, len=0) / CM))
    assert (message.type, message.fields[:2]) == ("RTU", (1, 2))
    assert decode(bytes(LRH(packet_length=0) / CM), 247).fields[:2] == (1, 2)
    assert decode(bytes(LRH(packet_length=2000) / CM), 247).icrc_ok is None


@pytest.mark.parametrize(
    ("opcode", "watched", "seen"),
    [
        (0x04, {0x17}, True),
        (0x11, {0x17}, True),
        (0x2A, {0x17}, True),
        (0xA4, {0x17}, True),
        (0x04, {0x18}, False),
        (0x04, set(), False),
        (0x44, {0x17}, False),
        (0x64, {0x17}, False),
        (0x81, {0x17}, False),
    ],
)
def test_data_packets_to_watched_queue_pairs(opcode: int, watched: set[int], seen: bool) -> None:
    packet = ETHER / IPV4 / BTH(opcode=opcode, dest_qp=0x17) / Raw(bytes(16))
    found = Decoder()(frame(bytes(packet)), watched)
    assert found == (DataPacket(3, 7, 1_000, *V4, 0x17) if seen else None)


def test_a_data_packet_needs_no_more_than_its_destination_queue_pair() -> None:
    packet = bytes(ETHER / IPV4 / BTH(opcode=4, dest_qp=0x17) / Raw(bytes(16)))
    bth = len(ETHER / IPV4)
    assert Decoder()(frame(packet[: bth + 7], 1, len(packet)), {0x17}) is None
    assert isinstance(Decoder()(frame(packet[: bth + 8], 1, len(packet)), {0x17}), DataPacket)


def test_one_address_object_per_port() -> None:
    decoder = Decoder()
    there = decoder(frame(bytes(ETHER / IPV4 / CM)))
    back = decoder(frame(bytes(ETHER / IP(src="10.77.0.2", dst="10.77.0.1") / IPV4[UDP] / CM)))
    assert isinstance(there, CmMessage)
    assert isinstance(back, CmMessage)
    assert there.source is back.destination
    assert there.destination is back.source


def test_one_decoder_tells_the_ends_of_all_kinds_of_packets() -> None:
    decoder = Decoder()
    for _ in range(2):
        for _, link_type, below, ends, _ in STACKS:
            message = decoder(frame(bytes(below / CM), link_type))
            assert isinstance(message, CmMessage)
            assert (message.source, message.destination) == ends


def test_a_place_instead_of_the_frames_own() -> None:
    message = Decoder()(frame(bytes(ETHER / IPV4 / CM)), (), (1, 99))
    assert message is not None
    assert (message.file, message.frame, message.time) == (1, 99, 1_000)
    data = frame(bytes(ETHER / IPV4 / BTH(opcode=4, dest_qp=0x17) / Raw(bytes(16))))
    assert Decoder()(data, {0x17}, (1, 99)) == DataPacket(1, 99, 1_000, *V4, 0x17)


def test_recorded_frames() -> None:
    decoder = Decoder()
    messages = [decoder(item) for item in recorded("udaddy_sidr")]
    resolved = [message for message in messages if isinstance(message, CmMessage)]
    assert [message.type for message in resolved] == ["SIDR_REQ", "SIDR_REP"] * 3
    assert all(message.icrc_ok for message in resolved)
    assert {message.fields.q_key for message in resolved[1::2]} == {0x01234567}
    types = [message.type for message in map(decoder, recorded("mra_rej_rep_retransmit")) if message is not None]
    assert types == ["REQ", "REP", "MRA", "RTU", "DREQ", "DREP", "REQ", "REP", "REJ", "REQ", "REJ"]


@pytest.mark.parametrize(("name", "messages"), [("erf-ipoib-cm-infiniband.pcap", 9), ("erf-rping-native-ib.pcap", 5)])
def test_published_native_captures(name: str, messages: int) -> None:
    path = PUBLIC / name
    if not path.exists():
        pytest.skip(f"no {name}")
    decoder = Decoder()
    with RawPcapReader(str(path)) as packets:
        found = [decoder(frame(data, 197)) for data, _ in packets]
    decoded = [message for message in found if isinstance(message, CmMessage)]
    assert len(decoded) == messages
    assert all(message.icrc_ok and message.transport == "InfiniBand" for message in decoded)


def mutated(rng: random.Random, seeds: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """A frame with some bytes changed, cut or put in, or pure noise."""
    link_type, data = rng.choice(seeds)
    if rng.random() < 0.2:
        return link_type, rng.randbytes(rng.randrange(400))
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(min(len(changed), rng.choice((20, 60, 110, 400))))] = rng.randrange(256)
    if rng.random() < 0.3:
        del changed[rng.randrange(len(changed)) :]
    elif rng.random() < 0.1:
        at = rng.randrange(len(changed))
        changed[at:at] = rng.randbytes(rng.randrange(9))
    return link_type, bytes(changed)


def test_100_000_random_frames_raise_nothing() -> None:
    seeds = [(link_type, bytes(below / CM)) for _, link_type, below, _, _ in STACKS]
    seeds += [(1, bytes(ETHER / IPV4 / BTH() / DETH() / MAD() / layer())) for layer in CM_LAYERS.values()]
    rng = random.Random(20_261_129)
    decoder = Decoder()
    watched = range(1 << 24)
    kinds = {CmMessage: 0, DataPacket: 0, type(None): 0}
    for _ in range(100_000):
        link_type, data = mutated(rng, seeds)
        found = decoder(Frame(0, 1, 0, link_type, data, len(data)), watched)
        kinds[type(found)] += 1
    assert min(kinds.values()) > 100, kinds


def test_random_frames_raise_nothing_in_scapy_either() -> None:
    layers = {1: Ether, 113: CookedLinux, 276: CookedLinuxV2, 197: ERF, 247: LRH}
    seeds = [(link_type, bytes(below / CM)) for _, link_type, below, _, _ in STACKS if link_type in (197, 247)]
    seeds += [(247, bytes(LOCAL / BTH() / DETH() / MAD() / layer())) for layer in CM_LAYERS.values()]
    rng = random.Random(20_261_130)
    for _ in range(1_500):
        link_type, data = mutated(rng, seeds)
        if data:
            assert layers[link_type](data).show(dump=True)


@given(data=st.binary(max_size=400), link_type=st.sampled_from(sorted(LINK_TYPES)), watched=st.sets(st.integers(0, 9)))
def test_noise_raises_nothing(data: bytes, link_type: int, watched: set[int]) -> None:
    found = Decoder()(frame(data, link_type), watched)
    assert found is None or isinstance(found, (CmMessage, DataPacket))


@given(data=st.data())
def test_noise_behind_good_headers_is_a_message(data: Any) -> None:
    attribute = data.draw(st.sampled_from(sorted(CM_ATTRIBUTES)) | st.integers(0, 0xFFFF))
    version = data.draw(st.integers(0, 255))
    content = data.draw(st.binary(max_size=240))
    packet = ETHER / IPV4 / BTH() / DETH() / MAD(attribute_id=attribute, class_version=version) / Raw(content)
    message = decode(bytes(packet))
    assert message.fields._fields == field_names(message.type)
    assert message.icrc_ok is True


def test_the_bulk_path_loads_no_scapy() -> None:
    code = "import sys, ibcmtool.engine.files; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "dissectors.recognition" in loaded
    assert not [name for name in loaded if name.startswith("scapy")]


def test_sidr_rep_without_length_of_its_information() -> None:
    info = bytes(ClassPortInfo(redirect_qp=5))
    packet = BTH() / DETH() / MAD() / CM_SIDR_REP(status=4, additional_info_length=0, additional_info=info)
    fields = decode(bytes(ETHER / IPV4 / packet)).fields
    assert (fields.status, fields.additional_info_length, fields.additional_info) == (4, 0, info)
