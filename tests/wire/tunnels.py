"""Tunnels around frames, written from their specifications and not from the reader under test."""

from __future__ import annotations

import struct
from collections.abc import Callable

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

SENDER, RECEIVER = b"\x52\x54\x00\xee\x00\x01", b"\x52\x54\x00\xee\x00\x02"  # of the tunnel's ends
OUTER_IPS = ("172.30.1.2", "172.30.3.4")
ENDS = Ether(src=SENDER.hex(":"), dst=RECEIVER.hex(":"))
V4 = IP(src=OUTER_IPS[0], dst=OUTER_IPS[1])
V6 = IPv6(src="fd30::1", dst="fd30::2")


def gre(kind: int, payload: bytes, *, flags: int = 0) -> bytes:
    options = bytes(4 * (flags >> 15 & 1)) + b"\0\0\x77\1" * (flags >> 13 & 1) + b"\0\0\0\7" * (flags >> 12 & 1)
    return struct.pack("!HH", flags, kind) + options + payload


def erspan_2(payload: bytes) -> bytes:
    return gre(0x88BE, struct.pack("!HHI", 0x1064, 0x1801, 5) + payload, flags=0x1000)


def erspan_3(payload: bytes, *, frame_type: int = 0, platform: bool = False) -> bytes:
    last = frame_type << 10 | 7 << 4 | platform
    return gre(0x22EB, struct.pack("!HHIHH", 0x2064, 1, 99, 0, last) + bytes(8 * platform) + payload, flags=0x1000)


def geneve(payload: bytes, kind: int = 0x6558, options: bytes = b"") -> bytes:
    return struct.pack("!BBHI", len(options) // 4, 0, kind, 0x4200) + options + payload


def in_gre(content: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda payload: bytes(ENDS / IP(src=V4.src, dst=V4.dst, proto=47) / Raw(content(payload)))


def in_udp(port: int, content: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda payload: bytes(ENDS / V4 / UDP(sport=49152, dport=port, chksum=0) / Raw(content(payload)))


def labels(*more: int) -> bytes:
    stack = [16, *more]
    return b"".join(
        struct.pack("!I", label << 12 | (index == len(stack) - 1) << 8 | 64) for index, label in enumerate(stack)
    )


def mpls(payload: bytes, *, kind: int = 0x8847, count: int = 1, control: bytes = b"") -> bytes:
    return bytes(ENDS)[:12] + struct.pack("!H", kind) + labels(*range(17, 16 + count)) + control + payload


VXLAN = b"\x08\0\0\0\0\0\x2a\0"

# Around an Ethernet frame.
AROUND_ETHERNET: dict[str, Callable[[bytes], bytes]] = {
    "GRE": in_gre(lambda payload: gre(0x6558, payload)),
    "NVGRE": in_gre(lambda payload: gre(0x6558, payload, flags=0x2000)),
    "GRE with all options": in_gre(lambda payload: gre(0x6558, payload, flags=0xB000)),
    "ERSPAN I": in_gre(lambda payload: gre(0x88BE, payload)),
    "ERSPAN II": in_gre(erspan_2),
    "ERSPAN III": in_gre(erspan_3),
    "ERSPAN III, platform specific": in_gre(lambda payload: erspan_3(payload, platform=True)),
    "GRE over IPv6": lambda payload: bytes(ENDS / IPv6(src=V6.src, dst=V6.dst, nh=47) / Raw(gre(0x6558, payload))),
    "VXLAN": in_udp(4789, lambda payload: VXLAN + payload),
    "VXLAN over IPv6": lambda payload: bytes(ENDS / V6 / UDP(sport=49152, dport=4789) / Raw(VXLAN + payload)),
    "Geneve": in_udp(6081, geneve),
    "Geneve with options": in_udp(6081, lambda payload: geneve(payload, options=b"\1\2\x80\1abcd" * 2)),
    "MPLS pseudowire": lambda payload: mpls(payload),
    "MPLS pseudowire, control word": lambda payload: mpls(payload, control=bytes(4)),
}
# Around IP without Ethernet; the second argument tells its version.
AROUND_IP: dict[str, Callable[[bytes, int], bytes]] = {
    "IP in IP": lambda payload, version: bytes(
        ENDS / IP(src=OUTER_IPS[0], dst=OUTER_IPS[1], proto=4 if version == 4 else 41) / Raw(payload)
    ),
    "IP in IPv6": lambda payload, version: bytes(
        ENDS / IPv6(src=V6.src, dst=V6.dst, nh=4 if version == 4 else 41) / Raw(payload)
    ),
    "IP in GRE": lambda payload, version: in_gre(lambda inner: gre(0x0800 if version == 4 else 0x86DD, inner))(payload),
    "IP in Geneve": lambda payload, version: in_udp(
        6081, lambda inner: geneve(inner, 0x0800 if version == 4 else 0x86DD)
    )(payload),
    "IP in ERSPAN III": lambda payload, version: in_gre(lambda inner: erspan_3(inner, frame_type=2))(payload),
    "MPLS": lambda payload, version: mpls(payload),
    "MPLS, multicast, three labels": lambda payload, version: mpls(payload, kind=0x8848, count=3),
}
# What the capture filter cannot say: headers of no fixed length, and IPv6 around.
NOT_FILTERED = {
    "GRE with all options",
    "ERSPAN III, platform specific",
    "GRE over IPv6",
    "VXLAN over IPv6",
    "Geneve with options",
    "MPLS pseudowire",
    "MPLS pseudowire, control word",
    "IP in IPv6",
    "IP in GRE",
    "IP in Geneve",
    "IP in ERSPAN III",
    "MPLS, multicast, three labels",
}
