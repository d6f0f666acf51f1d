"""A message in a tunnel is the message of the bare packet, for all who look for it."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from sources.files.traffic import same
from wire.tunnels import AROUND_ETHERNET, AROUND_IP, ENDS, NOT_FILTERED, RECEIVER, SENDER, gre, in_gre, in_udp, mpls

from dissectors.cm import CM_REQ
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH, GRH
from ibcmtool.packets import CmMessage, Frame
from ibcmtool.redaction import Redactor
from ibcmtool.wire import detail, notices, tunnels
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.links import LINK_TYPES

Passes = Callable[[int, bytes], bool]
REQ = BTH(psn=5) / DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7, local_qpn=0x111)
DATA = BTH(opcode=0x0E, dest_qp=0x111) / Raw(bytes(range(64)))
HOST = Ether(src="52:54:00:00:00:01", dst="52:54:00:00:00:02")
NETWORKS: dict[str, Packet] = {
    "ipv4": IP(src="10.77.0.1", dst="10.77.0.2") / UDP(),
    "ipv6": IPv6(src="fd77::1", dst="fd77::2") / UDP(),
    "grh": GRH(sgid="fe80::1", dgid="fe80::2"),
}
PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
EVERY = [*AROUND_ETHERNET, *AROUND_IP]


def around(name: str, network: Packet, content: Packet, tag: Packet | None = None) -> bytes | None:
    """A frame with a packet in this tunnel; None where it carries no such."""
    if name in AROUND_ETHERNET:
        return AROUND_ETHERNET[name](bytes((HOST if tag is None else HOST / tag) / network / content))
    if isinstance(network, GRH):
        return None
    return AROUND_IP[name](bytes(network / content), 4 if isinstance(network, IP) else 6)


def frame(data: bytes) -> Frame:
    return Frame(0, 1, 0, 1, data, len(data))


def message(data: bytes) -> CmMessage:
    found = Decoder()(frame(data))
    assert isinstance(found, CmMessage)
    return found


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_message_is_that_of_the_bare_packet(name: str, kind: str, passes: Passes) -> None:
    network = NETWORKS[kind]
    for tag in (None, Dot1Q(vlan=77)):
        data = around(name, network, REQ, tag)
        if data is None:
            return
        bare, tunnelled = message(bytes(HOST / network / REQ)), message(data)
        assert tunnelled.icrc_ok is True
        for part in ("type", "source", "destination", "transport", "psn", "tid", "fields", "mad"):
            assert getattr(tunnelled, part) == getattr(bare, part), part
        inner, plain = envelope(tunnelled), envelope(bare)
        assert inner is not None
        assert plain is not None
        assert [layer.layer for layer in detail.layers(detail.dissect(frame(data)))][-1] == "CM_REQ"
        assert inner[:11] == plain[:11]  # all but the link layer
        if name in AROUND_ETHERNET:
            assert (inner.source_mac, inner.destination_mac) == (plain.source_mac, plain.destination_mac)
            assert inner.vlan_ids == (() if tag is None else (77,))
        else:
            assert (inner.source_mac, inner.destination_mac, inner.vlan_ids) == (None, None, ())
        assert passes(1, data) or name in NOT_FILTERED
        assert not passes(1, around(name, network, DATA, tag) or b"")


@pytest.mark.parametrize("name", EVERY)
def test_a_damaged_message_has_a_wrong_icrc(name: str) -> None:
    data = bytearray(around(name, NETWORKS["ipv4"], REQ) or b"")
    data[-20] ^= 1
    assert message(bytes(data)).icrc_ok is False


@given(st.lists(st.sampled_from(EVERY), min_size=1, max_size=tunnels.MAX_TUNNELS + 2), st.sampled_from([*NETWORKS]))
def test_one_inside_the_other(names: list[str], kind: str) -> None:
    data = bytes(HOST / NETWORKS[kind] / REQ)
    depth = 0
    for name in names:
        if name in AROUND_ETHERNET:
            data = AROUND_ETHERNET[name](data)
        elif data[12:14] in (b"\x08\0", b"\x86\xdd"):
            data = AROUND_IP[name](data[14:], 4 if data[12] == 8 else 6)
        else:
            continue
        depth += 1
    if depth <= tunnels.MAX_TUNNELS:
        assert message(data).fields == message(bytes(HOST / NETWORKS[kind] / REQ)).fields
    else:
        assert Decoder()(frame(data)) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(EVERY), min_size=1, max_size=4), plain=st.sampled_from([*NETWORKS]))
def test_the_scan_finds_them_among_plain_data_packets(names: list[str], plain: str, tmp_path: Path) -> None:
    """The first bytes of a tunnel's frame may be those of the plain packets."""
    packets = [bytes(HOST / NETWORKS[plain] / DATA)] * 3
    for name in names:
        packets += [around(name, NETWORKS["ipv4"], DATA) or b"", around(name, NETWORKS["ipv4"], REQ) or b""]
        packets += [bytes(HOST / NETWORKS[plain] / DATA)] * 2
    records = [struct.pack("<IIII", at, 0, len(packet), len(packet)) + packet for at, packet in enumerate(packets)]
    path = tmp_path / "capture"
    path.write_bytes(PCAP + b"".join(records))
    result = same(path)
    assert not isinstance(result, str)
    assert [each.frame for each in result.messages] == [5 + 4 * index for index in range(len(names))]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("kind", NETWORKS)
def test_redaction(name: str, kind: str) -> None:
    data = around(name, NETWORKS[kind], REQ)
    if data is None:
        return
    redacted = Redactor()(frame(data)).data
    assert len(redacted) == len(data)
    texts = ("10.77.0.1", "10.77.0.2", "172.30.1.2", "172.30.3.4")
    hidden = [socket.inet_aton(text) for text in texts]
    hidden += [socket.inet_pton(socket.AF_INET6, text) for text in ("fd30::1", "fd30::2", "fd77::1", "fd77::2")]
    for trace in (*hidden, SENDER, RECEIVER, b"\x52\x54\0\0\0\1", b"\x52\x54\0\0\0\2"):
        assert trace not in redacted
    assert message(redacted).icrc_ok is True
    assert message(redacted).fields.local_comm_id == 7
    if redacted[12:14] == b"\x08\0":
        header = struct.unpack("!10H", redacted[14:34])
        assert sum(header) % 0xFFFF == 0


def test_redaction_keeps_the_checksum_of_gre() -> None:
    data = around("GRE with all options", NETWORKS["ipv4"], REQ)
    content = Redactor()(frame(data or b"")).data[34:]
    assert sum(struct.unpack(f"!{len(content) // 2}H", content[: len(content) // 2 * 2])) % 0xFFFF in (
        0,
        0xFFFF - (content[-1] << 8) if len(content) % 2 else 0,
    )


@pytest.mark.parametrize("name", AROUND_ETHERNET)
def test_neighbours(name: str) -> None:
    gateway = b"\x52\x54\x00\xff\xff\xff"
    answer = ARP(op=2, hwsrc=gateway.hex(":"), psrc="10.77.0.9")
    data = AROUND_ETHERNET[name](bytes(HOST / Dot1Q(vlan=5) / answer))
    told = notices.told(1, data)
    assert told is not None
    assert (told.gid[12:], told.mac, told.vlan_ids) == (b"\x0a\x4d\0\x09", gateway, (5,))
    redacted = Redactor()(frame(data)).data
    for trace in (gateway, SENDER, RECEIVER, socket.inet_aton("172.30.1.2"), b"\x0a\x4d\0\x09"):
        assert trace not in redacted


@given(
    st.sampled_from(EVERY),
    st.sampled_from([*NETWORKS]),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4),
    st.integers(0, 500),
)
def test_hostile_bytes(name: str, kind: str, changes: list[tuple[int, int]], end: int) -> None:
    content = bytearray(around(name, NETWORKS[kind], REQ) or bytes(100))
    for at, value in changes:
        content[at % len(content)] = value
    data = bytes(content[:end])
    found = Decoder()(frame(data))
    assert found is None or isinstance(found, CmMessage)
    if isinstance(found, CmMessage):
        assert envelope(found) is not None
    notices.told(1, data)
    Redactor()(frame(data))


def test_what_is_no_tunnel() -> None:
    inner = bytes(HOST / NETWORKS["ipv4"] / REQ)
    for data in (
        in_gre(lambda payload: gre(0x6558, payload, flags=0x4000))(inner),  # source routes
        in_gre(lambda payload: gre(0x6558, payload, flags=0x0001))(inner),  # PPTP
        in_gre(lambda payload: gre(0x1234, payload))(inner),
        in_udp(4789, lambda payload: bytes(8) + payload)(inner),  # VXLAN without an id
        in_udp(6081, lambda payload: b"\x40\0\x65\x58\0\0\0\0" + payload)(inner),  # another version of Geneve
        in_udp(4790, lambda payload: b"\x08" + bytes(7) + payload)(inner),
        mpls(inner[14:], count=9),
        bytes(ENDS / IP(proto=47, flags="MF") / Raw(gre(0x6558, inner))),
        bytes(ENDS / IP(proto=47, frag=5) / Raw(gre(0x6558, inner))),
    ):
        assert Decoder()(frame(data)) is None
        assert LINK_TYPES[1].find(data) is None


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_as_wireshark_sees_them(tmp_path: Path) -> None:
    """It finds the same messages, but where it takes a tunnel for none: a pseudowire has no mark of its own."""
    unseen = {"MPLS pseudowire", "MPLS pseudowire, control word", "IP in ERSPAN III", "ERSPAN I"}
    frames = [
        (name, data)
        for name in EVERY
        if name not in unseen
        for network in NETWORKS.values()
        if (data := around(name, network, REQ)) is not None
    ]
    path = tmp_path / "capture.pcap"
    path.write_bytes(PCAP + b"".join(struct.pack("<IIII", 1, 0, len(data), len(data)) + data for _, data in frames))
    command = ["tshark", "-n", "-r", str(path), "-Y", "infiniband.cm.req == 7", "-T", "fields", "-e", "frame.number"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    seen = {int(line) for line in run.stdout.split()}
    assert [name for number, (name, _) in enumerate(frames, 1) if number not in seen] == []
