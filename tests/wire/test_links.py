"""Every link type before all who ask its record: what they find in one frame agrees with how it was built.

The frames come from the test modules in tests/wire/links, one for each link type: LINK, and a strategy stacks().
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6NDOptDstLLAddr, IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP
from scapy.packet import Packet, Raw
from sources.files.traffic import same
from wire.links.stack import Stack

from dissectors.cm import CM_REQ
from dissectors.fields import gid_bytes
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH, LRH
from ibcmtool.packets import Address, CmMessage, Frame
from ibcmtool.redaction import Redactor
from ibcmtool.sources.files.scan import FrameFilter
from ibcmtool.wire import detail, link_types
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.link_record import HeaderPattern, LinkType
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.neighbours import named
from ibcmtool.wire.notices import told

HERE = Path(__file__).resolve().parent
MODULES: list[ModuleType] = [
    import_module(f"wire.links.{path.stem}") for path in sorted((HERE / "links").glob("test_*.py"))
]
REQ = BTH(psn=5) / DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7, local_qpn=0x111)
DATA = BTH(opcode=0x0E, dest_qp=0x111) / Raw(bytes(range(64)))
GATEWAY = b"\x52\x54\x00\xff\xff\xff"  # the MAC address that an announcement tells of
PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 0)[:20]
Passes = Callable[[int, bytes], bool]

every_link = pytest.mark.parametrize("module", MODULES, ids=[module.LINK.name for module in MODULES])


class Below(NamedTuple):
    """What is in front of a BTH, and whom it names."""

    packet: Packet
    stack: Stack
    source: Address
    destination: Address
    simple: bool  # no options, no extension headers: capture filters look behind none


@st.composite
def belows(draw: st.DrawFn, module: ModuleType) -> Below:
    stack: Stack = draw(module.stacks())
    hosts = st.integers(1, 0xFFFE)
    one, other = draw(hosts), draw(hosts)
    network = draw(st.sampled_from([one for one in stack.networks if one != "arp"]))
    if network == "lrh":
        local = LRH(slid=one, dlid=other, vl=draw(st.integers(0, 15)))
        if draw(st.booleans()):
            return Below(stack.with_packet(local), stack, Address(None, one), Address(None, other), simple=True)
        sgid, dgid = f"fe80::{one:x}", f"fe80::{other:x}"
        ends = Address(gid_bytes(sgid), one), Address(gid_bytes(dgid), other)
        return Below(stack.with_packet(local / GRH(sgid=sgid, dgid=dgid)), stack, *ends, simple=True)
    simple = draw(st.booleans()) or network == "grh"
    if network == "ipv4":
        sgid, dgid = (f"10.77.{host >> 8}.{host & 0xFF}" for host in (one, other))
        packet = IP(src=sgid, dst=dgid, options=[] if simple else [IPOption_Router_Alert()]) / UDP()
    elif network == "ipv6":
        sgid, dgid = f"fd77::{one:x}", f"fd77::{other:x}"
        packet = IPv6(src=sgid, dst=dgid)
        packet = packet / UDP() if simple else packet / IPv6ExtHdrHopByHop() / UDP()
    else:
        sgid, dgid = f"fe80::{one:x}", f"fe80::{other:x}"
        packet = GRH(sgid=sgid, dgid=dgid)
    ends = Address(gid_bytes(sgid)), Address(gid_bytes(dgid))
    return Below(stack.with_packet(packet), stack, *ends, simple=simple)


def frame_of(link: LinkType, packet: Packet) -> Frame:
    data = bytes(packet)
    return Frame(0, 1, 0, link.number, data, len(data))


def message_of(frame: Frame) -> CmMessage:
    message = Decoder()(frame)
    assert isinstance(message, CmMessage)
    return message


def announcements(stack: Stack) -> list[tuple[Packet, bytes]]:
    """Packets that tell of a neighbour, and the GID that each tells."""
    discovery = IPv6(src="fd77::2", dst="ff02::1", hlim=255) / ICMPv6ND_NA(tgt="fd77::2", O=1)
    return [
        (stack.with_packet(ARP(op=2, hwsrc=GATEWAY.hex(":"), psrc="10.77.0.2")), gid_bytes("10.77.0.2")),
        (stack.with_packet(discovery / ICMPv6NDOptDstLLAddr(lladdr=GATEWAY.hex(":"))), gid_bytes("fd77::2")),
    ]


def test_every_link_type_is_tested_here() -> None:
    assert {module.LINK.number: module.LINK for module in MODULES} == LINK_TYPES


@every_link
def test_it_is_named_among_the_supported(module: ModuleType) -> None:
    link = module.LINK
    assert link_types.name(link.number) == f"{link.number} ({link.name})"
    assert link_types.name(link.number) in link_types.problem([105])


@every_link
@given(data=st.data())
def test_decoder_and_envelope(module: ModuleType, data: st.DataObject) -> None:
    below = data.draw(belows(module))
    message = message_of(frame_of(module.LINK, below.packet / REQ))
    assert (message.source, message.destination, message.icrc_ok) == (below.source, below.destination, True)
    assert (message.type, message.fields.local_comm_id) == ("REQ", 7)
    around, stack = envelope(message), below.stack
    assert around is not None
    assert (around.source_mac, around.destination_mac, around.vlan_ids) == (
        stack.source_mac,
        stack.destination_mac,
        stack.vlan_ids,
    )
    assert (around.source_gid, around.slid) == below.source
    assert (around.destination_gid, around.dlid) == below.destination
    assert (around.destination_qp, around.source_qp, around.q_key) == (1, 1, 0x80010000)


@every_link
@given(data=st.data())
def test_layers(module: ModuleType, data: st.DataObject) -> None:
    """Scapy dissects the link type, too."""
    packet = detail.dissect(frame_of(module.LINK, data.draw(belows(module)).packet / REQ))
    assert packet[CM_REQ].local_comm_id == 7


@every_link
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_scan(module: ModuleType, data: st.DataObject, tmp_path: Path) -> None:
    """CM messages and neighbours are found among data packets, and these are passed over."""
    link, below = module.LINK, data.draw(belows(module))
    other = data.draw(belows(module))
    packets = [below.packet / DATA] * 3 + [below.packet / REQ, other.packet / REQ, *[below.packet / DATA] * 3]
    wanted = {4, 5}
    if "arp" in below.stack.networks:
        packets += [packet for packet, _ in announcements(below.stack)]
        wanted |= {9, 10}
    frames = [bytes(packet) for packet in packets]
    records = [struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame for second, frame in enumerate(frames)]
    path = tmp_path / "capture"
    path.write_bytes(PCAP + struct.pack("<I", link.number) + b"".join(records))
    result = same(path)
    assert not isinstance(result, str)
    assert {message.frame for message in result.messages} == wanted
    assert {frame.number for frame in result.frames} == wanted


@every_link
@given(data=st.data())
def test_frames_of_one_pattern_have_their_bth_in_one_place(module: ModuleType, data: st.DataObject) -> None:
    link: LinkType = module.LINK
    first, second = (bytes(data.draw(belows(module)).packet / content) for content in (REQ, DATA))
    changed = bytearray(second)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 80), st.sampled_from([0, 2, 6, 0x45, 0x46, 0x81])))):
        changed[at % len(changed)] = value
    found = link.find(first)
    assert found is not None
    pattern = link.pattern(memoryview(first), found)
    for other in (second, bytes(changed)):
        try:
            if pattern is None or values(pattern, first) != values(pattern, other):
                continue
            behind = link.find(other)
        except (IndexError, struct.error):
            continue
        assert behind is None or behind[2] == pattern.bth


def values(pattern: HeaderPattern, data: bytes) -> list[object]:
    return [struct.unpack_from("!" + code, data, offset) for offset, code in pattern[:3]]


@every_link
@given(data=st.data())
def test_neighbours(module: ModuleType, data: st.DataObject, passes: Passes) -> None:
    link, below = module.LINK, data.draw(belows(module))
    stack = below.stack
    if "arp" not in stack.networks:
        frame = frame_of(link, below.packet / DATA)
        assert told(link.number, frame.data) is None
        return
    for packet, gid in announcements(stack):
        frame = frame_of(link, packet)
        assert told(link.number, frame.data) == (gid, GATEWAY, named(stack.vlan_ids))
        assert FrameFilter(link.number, "<IIII").wants(memoryview(frame.data), 1, ())
        assert passes(link.number, frame.data)
        assert GATEWAY not in Redactor()(frame).data


@every_link
@given(data=st.data())
def test_redaction(module: ModuleType, data: st.DataObject) -> None:
    below = data.draw(belows(module))
    frame = frame_of(module.LINK, below.packet / REQ)
    redacted = Redactor()(frame)
    assert len(redacted.data) == len(frame.data)
    gids = [address.gid for address in (below.source, below.destination) if address.gid is not None]
    for trace in (*below.stack.hidden, *gids):
        assert trace not in redacted.data
    message, around = message_of(redacted), envelope(message_of(redacted))
    assert around is not None
    assert (message.icrc_ok, around.vlan_ids) == (True, below.stack.vlan_ids)
    assert (around.source_mac is None, around.destination_mac is None) == (
        below.stack.source_mac is None,
        below.stack.destination_mac is None,
    )
    assert (message.source == message.destination) == (below.source == below.destination)


@every_link
@given(data=st.data())
def test_capture_filter(module: ModuleType, data: st.DataObject, passes: Passes) -> None:
    below = data.draw(belows(module))
    assert passes(module.LINK.number, bytes(below.packet / REQ)) or not below.simple
    assert not passes(module.LINK.number, bytes(below.packet / DATA))


@every_link
@given(data=st.data())
def test_cut_and_damaged_frames(module: ModuleType, data: st.DataObject) -> None:
    """Nobody raises; the record's own functions raise what they may."""
    link: LinkType = module.LINK
    content = bytearray(bytes(data.draw(belows(module)).packet / REQ))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=3)):
        content[at % len(content)] = value
    frame = frame_of(link, Raw(bytes(content[: data.draw(st.integers(0, len(content)))])))
    message = Decoder()(frame)
    assert message is None or envelope(message) is not None
    told(link.number, frame.data)
    FrameFilter(link.number, "<IIII").wants(memoryview(frame.data), 1, ())
    Redactor()(frame)
    for ask in (link.find, link.carried, link.macs, link.addresses, link.packet_type or link.find):
        with contextlib.suppress(IndexError, struct.error):
            ask(frame.data)
