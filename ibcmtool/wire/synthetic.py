"""Packets around bare MADs, for sources that see no packets: what the wire would have carried, as far as it is known.

RoCE v2 between IPv4 or IPv6 addresses, native InfiniBand in an ERF record else. Lengths and ICRC are right; MAC
addresses are made up, and PSNs count up for each sender, so that a MAD that is sent again is a new packet.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from dissectors.icrc import Network, icrc_of, vcrc_of
from dissectors.recognition import MAD_SIZE
from dissectors.text import gid_text
from ibcmtool.packets import IPV4_MAPPED, Address, Frame
from ibcmtool.wire.links.erf import ERF, record_around
from ibcmtool.wire.links.ethernet import ETHERNET
from ibcmtool.wire.network import PACKETS
from ibcmtool.wire.readers import layer_size, layout

MOST_PAIRS = 10_000  # of addresses remembered
NOBODY: Final = bytes(16)
PERMISSIVE_LID: Final = 0xFFFF

_psn: Final = next(slot for slot in layout("BTH") if slot.name == "psn")
PSN_AT: Final = _psn.bit_offset // 8
PSN_SIZE: Final = _psn.width // 8


class _Template(NamedTuple):
    data: bytes  # a whole packet from the link layer on, with an empty MAD
    network: int  # offset of the header that the ICRC starts at
    transport: int  # of the BTH
    kind: Network


class Packets:
    """Makes the frames of one source."""

    def __init__(self) -> None:
        self._templates: OrderedDict[tuple[Address, Address], _Template] = OrderedDict()
        self._psns: dict[Address, int] = {}

    def frame(self, time: int, source: Address, destination: Address, mad: bytes) -> Frame:
        """The packet that carried a MAD (256 bytes) from one port to another, sent or received at `time` (ns).

        An address with a LID is a port of an InfiniBand fabric, one without a port of an Ethernet.
        """
        template = self._template(source, destination)
        psn = self._psns.get(source, 0)
        if source not in self._psns and len(self._psns) >= MOST_PAIRS:
            self._psns.clear()
        self._psns[source] = (psn + 1) % (1 << 8 * PSN_SIZE)
        data = bytearray(template.data)
        at = template.transport + PSN_AT
        data[at : at + PSN_SIZE] = psn.to_bytes(PSN_SIZE, "big")
        begin = template.transport + layer_size("BTH") + layer_size("DETH")
        end = begin + MAD_SIZE
        data[begin:end] = mad.ljust(MAD_SIZE, b"\0")[:MAD_SIZE]
        data[end : end + 4] = icrc_of(bytes(data), template.network, template.transport, end, template.kind)
        if source.lid is None and destination.lid is None:
            return Frame(0, 0, time, ETHERNET.number, bytes(data), len(data))
        data[end + 4 :] = vcrc_of(bytes(data[: end + 4]))
        record = record_around(time, bytes(data), len(data))
        return Frame(0, 0, time, ERF.number, record, len(record))

    def _template(self, source: Address, destination: Address) -> _Template:
        key = source, destination
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = _template(source, destination)
            if len(self._templates) > MOST_PAIRS:
                self._templates.popitem(last=False)
        return template


def _template(source: Address, destination: Address) -> _Template:
    """A packet between two ports, built with the layers: slow, and done once a pair."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether
    from scapy.packet import Packet

    import dissectors.encapsulation  # noqa: F401 (it binds the layers)
    from dissectors.mad import MAD
    from dissectors.transport import BTH, DETH, GRH, LRH

    content = BTH() / DETH(source_qp=1) / MAD() / bytes(MAD_SIZE - layer_size("MAD"))
    sgid, dgid = source.gid or NOBODY, destination.gid or NOBODY
    packet: Packet
    if source.lid is not None or destination.lid is not None:
        lrh = LRH(dlid=_lid(destination), slid=_lid(source))
        routed = source.gid is not None and destination.gid is not None
        packet = lrh / GRH(sgid=sgid, dgid=dgid) / content if routed else lrh / content
        data, offset = bytes(packet), len(record_around(0, b"", 0))
        found = ERF.find(record_around(0, data, len(data)))
    else:
        known = {gid for gid in (sgid, dgid) if gid != NOBODY}
        if known and all(gid.startswith(IPV4_MAPPED) for gid in known):
            addresses: Packet = IP(src=_ipv4(sgid), dst=_ipv4(dgid))
        else:
            addresses = IPv6(src=gid_text(sgid), dst=gid_text(dgid))
        packet = Ether(src=_mac(sgid), dst=_mac(dgid)) / addresses / UDP() / content
        data, offset = bytes(packet), 0
        found = ETHERNET.find(data)
    assert found is not None
    kind, network, transport, _ = found
    return _Template(data, network - offset, transport - offset, PACKETS[kind].checked)


def _lid(address: Address) -> int:
    return PERMISSIVE_LID if address.lid is None else address.lid


def _mac(gid: bytes) -> str:
    """A locally administered address, the same for the same GID."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\0" + gid[-4:])


def _ipv4(gid: bytes) -> str:
    return ".".join(map(str, gid[-4:]))
