"""LRH, GRH, BTH and DETH: what is computed on build, and what is said of checksums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Padding, Raw

import dissectors.encapsulation  # noqa: F401  (binds the layers to Ethernet and UDP)
from dissectors.cm import CM_DREQ, CM_REQ, CM_RTU
from dissectors.icrc import icrc_of, vcrc_of
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH, LRH, OPCODES, ImmDt

CM = BTH(psn=5) / DETH() / MAD(tid=9) / CM_RTU(local_comm_id=1, remote_comm_id=2)


def shown(packet: Packet, layer: type[Packet], name: str) -> str:
    return str(packet[layer].get_field(name).i2repr(packet[layer], packet[layer].getfieldval(name)))


def test_headers_of_a_cm_mad_are_filled_in() -> None:
    built = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / BTH() / DETH() / MAD() / CM_RTU())
    udp, bth, deth, mad = built[20:28], built[28:40], built[40:48], built[48:72]
    assert len(built) == 20 + 8 + 12 + 8 + 256 + 4
    assert udp[2:4] == (4791).to_bytes(2, "big")
    assert bth.hex(" ") == "64 00 ff ff 00 00 00 01 00 00 00 00"
    assert deth.hex(" ") == "80 01 00 00 00 00 00 01"
    assert mad.hex(" ") == "01 07 02 03" + " 00" * 12 + " 00 14" + " 00" * 6


def test_native_lengths_and_checksums() -> None:
    built = bytes(LRH(dlid=12, slid=18, service_level=3) / CM)
    assert len(built) == 290
    assert built[:8].hex(" ") == "00 32 00 0c 00 48 00 12"
    assert built[284:288] == icrc_of(built, 0, 8, 284, "lrh")
    assert built[288:] == vcrc_of(built[:288])


def test_native_global_lengths_and_checksums() -> None:
    built = bytes(LRH(dlid=12, slid=18) / GRH(sgid="fe80::1", dgid="fe80::2", hop_limit=1) / CM)
    assert len(built) == 330
    assert built[:8].hex(" ") == "00 03 00 0c 00 52 00 12"
    assert built[8:16].hex(" ") == "60 00 00 00 01 18 1b 01"
    assert built[324:328] == icrc_of(built, 8, 48, 324, "grh")


@pytest.mark.parametrize(
    ("below", "network", "bth", "kind"),
    [
        (Ether() / GRH(sgid="10.0.0.1", dgid="10.0.0.2"), 14, 54, "grh"),
        (Ether() / IP(src="10.0.0.1", dst="10.0.0.2", tos=5, ttl=9) / UDP(), 14, 42, "ipv4"),
        (Ether() / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()]) / UDP(), 14, 46, "ipv4"),
        (Ether() / IPv6(src="fd77::1", dst="fd77::2", tc=3, fl=77) / UDP(), 14, 62, "ipv6"),
    ],
)
def test_icrc_is_right_over_every_network(below: Packet, network: int, bth: int, kind: str) -> None:
    below.dst, below.src = "02:00:00:00:00:02", "02:00:00:00:00:01"
    built = bytes(below / CM)
    assert len(built) == bth + 280
    assert built[-4:] == icrc_of(built, network, bth, bth + 276, kind)  # type: ignore[arg-type]
    dissected = Ether(built)
    assert shown(dissected, BTH, "icrc") == f"0x{built[-4:].hex()} [right]"
    assert bytes(dissected) == built


def test_payload_is_padded_to_words() -> None:
    built = bytes(LRH() / BTH(opcode=0x04, dest_qp=5) / Raw(b"12345"))
    assert built[8 + 1] >> 4 & 3 == 3
    assert built[20:28] == b"12345\0\0\0"
    assert int.from_bytes(built[4:6], "big") == (8 + 12 + 8 + 4) // 4
    assert bytes(LRH(built)) == built


def test_wrong_checksums_are_shown_beside_the_expected_ones() -> None:
    built = bytes(LRH(dlid=12, slid=18) / CM)
    wrong = built[:100] + b"\x55" + built[101:]
    expected = icrc_of(wrong, 0, 8, 284, "lrh").hex()
    packet = LRH(wrong)
    assert shown(packet, BTH, "icrc") == f"0x{built[284:288].hex()} [wrong, expected 0x{expected}]"
    assert shown(packet, LRH, "vcrc") == f"0x{built[288:].hex()} [wrong, expected 0x{vcrc_of(wrong[:288]).hex()}]"
    assert expected in packet.show(dump=True)
    assert bytes(packet) == wrong, "a dissected checksum stays what it is"
    del packet[BTH].icrc
    del packet.vcrc
    repaired = LRH(bytes(packet))
    assert shown(repaired, BTH, "icrc") == f"0x{expected} [right]"
    assert shown(repaired, LRH, "vcrc").endswith("[right]")


def test_a_checksum_set_by_hand_is_built() -> None:
    built = bytes(LRH(vcrc=0x1234) / BTH(icrc=0xDEADBEEF) / DETH() / MAD() / CM_RTU())
    assert built[-6:].hex() == "deadbeef1234"


def test_icrc_without_headers_below_is_not_judged() -> None:
    packet = BTH(bytes(CM))
    assert shown(packet, BTH, "icrc") == "0x00000000 [not checked: no header below]"
    assert shown(CM, BTH, "icrc") == "[computed on build]"


def test_a_cut_frame_has_no_checksum() -> None:
    built = bytes(LRH() / CM)
    for size in (288, 287, 286, 285, 284, 200):
        packet = LRH(built[:size])
        assert packet.vcrc is None
        assert (packet[BTH].icrc is None) == (size < 288)
        assert bytes(packet) == built[:size]
    assert shown(LRH(built[:287]), BTH, "icrc") == "[cut off]"
    assert len(LRH(built[:287])[CM_RTU].private_data) == 224, "the rest of the ICRC is not private data"


def test_bytes_behind_the_packet_are_padding() -> None:
    built = bytes(LRH() / CM) + bytes(6)
    packet = LRH(built)
    assert packet[Padding].load == bytes(6)
    assert bytes(packet) == built
    frame = Ether(bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / GRH() / CM) + b"\x01\x02")
    assert frame[Padding].load == b"\x01\x02"
    assert shown(frame, BTH, "icrc").endswith("[right]")


def test_immediate_data_comes_before_the_mad() -> None:
    built = bytes(LRH() / BTH(opcode=0x65) / DETH() / ImmDt(immediate_data=0x01020304) / MAD() / CM_DREQ())
    assert built[28:34].hex() == "010203040107"
    packet = LRH(built)
    assert packet[ImmDt].immediate_data == 0x01020304
    assert packet[MAD].attribute_id == 0x15
    assert CM_DREQ in packet


@pytest.mark.parametrize("change", [{"dest_qp": 0x17}, {"opcode": 0x04}])
def test_other_packets_are_not_taken_for_mads(change: dict[str, int]) -> None:
    packet = LRH(bytes(LRH() / BTH(**change) / DETH() / MAD() / CM_REQ()))
    assert MAD not in packet
    assert Raw in packet


def test_a_mad_needs_the_q_key_of_qp1() -> None:
    assert MAD not in LRH(bytes(LRH() / BTH() / DETH(q_key=0x80010001) / MAD() / CM_REQ()))


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        (0x00, "RC SEND FIRST"),
        (0x11, "RC acknowledge"),
        (0x17, "RC SEND ONLY with invalidate"),
        (0x1C, "RC FLUSH"),
        (0x1D, "RC ATOMIC WRITE"),
        (0x24, "UC SEND ONLY"),
        (0x5C, "RD FLUSH"),
        (0x64, "UD SEND ONLY"),
        (0x65, "UD SEND ONLY with immediate"),
        (0x81, "CNP"),
        (0xA4, "XRC SEND ONLY"),
    ],
)
def test_opcode_names(opcode: int, name: str) -> None:
    assert OPCODES[opcode] == name


def test_combinations_that_do_not_exist_have_no_name() -> None:
    assert not OPCODES.keys() & {0x2C, 0x31, 0x3C, 0x5D, 0x60, 0x66, 0x71, 0x7C, 0xBC, 0xBD, 0xE4}
    assert shown(BTH(opcode=0x66), BTH, "opcode") == "unknown(0x66)"


def test_recorded_frames_are_built_again_byte_for_byte(recorded: Callable[[str], list[bytes]]) -> None:
    for name in ("rping", "rping_ipv6", "rping_vlan", "udaddy_sidr", "mra_rej_rep_retransmit"):
        for data in recorded(name):
            packet = Ether(data)
            assert shown(packet, BTH, "icrc").endswith("[right]")
            assert bytes(packet) == data
            for layer in (BTH, DETH, MAD):
                if layer in packet:
                    packet[layer].clear_cache()
            assert bytes(packet) == data
