"""What is read of a capture: frames, the CM messages and data packets in them, and who has an address.

Units: times are integer nanoseconds since the epoch. Identifiers are plain integers; GIDs are 16 bytes. The records are
not changed once they are made. Their constructors are written out, as those that `dataclass` makes are not compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ibcmtool.messages import Fields

Transport = Literal["InfiniBand", "RoCE v1", "RoCE v2"]


class Frame(NamedTuple):
    """One captured packet, as it stands in its source."""

    file: int  # index of the input that it came from
    number: int  # Wireshark's frame number within that input, from 1
    time: int  # ns since the epoch
    link_type: int  # LINKTYPE_ number of the pcap registry
    data: bytes  # what was captured, from the link layer on
    wire_length: int  # length on the wire; longer than data when the snap length cut the frame
    direction: Literal["in", "out"] | None = None  # seen from this host; None where the source does not tell
    process: str = ""  # "rping-399": who sent it, where a live source can tell


IPV4_MAPPED = bytes(10) + b"\xff\xff"  # in front of an IPv4 address it makes the GID that RoCE v2 knows it by


class Address(NamedTuple):
    """Where a packet came from or went to. A RoCE v2 IPv4 address is the IPv4-mapped GID, as in the GID tables."""

    gid: bytes | None = None  # 16 bytes; None where the packet had no GRH and no IP header
    lid: int | None = None  # None on RoCE

    def matches(self, other: Address) -> bool:
        """Whether both can be the same port: decided by GID, else by LID; not comparable counts as yes."""
        if self.gid is not None and other.gid is not None:
            return self.gid == other.gid
        if self.lid is not None and other.lid is not None:
            return self.lid == other.lid
        return True


@dataclass(slots=True)
class CmMessage:
    """One CM MAD as seen on the wire.

    `fields` is a named tuple made from the field list of the message's Scapy layer (dissectors/cm.py): same names,
    same order; integers, `bytes` for GIDs, additional information and private data; None for a field that the
    capture cut off. `mad` holds the captured bytes from the MAD header on, at most 256.
    """

    file: int
    frame: int
    time: int
    type: str  # REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR SAP SPR ClassPortInfo
    source: Address
    destination: Address
    transport: Transport
    psn: int | None  # BTH PSN: tells a retransmission (new PSN) from a second sighting (same); None from live sources
    tid: int  # MAD TransactionID
    fields: Fields
    mad: bytes
    icrc_ok: bool | None  # None: not checkable (frame cut, or no ICRC in this source)
    class_version: int
    method: int
    link_type: int  # LINKTYPE_ number that `headers` begin with
    headers: bytes  # everything in front of the MAD, from the link layer on (envelope.py); empty from live probes

    def __init__(
        self,
        file: int,
        frame: int,
        time: int,
        type: str,  # noqa: A002
        source: Address,
        destination: Address,
        transport: Transport,
        psn: int | None,
        tid: int,
        fields: Fields,
        mad: bytes,
        icrc_ok: bool | None,
        class_version: int = 2,
        method: int = 3,
        link_type: int = 0,
        headers: bytes = b"",
    ) -> None:
        self.file = file
        self.frame = frame
        self.time = time
        self.type = type
        self.source = source
        self.destination = destination
        self.transport = transport
        self.psn = psn
        self.tid = tid
        self.fields = fields
        self.mad = mad
        self.icrc_ok = icrc_ok
        self.class_version = class_version
        self.method = method
        self.link_type = link_type
        self.headers = headers


@dataclass(slots=True)
class DataPacket:
    """An RC or UC packet to a QPN that the tracker watches: proof that its sender's QP is up."""

    file: int
    frame: int
    time: int
    source: Address
    destination: Address
    dest_qpn: int

    def __init__(self, file: int, frame: int, time: int, source: Address, destination: Address, dest_qpn: int) -> None:
        self.file = file
        self.frame = frame
        self.time = time
        self.source = source
        self.destination = destination
        self.dest_qpn = dest_qpn


Unreachable = Literal["port", "host", "network", "prohibited"]


@dataclass(slots=True)
class Undelivered:
    """A RoCE v2 packet did not get to its port: so says an ICMP error that quotes it."""

    file: int
    frame: int
    time: int
    reporter: Address  # who says so
    source: Address  # of that packet
    destination: Address
    reason: Unreachable


@dataclass(slots=True)
class Neighbour:
    """An IP address is at a MAC address: so a station says (ARP, neighbour discovery), or a message from it shows."""

    file: int
    frame: int
    time: int
    address: Address
    mac: bytes
    vlan_ids: tuple[int, ...]  # of the VLAN where that holds: outer tag first, without priority tags
