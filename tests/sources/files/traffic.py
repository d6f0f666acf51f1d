"""Captures for tests of the scan: frames of every encapsulation, whole and damaged, and what a reader finds there."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6ND_NA,
    ICMPv6NDOptDstLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from dissectors.cm import CM_REP, CM_REQ
from dissectors.encapsulation import ERF, ERFEthernet, ERFExtension
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.analysis import InputInfo
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.sources.files import ScanRequest, SourceError, open_capture
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.notices import notice

ROOT = Path(__file__).parents[3]
# Two million blocks around five frames: hundreds of times as long as all others, and it shows no more than they do.
LONG = "r_idb_bomb"

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

ETHER = Ether(dst="52:54:00:aa:00:01", src="52:54:00:aa:00:02")
V4 = IP(src="10.77.0.2", dst="10.77.0.1") / UDP()
V4_OPTIONS = IP(src="10.77.0.2", dst="10.77.0.1", options=[IPOption_Router_Alert(), IPOption_NOP()]) / UDP()
V6 = IPv6(src="fd77::2", dst="fd77::1") / UDP()
V1 = GRH(sgid="fe80::2", dgid="fe80::1")


def recorded() -> list[Path]:
    """Captures of the repository, and those beside it that it does not hold itself; each name once."""
    found: dict[str, Path] = {}
    for folder in (ROOT / "captures", ROOT.parent / "shared" / "captures"):
        for path in sorted(folder.rglob("*.pcap*")):
            if not path.name.startswith(LONG):
                found.setdefault(path.name, path)
    return sorted(found.values())


def v6(*extensions):
    packet = IPv6(src="fd77::2", dst="fd77::1")
    for extension in extensions:
        packet /= extension
    return packet / UDP()


# Link type and everything in front of the BTH.
ENCAPSULATIONS = {
    "Ethernet, RoCE v1": (1, ETHER / V1),
    "Ethernet, IPv4": (1, ETHER / V4),
    "Ethernet, IPv4 with options": (1, ETHER / V4_OPTIONS),
    "Ethernet, IPv6": (1, ETHER / V6),
    "Ethernet, IPv6 with an extension header": (1, ETHER / v6(IPv6ExtHdrHopByHop())),
    "Ethernet, IPv6 with extension headers": (1, ETHER / v6(IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt())),
    "Ethernet, IPv6, routed": (1, ETHER / v6(IPv6ExtHdrRouting(addresses=["fd77::9"]))),
    "Ethernet, first fragment": (1, ETHER / v6(IPv6ExtHdrFragment(m=1))),
    "Ethernet, VLAN, IPv4": (1, ETHER / Dot1Q(vlan=77) / V4),
    "Ethernet, another VLAN, IPv4": (1, ETHER / Dot1Q(vlan=78, prio=3) / V4),
    "Ethernet, VLAN, IPv6": (1, ETHER / Dot1Q(vlan=77) / V6),
    "Ethernet, VLAN, RoCE v1": (1, ETHER / Dot1Q(vlan=77) / V1),
    "Ethernet, QinQ, IPv4": (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77) / V4),
    "Ethernet, QinQ, RoCE v1": (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77) / V1),
    "SLL, IPv4": (113, CookedLinux() / V4),
    "SLL, IPv6": (113, CookedLinux() / V6),
    "SLL, RoCE v1": (113, CookedLinux() / V1),
    "SLL, VLAN, IPv4": (113, CookedLinux() / Dot1Q(vlan=77) / V4),
    "SLL2, IPv4": (276, CookedLinuxV2() / V4),
    "SLL2, IPv6": (276, CookedLinuxV2() / V6),
    "SLL2, RoCE v1": (276, CookedLinuxV2() / V1),
    "SLL2, VLAN, IPv4": (276, CookedLinuxV2() / Dot1Q(vlan=77) / V4),
    "InfiniBand": (247, LRH(dlid=12, slid=18)),
    "InfiniBand, another service level": (247, LRH(dlid=12, slid=18, service_level=3, vl=2)),
    "InfiniBand with GRH": (247, LRH(dlid=12, slid=18) / V1),
    "ERF, InfiniBand": (197, ERF() / LRH(dlid=12, slid=18)),
    "ERF, InfiniBand with GRH": (197, ERF() / LRH(dlid=12, slid=18) / V1),
    "ERF, extension header, InfiniBand": (197, ERF() / ERFExtension(type=17) / LRH(dlid=12, slid=18)),
    "ERF, extension header that looks like an LRH, InfiniBand": (
        197,
        ERF() / ERFExtension(type=17, data=0x02020202020202) / LRH(dlid=12, slid=18),
    ),
    "ERF, extension headers, InfiniBand with GRH": (
        197,
        ERF() / ERFExtension(type=17) / ERFExtension(type=16) / LRH(dlid=12, slid=18) / V1,
    ),
    "ERF, Ethernet, IPv4": (197, ERF() / ERFEthernet() / ETHER / V4),
    "ERF, Ethernet, bytes that look like an LRH, IPv4": (197, ERF() / ERFEthernet(pad=2) / ETHER / V4),
    "ERF, Ethernet, IPv4 with options": (197, ERF() / ERFEthernet() / ETHER / V4_OPTIONS),
    "ERF, Ethernet, IPv6": (197, ERF() / ERFEthernet() / ETHER / V6),
    "ERF, Ethernet, RoCE v1": (197, ERF() / ERFEthernet() / ETHER / V1),
    "ERF, Ethernet, VLAN, IPv4": (197, ERF() / ERFEthernet() / ETHER / Dot1Q(vlan=77) / V4),
    "ERF, coloured Ethernet, IPv4": (197, ERF(type=11) / ERFEthernet() / ETHER / V4),
    "ERF, extension header, Ethernet, IPv4": (
        197,
        ERF(type="Ethernet") / ERFExtension(type=17) / ERFEthernet() / ETHER / V4,
    ),
}
DATA_QPN = 0x000111
CONTENTS = {
    "REQ": BTH(psn=5) / DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7, local_qpn=DATA_QPN),
    "REP with immediate data": BTH(opcode=0x65) / DETH(source_qp=1) / ImmDt() / MAD() / CM_REP(local_comm_id=8),
    "RC": BTH(opcode=0x0E, dest_qp=DATA_QPN) / Raw(bytes(range(64))),
    "RC, QPN like QP 1": BTH(opcode=0x0E, dest_qp=0x010001) / Raw(bytes(range(64))),
    "UC": BTH(opcode=0x2A, dest_qp=DATA_QPN + 1) / Raw(bytes(32)),
    "UD": BTH(opcode=0x64, dest_qp=DATA_QPN) / DETH(q_key=0x11, source_qp=7) / Raw(bytes(80)),
    "SA": BTH() / DETH(source_qp=1) / MAD(mgmt_class=3) / Raw(bytes(232)),
}
ADVERTISEMENT = IPv6(src="fd77::2", dst="ff02::1", hlim=255) / ICMPv6ND_NA(tgt="fd77::2", O=1)
ADVERTISEMENT /= ICMPv6NDOptDstLLAddr(lladdr="52:54:00:aa:00:02")
ANSWER = ARP(op=2, hwsrc="52:54:00:aa:00:02", psrc="10.77.0.2")
ROCE = UDP(sport=50000, dport=4791) / BTH() / DETH(source_qp=1) / MAD()
PORT_UNREACHABLE = IP(src="10.77.0.2", dst="10.77.0.1") / ICMP(type=3, code=3)
PORT_UNREACHABLE /= IP(src="10.77.0.1", dst="10.77.0.2") / ROCE
NO_ROUTE = IPv6(src="fd77::fe", dst="fd77::1") / ICMPv6DestUnreach(code=0) / IPv6(src="fd77::1", dst="fd77::2") / ROCE
NOTICES = [  # link type and a frame that tells of a neighbour, or of a packet that was not delivered
    (link_type, bytes(link / packet))
    for link_type, link in (
        (1, ETHER),
        (1, ETHER / Dot1Q(vlan=77)),
        (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77)),
        (113, CookedLinux()),
        (276, CookedLinuxV2()),
        (197, ERF() / ERFEthernet() / ETHER),
        (197, ERF(type="Ethernet") / ERFExtension(type=17) / ERFEthernet() / ETHER / Dot1Q(vlan=77)),
    )
    for packet in (ANSWER, ADVERTISEMENT, PORT_UNREACHABLE, NO_ROUTE)
]
OTHERS = [
    (1, ETHER / ARP(op=3)),
    (1, ETHER / IP() / TCP() / Raw(bytes(100))),
    (1, ETHER / IP() / UDP(sport=5000, dport=53) / Raw(bytes(60))),
    (1, ETHER / IP(frag=64) / UDP() / Raw(bytes(60))),
    (1, ETHER / IPv6() / TCP()),
    (1, ETHER / IP() / ICMP(type=8) / Raw(bytes(60))),
    (1, ETHER / IP() / ICMP(type=3, code=3) / IP() / UDP(dport=53)),
    (247, LRH(lnh=0) / Raw(bytes(40))),
    (197, ERF(type=1) / Raw(bytes(40))),
    (113, CookedLinux(proto=0x0806) / Raw(bytes(28))),
]


def built(content):
    return [(link_type, bytes(header / content)) for link_type, header in ENCAPSULATIONS.values()]


CM = {name: built(CONTENTS[name]) for name in ("REQ", "REP with immediate data")}
DATA = {name: built(content) for name, content in CONTENTS.items() if name not in CM}
FRAMES: dict[int, list[bytes]] = {}
for table in (CM, DATA):
    for frames in table.values():
        for link_type, data in frames:
            FRAMES.setdefault(link_type, []).append(data)
for link_type, packet in OTHERS:
    FRAMES[link_type].append(bytes(packet))
for link_type, data in NOTICES:
    FRAMES[link_type].append(data)


def erf_of(data: bytes, timestamp: int, padding: int) -> bytes:
    """A record of an ERF file from a frame of link type 197."""
    record = bytearray(struct.pack("<Q", timestamp) + data[8:] + bytes(padding))
    struct.pack_into(">H", record, 10, len(record))
    return bytes(record)


class Result(NamedTuple):
    messages: list
    info: InputInfo
    frames: list[Frame]


def outcome(path: Path, schedule: list[set[int]], *, everything: bool) -> Result | str:
    """What a reader finds that watches the QPNs of `schedule` in turn, the next with every CM message."""
    watched: set[int] = set()
    scan_request = ScanRequest(watched, everything=everything)
    decode, found, frames = Decoder(), [], []
    try:
        with open_capture(str(path), 0) as capture:
            for frame in capture.scan(scan_request):
                frames.append(frame)
                assert capture.info.frames == frame.number
                message = decode(frame, watched if frame.number <= scan_request.until else ()) or notice(frame)
                if isinstance(message, CmMessage):
                    scan_request.heard(frame.number)
                    watched.clear()
                    watched.update(schedule[len(found) % len(schedule)] if schedule else ())
                if message is not None:
                    found.append(message)
    except SourceError as error:
        return str(error)
    return Result(found, capture.info, frames)


def same(path: Path, schedule: list[set[int]] = []) -> Result | str:  # noqa: B006
    """Assert that the scan finds what the full iteration finds; its outcome."""
    expected = outcome(path, schedule, everything=True)
    got = outcome(path, schedule, everything=False)
    if isinstance(expected, str):
        assert got == expected
        return got
    assert (got.messages, got.info) == (expected.messages, expected.info)
    assert set(got.frames) <= set(expected.frames)
    times = [frame.time for frame in expected.frames if frame.time]
    assert got.info.first_time == min(times, default=None)
    assert got.info.last_time == max((time for time in times if time > 0), default=None)
    assert got.info.cut_frames == sum(frame.wire_length > len(frame.data) for frame in expected.frames)
    return got


SCHEDULE = st.lists(st.sets(st.sampled_from([DATA_QPN, DATA_QPN + 1, 0x010001]), max_size=2), max_size=4)
TIMES = st.one_of(st.integers(0, 2), st.integers(START, START + 3 * SECOND), st.integers(0, 4_000_000_000 * SECOND))
CHANGE = st.tuples(st.integers(0, 90), st.sampled_from([0, 1, 2, 6, 17, 0x1B, 43, 44, 60, 0x45, 0x46, 0x81, 0x95, 255]))


@st.composite
def packet(draw, link_type):
    """A frame as it is, or with some bytes changed, or cut: data, length on the wire."""
    data = draw(st.sampled_from(FRAMES[link_type]))
    whole = len(data)
    how = draw(st.integers(0, 5))
    if how in (0, 1):
        changed = bytearray(data)
        for position, value in draw(st.lists(CHANGE, min_size=1, max_size=3)):
            changed[position % whole] = value
        data = bytes(changed)
    if how in (1, 2):
        data = data[: draw(st.integers(0, whole))]
    return data, draw(st.sampled_from([whole, len(data)]))


@st.composite
def records(draw, link_type):
    """Some packets with their times, most of them many times over, as data packets come."""
    found = []
    for _ in range(draw(st.integers(0, 12))):
        data, wire = draw(packet(link_type))
        time = draw(TIMES)
        found += [(time + step, data, wire) for step in range(draw(st.sampled_from([1, 1, 2, 9])))]
    return found


ORDERS = st.sampled_from("<>")


@st.composite
def pcap_file(draw, make):
    link_type = draw(st.sampled_from(sorted(FRAMES)))
    return make.pcap(draw(records(link_type)), draw(ORDERS), nano=draw(st.booleans()), link_type=link_type)


@st.composite
def erf_file(draw, make):
    time, content = START, b""
    for _, data, _ in draw(records(197)):
        time += draw(st.sampled_from([0, 1, 1 << 30, -5]))
        data = data.ljust(16, b"\0")
        content += erf_of(data, time, draw(st.sampled_from([0, 0, 3, 8])))
        if draw(st.integers(0, 9)) == 0:
            content += make.erf_record(time, bytes(40), kind=48)
    return content


@st.composite
def pcapng_file(draw, make):
    content = b""
    for _ in range(draw(st.integers(1, 2))):
        order = draw(ORDERS)
        content += make.section(order)
        link_types = []
        for _ in range(draw(st.integers(1, 4))):
            for link_type in draw(st.lists(st.sampled_from([*FRAMES, 1, 105]), min_size=not link_types, max_size=2)):
                options = b""
                if draw(st.booleans()):
                    resolution = draw(st.sampled_from([0, 3, 9, 12, 0x80 | 10]))
                    options += make.option(9, bytes([resolution]), order)
                if draw(st.booleans()):
                    shift = draw(st.sampled_from([1, -1, -1_700_000_000]))
                    options += make.option(14, struct.pack(order + "q", shift), order)
                content += make.interface(link_type, order, options=options)
                link_types.append(link_type)
            index = draw(st.integers(0, len(link_types) - 1))
            link_type = link_types[index]
            for time, data, wire in draw(records(link_type if link_type in FRAMES else 1)):
                kind = draw(st.integers(0, 9))
                if kind == 0:
                    content += make.obsolete(time, data + b"\0" * (-len(data) % 4), wire, index, order)
                elif kind == 1 and index == 0:
                    content += make.simple(data, len(data), order)
                elif kind == 2:
                    content += make.block(draw(st.sampled_from([5, 0x0BAD])), bytes(8), order)
                else:
                    content += make.enhanced(time, data, wire, index, order)
    return content


NAMES = list(ENCAPSULATIONS)
WITHOUT_SHAPE = [name for name in NAMES if "extension header" in name or "IPv6, routed" in name or "fragment" in name]
WITHOUT_SHAPE.append("ERF, Ethernet, IPv6")
FORMATS = [("pcap", name) for name in NAMES] + [("pcapng", name) for name in NAMES]
FORMATS += [("erf", name) for name in NAMES if name.startswith("ERF")]


def capture_of(make, container, name, contents) -> bytes:
    """The contents one after the other in one encapsulation, a millisecond apart."""
    which = NAMES.index(name)
    packets = [(CM.get(content) or DATA[content])[which] for content in contents]
    timed = [(START + number * 1_000_000, data, len(data)) for number, (_, data) in enumerate(packets)]
    if container == "erf":
        return b"".join(erf_of(data, (time << 32) // SECOND, 0) for time, data, _ in timed)
    return getattr(make, container)(timed, link_type=packets[0][0])
