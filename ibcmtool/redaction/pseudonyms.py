"""The names that stand in for real ones: from the ranges set aside for documentation, in order of appearance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ibcmtool.packets import IPV4_MAPPED

# RFC 5737 has three networks for documentation; a fabric of more hosts goes on in the one for benchmarks (RFC 2544).
IPV4_NETWORKS = ((192 << 24 | 2 << 8, 254), (198 << 24 | 51 << 16 | 100 << 8, 254), (203 << 24 | 113 << 8, 254))
IPV4_BENCHMARK = 198 << 24 | 18 << 16, (1 << 17) - 2
IPV6_NETWORK = bytes.fromhex("20010db8") + bytes(8)  # RFC 3849
LINK_LOCAL = bytes.fromhex("fe80000000000000")
LOCAL_MAC = 0x02_00_00_00_00_00  # locally administered
LOCAL_GUID = 0x0200_0000_0000_0000
UNICAST_LIDS = range(1, 0xC000)
GROUP_BIT = 0x01  # of the first byte of a MAC address
UNIVERSAL_BIT = 0x02  # inverted in an EUI-64
EUI64_MIDDLE = b"\xff\xfe"


Name = TypeVar("Name", bytes, int)


class Pseudonyms:
    """Gives each address, GUID and LID a name, the same one each time. What says "none" or "all" stays."""

    def __init__(self) -> None:
        self._ipv4: dict[bytes, bytes] = {}
        self._gids: dict[bytes, bytes] = {}
        self._macs: dict[bytes, bytes] = {}
        self._guids: dict[int, int] = {}
        self._lids: dict[int, int] = {}

    def ipv4(self, address: bytes) -> bytes:
        """4 bytes."""
        if address in (bytes(4), b"\xff" * 4):
            return address
        return _name(self._ipv4, address, _ipv4)

    def gid(self, gid: bytes) -> bytes:
        """16 bytes: an IPv4-mapped GID, an IPv6 address, or a link-local GID made of a MAC address or a GUID."""
        if not any(gid) or gid[0] == 0xFF:
            return gid
        if gid.startswith(IPV4_MAPPED):
            return IPV4_MAPPED + self.ipv4(gid[12:])
        if not any(gid[:12]):
            return bytes(12) + self.ipv4(gid[12:])  # as the RDMA IP CM header has IPv4 addresses
        if gid.startswith(LINK_LOCAL):
            return LINK_LOCAL + self.interface(gid[8:])
        return _name(self._gids, gid, lambda number: IPV6_NETWORK + number.to_bytes(4, "big"))

    def interface(self, identifier: bytes) -> bytes:
        """The 8 bytes behind a prefix: of a MAC address (EUI-64), else a GUID."""
        if identifier[3:5] == EUI64_MIDDLE:
            mac = bytes((identifier[0] ^ UNIVERSAL_BIT,)) + identifier[1:3] + identifier[5:]
            mac = self.mac(mac)
            return bytes((mac[0] ^ UNIVERSAL_BIT,)) + mac[1:3] + EUI64_MIDDLE + mac[3:]
        return self.guid(int.from_bytes(identifier, "big")).to_bytes(8, "big")

    def mac(self, address: bytes) -> bytes:
        """6 bytes."""
        if not any(address) or address[0] & GROUP_BIT:
            return address
        return _name(self._macs, address, lambda number: (LOCAL_MAC + number).to_bytes(6, "big"))

    def guid(self, guid: int) -> int:
        """What stands for a GUID; 0 stays."""
        if not guid:
            return guid
        return _name(self._guids, guid, lambda number: LOCAL_GUID + number)

    def lid(self, lid: int) -> int:
        """What stands for a unicast LID; others stay."""
        if lid not in UNICAST_LIDS:
            return lid
        return _name(self._lids, lid, lambda number: number)


def _name(known: dict[Name, Name], real: Name, make: Callable[[int], Name]) -> Name:
    """The name of something; the next free one, made of its number from 1, when it is new."""
    name = known.get(real)
    if name is None:
        name = known[real] = make(len(known) + 1)
    return name


def _ipv4(number: int) -> bytes:
    for network, size in (*IPV4_NETWORKS, IPV4_BENCHMARK):
        if number <= size:
            return (network + number).to_bytes(4, "big")
        number -= size
    return (number % (1 << 24) | 10 << 24).to_bytes(4, "big")
