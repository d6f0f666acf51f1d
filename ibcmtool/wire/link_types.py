"""The names of link types, also of those that are not read (https://www.tcpdump.org/linktypes.html)."""

from __future__ import annotations

from typing import Final

from ibcmtool.wire.links import LINK_TYPES

IPOIB: Final = 242

NAMES: Final = {
    0: "BSD loopback",
    3: "AX.25",
    6: "Token Ring",
    7: "ARCNET",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    50: "PPP in HDLC framing",
    51: "PPPoE",
    100: "ATM, LLC/SNAP",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    107: "Frame Relay",
    108: "OpenBSD loopback",
    117: "OpenBSD pflog",
    119: "IEEE 802.11 with Prism header",
    122: "IP over Fibre Channel",
    127: "IEEE 802.11 with radiotap",
    129: "ARCNET, Linux",
    138: "IP over IEEE 1394",
    140: "MTP2",
    141: "MTP3",
    142: "SCCP",
    143: "DOCSIS",
    144: "IrDA, Linux",
    163: "IEEE 802.11 with AVS header",
    165: "BACnet MS/TP",
    166: "PPP, pppd",
    169: "GPRS LLC",
    177: "LAPD, Linux",
    182: "MFR",
    187: "Bluetooth HCI H4",
    189: "USB, Linux",
    190: "CAN 2.0b",
    192: "PPI",
    195: "IEEE 802.15.4",
    196: "SITA",
    201: "Bluetooth HCI H4 with direction",
    204: "PPP with direction",
    205: "Cisco HDLC with direction",
    209: "I2C, Linux",
    212: "LIN",
    215: "IEEE 802.15.4 without PHY header",
    220: "USB, Linux, padded",
    224: "Fibre Channel FC-2",
    225: "Fibre Channel FC-2 with delimiters",
    226: "Solaris IPNET",
    227: "CAN, SocketCAN",
    230: "IEEE 802.15.4 without FCS",
    231: "D-Bus",
    235: "DVB-CI",
    239: "NFLOG",
    240: "netANALYZER",
    241: "netANALYZER, transparent",
    IPOIB: "IP over InfiniBand",
    243: "MPEG-2 transport stream",
    245: "NFC LLCP",
    248: "SCTP",
    249: "USBPcap",
    251: "Bluetooth LE",
    252: "Wireshark upper PDU",
    253: "Netlink, Linux",
    254: "Bluetooth, Linux monitor",
    256: "Bluetooth LE with PHY header",
    258: "PKTAP",
    264: "ISO 14443",
    270: "Z-Wave",
    271: "Wattstopper DLM",
    278: "OpenVizsla USB",
    279: "Elektrobit ECB",
    288: "USB 2.0",
}
# The registry leaves these numbers to private use.
NAMES.update({number: f"private use {number - 147}" for number in range(147, 163)})
NAMES.update({number: link.name for number, link in LINK_TYPES.items()})


def name(link_type: int) -> str:
    """Number and name, as in "242 (IP over InfiniBand)"."""
    return f"{link_type} ({NAMES.get(link_type, 'unknown')})"


def problem(link_types: list[int]) -> str:
    """What is wrong with an input that has only these, unsupported, link types."""
    if link_types == [IPOIB]:
        verdict = "carries no MADs"
    else:
        verdict = "is not supported" if len(link_types) == 1 else "are not supported"
    names = ", ".join(map(name, link_types))
    supported = ", ".join(map(name, LINK_TYPES))
    return f"link type{'s' if len(link_types) > 1 else ''} {names} {verdict}; supported: {supported}"


HINT: Final = "capture with ibdump on the InfiniBand port, or with tcpdump on the Ethernet port of a RoCE device"
