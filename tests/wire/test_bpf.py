"""The capture filters, as libpcap runs them: CM messages of every encapsulation pass, and no other traffic does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q
from scapy.packet import Packet, Raw
from sources.files.traffic import CONTENTS, ENCAPSULATIONS, ETHER, NOTICES, OTHERS, V1, V4, V6
from wire.test_frames import FRAMES

from dissectors.cm import CM_REQ
from dissectors.encapsulation import ERF, ERFEthernet
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, LRH
from ibcmtool.packets import Frame
from ibcmtool.wire.decode import Decoder

# The filter follows no chain of headers, nor options in front of which it would need to compute; no ib_cm sends such.
PASSED_OVER = {
    "Ethernet, IPv6 with an extension header",
    "Ethernet, IPv6 with extension headers",
    "Ethernet, IPv6, routed",
    "Ethernet, first fragment",
    "ERF, Ethernet, IPv4 with options",
}
LINKS = {
    "Ethernet": (1, ETHER),
    "Ethernet, VLAN": (1, ETHER / Dot1Q(vlan=7)),
    "Ethernet, QinQ": (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77)),
    "SLL": (113, CookedLinux()),
    "SLL, VLAN": (113, CookedLinux() / Dot1Q(vlan=7)),
    "SLL2": (276, CookedLinuxV2()),
    "SLL2, QinQ": (276, CookedLinuxV2() / Dot1AD(vlan=7) / Dot1Q(vlan=77)),
    "ERF, Ethernet": (197, ERF() / ERFEthernet() / ETHER),
}
REQ = DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7)
OTHER_IP = {
    "UDP to another port": IP() / UDP(sport=4791, dport=4792) / BTH() / REQ,
    "UDP to another port, IPv6": IPv6() / UDP(sport=4791, dport=4792) / BTH() / REQ,
    "TCP": IP() / TCP(dport=4791) / BTH() / REQ,
    "a later fragment": IP(frag=185, proto=17) / Raw(bytes(UDP() / BTH() / REQ)),
    "ping, IPv6": IPv6() / ICMPv6EchoRequest(data=bytes(300)),
}
OTHER_ROCE = {
    "to another QP": BTH(dest_qp=0x000111) / REQ,
    "to a QP that ends like QP 1": BTH(dest_qp=0x010001) / REQ,
    "RC": BTH(opcode=0x04) / REQ,
    "SA": BTH() / DETH(source_qp=1) / MAD(mgmt_class=3) / Raw(bytes(232)),
    "performance": BTH() / DETH(source_qp=1) / MAD(mgmt_class=4) / Raw(bytes(232)),
}

Passes = Callable[[int, bytes], bool]


def is_cm(link_type: int, data: bytes) -> bool:
    return Decoder()(Frame(0, 1, 0, link_type, data, len(data))) is not None


@pytest.mark.parametrize(("link_type", "frame", "below"), FRAMES, ids=[f"{row[0]} {row[2]}" for row in FRAMES])
def test_every_encapsulation_passes(link_type: int, frame: Packet, below: str, passes: Passes) -> None:
    assert passes(link_type, bytes(frame))


@pytest.mark.parametrize("name", ENCAPSULATIONS)
@pytest.mark.parametrize("content", CONTENTS)
def test_what_passes_is_what_the_decoder_takes(name: str, content: str, passes: Passes) -> None:
    link_type, header = ENCAPSULATIONS[name]
    data = bytes(header / CONTENTS[content])
    assert passes(link_type, data) is (content == "REQ" and name not in PASSED_OVER)
    assert is_cm(link_type, data) is (content in ("REQ", "REP with immediate data"))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("kind", OTHER_IP)
def test_other_ip_traffic_does_not_pass(name: str, kind: str, passes: Passes) -> None:
    link_type, link = LINKS[name]
    assert not passes(link_type, bytes(link / OTHER_IP[kind]))


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("kind", OTHER_ROCE)
@pytest.mark.parametrize("network", [V1, V4, V6], ids=["RoCE v1", "IPv4", "IPv6"])
def test_other_roce_traffic_does_not_pass(name: str, kind: str, network: Packet, passes: Passes) -> None:
    link_type, link = LINKS[name]
    assert passes(link_type, bytes(link / network / BTH() / REQ))
    assert not passes(link_type, bytes(link / network / OTHER_ROCE[kind]))


@pytest.mark.parametrize("link_type", [247, 197], ids=["INFINIBAND", "ERF"])
@pytest.mark.parametrize("kind", OTHER_ROCE)
@pytest.mark.parametrize("header", [LRH(), LRH() / V1], ids=["local", "with GRH"])
def test_other_infiniband_traffic_does_not_pass(link_type: int, kind: str, header: Packet, passes: Passes) -> None:
    link = ERF() / header if link_type == 197 else header
    assert passes(link_type, bytes(link / BTH() / REQ))
    assert not passes(link_type, bytes(link / OTHER_ROCE[kind]))


@pytest.mark.parametrize(("link_type", "data"), NOTICES)
def test_what_else_is_looked_at_passes(link_type: int, data: bytes, passes: Passes) -> None:
    assert passes(link_type, data)


@pytest.mark.parametrize(("link_type", "frame"), [row for row in OTHERS if "ARP" not in repr(row[1])])
def test_traffic_of_other_kinds_does_not_pass(link_type: int, frame: Packet, passes: Passes) -> None:
    assert not passes(link_type, bytes(frame))


def test_frames_cut_short_do_not_pass(passes: Passes) -> None:
    for link_type, frame, _ in FRAMES:
        data = bytes(frame)
        begin = data.index(b"\x01\x07\x02\x03")  # base version, class, class version, method of the MAD
        assert passes(link_type, data[: begin + 2])
        assert not any(passes(link_type, data[:end]) for end in range(begin + 2))
