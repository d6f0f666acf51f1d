"""ICMP errors: which packet was not delivered, who says so, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from dissectors.fields import gid_bytes
from ibcmtool.packets import Address, Frame, Undelivered
from ibcmtool.wire.notices import notice

A, B, ROUTER = "10.77.0.1", "10.77.0.2", "10.77.0.254"
A6, B6 = "fd77::1", "fd77::2"
ROCE = UDP(sport=50000, dport=4791) / Raw(bytes(40))
SENT, SENT6 = IP(src=A, dst=B) / ROCE, IPv6(src=A6, dst=B6) / ROCE


def told(packet: Packet) -> Undelivered | None:
    data = bytes(packet)
    found = notice(Frame(2, 7, 1_000, 1, data, len(data)))
    assert found is None or isinstance(found, Undelivered)
    return found


def named(reporter: str, source: str, destination: str, reason: str) -> Undelivered:
    ends = (Address(gid_bytes(address)) for address in (reporter, source, destination))
    return Undelivered(2, 7, 1_000, *ends, reason)


@pytest.mark.parametrize(
    ("reporter", "code", "reason"),
    [(B, 3, "port"), (ROUTER, 1, "host"), (ROUTER, 0, "network"), (ROUTER, 13, "prohibited")],
)
def test_ipv4(reporter: str, code: int, reason: str) -> None:
    error = IP(src=reporter, dst=A) / ICMP(type=3, code=code) / SENT
    for link in (Ether(), Ether() / Dot1Q(vlan=7), Ether() / IP() / UDP(dport=4789) / VXLAN(vni=1) / Ether()):
        assert told(link / error) == named(reporter, A, B, reason)
    assert told(Raw(bytes(Ether() / error)[:70])) == named(reporter, A, B, reason)  # 8 bytes of what was sent


@pytest.mark.parametrize(
    ("reporter", "code", "reason"),
    [(B6, 4, "port"), ("fd77::fe", 3, "host"), ("fd77::fe", 0, "network"), ("fd77::fe", 1, "prohibited")],
)
def test_ipv6(reporter: str, code: int, reason: str) -> None:
    assert told(Ether() / IPv6(src=reporter, dst=A6) / ICMPv6DestUnreach(code=code) / SENT6) == named(
        reporter, A6, B6, reason
    )


@pytest.mark.parametrize(
    "packet",
    [
        IP(src=B, dst=A) / ICMP(type=3, code=3) / IP(src=A, dst=B) / UDP(dport=53),
        IP(src=B, dst=A) / ICMP(type=3, code=4) / SENT,  # too large
        IP(src=B, dst=A) / ICMP(type=11) / SENT,
        IP(src=B, dst=A) / ICMP(type=8) / Raw(bytes(60)),
        IP(src=B, dst=A) / ICMP(type=3, code=3, chksum=4791) / SENT,  # as plain RoCE to the scan
        IPv6(src=B6, dst=A6) / ICMPv6EchoRequest(data=bytes(60)),
        IPv6(src=B6, dst=A6) / ICMPv6DestUnreach(code=4) / IPv6(src=A6, dst=B6) / UDP(dport=53),
        SENT,
    ],
)
def test_what_tells_nothing(packet: Packet) -> None:
    assert told(Ether() / packet) is None


@given(st.sampled_from([SENT, SENT6]), st.integers(0, 120), st.data())
def test_never_raises(sent: Packet, end: int, data: st.DataObject) -> None:
    error = (IP() / ICMP(type=3, code=3) if sent is SENT else IPv6() / ICMPv6DestUnreach(code=4)) / sent
    content = bytearray(bytes(Ether() / error))
    content[data.draw(st.integers(14, len(content) - 1))] = data.draw(st.integers(0, 255))
    frame = bytes(content[:end])
    notice(Frame(0, 1, 0, 1, frame, len(frame)))
