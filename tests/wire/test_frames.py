"""Whole frames of every link type: built with the layers, dissected by Scapy's own machinery, cut at every byte."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Padding, Raw
from scapy.utils import PcapReader, RawPcapWriter, rdpcap

from dissectors.cm import CM_REQ
from dissectors.encapsulation import ERF, ERFEthernet, ERFExtension
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH, LRH

ROOT = Path(__file__).resolve().parents[2]

ETHER = Ether(dst="52:54:00:aa:00:01", src="52:54:00:aa:00:02")
CM = BTH(psn=5) / DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7, service_id=0x0000000001061144)
CM_LAYERS = "BTH/DETH/MAD/CM_REQ"
ROCE_V1 = GRH(sgid="fe80::2", dgid="fe80::1") / CM
ROCE_V2 = IP(src="10.77.0.2", dst="10.77.0.1") / UDP() / CM
ROCE_V2_IPV6 = IPv6(src="fd77::2", dst="fd77::1") / UDP() / CM
NATIVE = LRH(dlid=12, slid=18) / CM
NATIVE_GLOBAL = LRH(dlid=12, slid=18) / ROCE_V1

FRAMES = [
    (1, ETHER / ROCE_V1, "Ether/GRH"),
    (1, ETHER / ROCE_V2, "Ether/IP/UDP"),
    (1, ETHER / ROCE_V2_IPV6, "Ether/IPv6/UDP"),
    (1, ETHER / Dot1Q(vlan=77) / ROCE_V2, "Ether/Dot1Q/IP/UDP"),
    (1, ETHER / Dot1Q(vlan=77) / ROCE_V1, "Ether/Dot1Q/GRH"),
    (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77) / ROCE_V2, "Ether/Dot1AD/Dot1Q/IP/UDP"),
    (1, ETHER / Dot1AD(vlan=7) / ROCE_V1, "Ether/Dot1AD/GRH"),
    (1, ETHER / Dot1Q(vlan=7) / Dot1Q(vlan=77) / ROCE_V2_IPV6, "Ether/Dot1Q/Dot1Q/IPv6/UDP"),
    (113, CookedLinux() / ROCE_V1, "CookedLinux/GRH"),
    (113, CookedLinux() / ROCE_V2, "CookedLinux/IP/UDP"),
    (113, CookedLinux() / ROCE_V2_IPV6, "CookedLinux/IPv6/UDP"),
    (113, CookedLinux() / Dot1AD(vlan=7) / Dot1Q(vlan=77) / ROCE_V2, "CookedLinux/Dot1AD/Dot1Q/IP/UDP"),
    (276, CookedLinuxV2() / ROCE_V1, "CookedLinuxV2/GRH"),
    (276, CookedLinuxV2() / ROCE_V2, "CookedLinuxV2/IP/UDP"),
    (276, CookedLinuxV2() / Dot1Q(vlan=77) / ROCE_V2_IPV6, "CookedLinuxV2/Dot1Q/IPv6/UDP"),
    (276, CookedLinuxV2() / Dot1AD(vlan=7) / ROCE_V1, "CookedLinuxV2/Dot1AD/GRH"),
    (197, ERF() / NATIVE, "ERF/LRH"),
    (197, ERF() / NATIVE_GLOBAL, "ERF/LRH/GRH"),
    (197, ERF() / ERFExtension(type=17) / NATIVE, "ERF/ERFExtension/LRH"),
    (
        197,
        ERF() / ERFExtension(type=17) / ERFExtension(type=16) / NATIVE_GLOBAL,
        "ERF/ERFExtension/ERFExtension/LRH/GRH",
    ),
    (197, ERF() / ERFEthernet() / ETHER / ROCE_V2, "ERF/ERFEthernet/Ether/IP/UDP"),
    (
        197,
        ERF(type="Ethernet") / ERFExtension(type=17) / ERFEthernet() / ETHER / ROCE_V1,
        "ERF/ERFExtension/ERFEthernet/Ether/GRH",
    ),
    (247, NATIVE, "LRH"),
    (247, NATIVE_GLOBAL, "LRH/GRH"),
]
every_frame = pytest.mark.parametrize(
    ("link_type", "frame", "below"), FRAMES, ids=[f"{row[0]} {row[2]}" for row in FRAMES]
)


def names(packet: Packet) -> str:
    return "/".join(layer.__name__ for layer in packet.layers())


def read_back(link_type: int, data: bytes) -> Packet:
    """As Scapy reads it from a capture file; bytes that one of its own layers can not take become Raw."""
    file = io.BytesIO()
    file.close = lambda: None  # the writer closes it
    writer = RawPcapWriter(file, linktype=link_type)
    writer.write_header(None)
    writer.write_packet(data)
    file.seek(0)
    return PcapReader(file).read_packet()


@every_frame
def test_dissected_as_built(link_type, frame, below):
    data = bytes(frame)
    packet = read_back(link_type, data)
    assert names(packet) == f"{below}/{CM_LAYERS}"
    assert bytes(packet) == data
    assert (packet[CM_REQ].local_comm_id, packet[CM_REQ].service_id) == (7, 0x0000000001061144)
    assert (packet[BTH].dest_qp, packet[DETH].q_key, packet[MAD].mgmt_class) == (1, 0x80010000, 7)
    assert packet[BTH].icrc.to_bytes(4, "big") == packet[BTH].checksum()
    if LRH in packet:
        assert packet[LRH].vcrc.to_bytes(2, "big") == packet[LRH].checksum()


@every_frame
def test_cut_at_every_byte(link_type, frame, below, caplog):
    caplog.set_level(logging.CRITICAL, logger="scapy")
    data = bytes(frame)
    for captured in range(1, len(data)):
        packet = read_back(link_type, data[:captured])
        assert bytes(packet) == data[:captured]
        assert packet.show(dump=True)
        kept = [layer for layer in names(packet).split("/") if layer not in ("Raw", "Padding")]
        assert kept == f"{below}/{CM_LAYERS}".split("/")[: len(kept)]


@pytest.mark.parametrize(("link_type", "frame", "below"), [row for row in FRAMES if row[0] != 247])
def test_bytes_behind_the_packet_are_padding(link_type, frame, below):
    """An Ethernet frame check sequence, or the alignment of an ERF record."""
    data = bytes(frame) + b"\x5a\x5a\x5a\x5a"
    packet = read_back(link_type, data)
    assert names(packet) == f"{below}/{CM_LAYERS}/Padding"
    assert bytes(packet) == data
    assert packet[BTH].icrc.to_bytes(4, "big") == packet[BTH].checksum()


def test_default_ports_of_roce_v2():
    udp = ROCE_V2[UDP]
    assert (udp.sport, udp.dport) == (0xC000, 4791)
    assert (IP() / UDP(sport=0xC123) / BTH())[UDP].sport == 0xC123


@pytest.mark.parametrize("port", [53, 67, 69, 123, 161, 500, 4789, 4791, 5353])
def test_source_port_of_another_protocol(port):
    packet = Ether(bytes(ETHER / IP(src="10.77.0.2", dst="10.77.0.1") / UDP(sport=port) / CM))
    assert names(packet) == f"Ether/IP/UDP/{CM_LAYERS}"


def test_other_destination_ports_stay_what_they_are():
    data = bytes(ETHER / IP(src="10.77.0.2", dst="10.77.0.1") / UDP(sport=4791, dport=4792) / Raw(bytes(CM)))
    assert names(Ether(data)) == "Ether/IP/UDP/Raw"


def test_later_fragment_is_no_message():
    data = bytes(ETHER / IP(src="10.77.0.2", dst="10.77.0.1", flags="MF", frag=3, proto=17) / Raw(bytes(UDP() / CM)))
    assert BTH not in Ether(data)


def test_old_qinq_ethertype():
    data = bytearray(bytes(ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=77) / ROCE_V2))
    data[12:14] = b"\x91\x00"
    packet = Ether(bytes(data))
    assert names(packet) == f"Ether/Dot1Q/Dot1Q/IP/UDP/{CM_LAYERS}"
    assert (packet[Dot1Q].vlan, packet[Dot1Q:2].vlan) == (7, 77)


def test_erf_header_bytes():
    """Little endian time, big endian lengths; ibdump writes the same flags."""
    erf = ERF(timestamp=(0x65C0FFEE << 32) | 0x80000000)
    data = bytes(erf / NATIVE)
    assert len(data) == 16 + 290
    assert data[:16].hex() == "00000080" + "eeffc065" + "15" + "04" + "0132" + "0000" + "0122"
    assert "1707147246.500000000 s" in erf.show(dump=True)


def test_erf_lengths_leave_out_extension_headers_and_ethernet_pad():
    frame = ERF(bytes(ERF(type=2) / ERFExtension() / ERFExtension() / ERFEthernet() / ETHER / ROCE_V2))
    ethernet = len(ETHER / ROCE_V2)
    assert (frame.record_length, frame.wire_length) == (16 + 2 * 8 + 2 + ethernet, ethernet)
    assert [frame[ERFExtension:number].more for number in (1, 2)] == [1, 0]
    assert frame.extension_header == 1


@pytest.mark.parametrize("erf_type", [2, 11, 16, 20])
def test_erf_ethernet_types(erf_type):
    packet = ERF(bytes(ERF(type=erf_type) / ERFEthernet() / ETHER / ROCE_V2))
    assert (names(packet), packet.type) == (f"ERF/ERFEthernet/Ether/IP/UDP/{CM_LAYERS}", erf_type)
    assert (ERF() / ERFEthernet()).type == 2


def test_erf_record_aligned_to_eight_bytes():
    data = bytes(ERF(record_length=312, wire_length=290) / NATIVE) + bytes(6)
    packet = ERF(data)
    assert names(packet) == f"ERF/LRH/{CM_LAYERS}/Padding"
    assert packet[Padding].load == bytes(6)
    assert bytes(packet) == data


def test_erf_of_a_type_without_packets_of_ours():
    assert names(ERF(bytes(ERF(type=1) / Raw(b"hdlc")))) == "ERF/Raw"
    assert names(ERF(bytes(ERF(type=1) / ERFExtension() / Raw(b"hdlc")))) == "ERF/ERFExtension/Raw"


@pytest.mark.parametrize("first", ["scapy.contrib.roce", "dissectors.encapsulation"])
def test_beside_scapys_own_roce_layers(first):
    """Whichever is loaded first: frames become our layers, and scapy.contrib.roce still builds its own."""
    code = f"""if True:
        import {first}
        import dissectors.cm, dissectors.encapsulation, scapy.contrib.roce
        from scapy.layers.inet import IP, UDP
        from scapy.layers.l2 import Ether
        from dissectors.transport import BTH, GRH
        link = dict(src="52:54:00:aa:00:02", dst="52:54:00:aa:00:01")
        theirs = Ether(**link) / IP(src="10.77.0.2", dst="10.77.0.1") / UDP() / scapy.contrib.roce.BTH(dqpn=17, psn=9)
        packet = Ether(bytes(theirs))
        print(theirs[UDP].dport, packet[BTH].dest_qp, packet[BTH].icrc.to_bytes(4, "big") == packet[BTH].checksum())
        print(type(Ether(bytes(Ether(**link) / GRH() / BTH())).payload) is GRH)
        """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4791 17 True\nTrue\n"


def public(name: str) -> list[Packet]:
    path = ROOT / "../shared/captures/public" / name
    if not path.exists():
        pytest.skip(f"no capture {name}")
    return list(rdpcap(str(path)))


def test_recorded_source_port_69():
    packets = [packet for packet in public("no-cm-source-port-69.pcap") if UDP in packet and packet[UDP].sport == 69]
    assert packets
    assert {names(packet) for packet in packets} == {"Ether/IP/UDP/BTH/Raw"}


def test_recorded_native_infiniband():
    packets = public("erf-rping-native-ib.pcap")
    messages = [packet for packet in packets if MAD in packet]
    assert {names(packet).rpartition("/")[0] for packet in messages} == {"ERF/LRH/BTH/DETH/MAD"}
    assert (messages[0][LRH].slid, messages[0][LRH].dlid) == (18, 12)
    for packet in packets:
        assert packet[ERF].record_length == packet[ERF].wire_length + 16 == len(packet)
        assert packet[BTH].icrc.to_bytes(4, "big") == packet[BTH].checksum()
        assert packet[LRH].vcrc.to_bytes(2, "big") == packet[LRH].checksum()


def test_recorded_roce_v1():
    assert {"Ether/GRH/BTH/Raw", "Ether/IP/UDP/BTH/Raw"} == {
        names(packet) for packet in public("no-cm-roce-v1-v2.pcap")
    }


@pytest.mark.parametrize(
    ("name", "below"),
    [("rping", "Ether/IP/UDP"), ("rping_ipv6", "Ether/IPv6/UDP"), ("rping_vlan", "Ether/Dot1Q/IP/UDP")],
)
def test_recorded_roce_v2(name, below):
    for folder in ("captures", "../shared/captures"):
        path = ROOT / folder / "linux-rxe" / f"{name}.pcap"
        if path.exists():
            break
    else:
        pytest.skip(f"no capture {name}")
    first = rdpcap(str(path), count=1)[0]
    assert names(first) == f"{below}/{CM_LAYERS}"
    assert first[BTH].icrc.to_bytes(4, "big") == first[BTH].checksum()


def test_link_types_are_registered_for_writing():
    assert {layer: conf.l2types.layer2num[layer] for layer in (ERF, LRH)} == {ERF: 197, LRH: 247}


def test_packet_in_an_icmp_error():
    """A router quotes the start of the packet that it dropped."""
    quoted = bytes(ROCE_V2)[:48]
    packet = Ether(bytes(ETHER / IP(src="10.77.0.9", dst="10.77.0.2") / ICMP(type=3, code=4) / Raw(quoted)))
    assert packet[BTH].dest_qp == 1
