"""A frame with its addresses, GUIDs and private data replaced. Lengths, checksums and everything else stay right."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator

from dissectors.icrc import icrc_of, icrc_ok, vcrc_of
from dissectors.recognition import CM_ATTRIBUTES, MAD_SIZE, UD_SEND_ONLY_IMMEDIATE
from ibcmtool.connections.codes import (
    ALTERNATE_GID_REJECTED,
    ALTERNATE_LID_REJECTED,
    PORT_AND_CM_REDIRECTION,
    PORT_REDIRECTION,
    PRIMARY_GID_REJECTED,
    PRIMARY_LID_REJECTED,
    TIMEOUT,
)
from ibcmtool.connections.matching import rej_reason
from ibcmtool.messages import PAIRED, Req, SidrReq
from ibcmtool.packets import IPV4_MAPPED, CmMessage, Frame
from ibcmtool.redaction.private_data import redacted
from ibcmtool.redaction.pseudonyms import Pseudonyms
from ibcmtool.wire.decode import Decoder
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.neighbours import Announcement
from ibcmtool.wire.network import IPV4, IPV6, PACKETS, UDP, UDP_SIZE, Kind
from ibcmtool.wire.notices import told
from ibcmtool.wire.readers import layer_size, layout
from ibcmtool.wire.tunnels import GRE, GRE_CHECKSUM, OUTER, Layer, carrier, layers
from ibcmtool.wire.undelivered import Complaint

MOST_REQUESTS = 10_000  # remembered, because only they tell the protocol of what follows

# REJ reasons by what their additional information holds, beside TIMEOUT: a GUID.
_INFO_GIDS = frozenset({PRIMARY_GID_REJECTED, ALTERNATE_GID_REJECTED, PORT_AND_CM_REDIRECTION, PORT_REDIRECTION})
_INFO_LIDS = frozenset({PRIMARY_LID_REJECTED, ALTERNATE_LID_REJECTED})


class Redactor:
    """Redacts the frames of any number of captures, with the same names in all of them."""

    def __init__(self) -> None:
        self._names = Pseudonyms()
        self._decode = Decoder()
        # Service id and private data by comm id.
        self._requests: OrderedDict[int | None, tuple[int, bytes]] = OrderedDict()

    def __call__(self, frame: Frame) -> Frame:
        """The frame as a stranger may see it. A frame that says nothing about connections or addresses comes empty."""
        try:
            link = LINK_TYPES.get(frame.link_type)
            found = link.find(frame.data) if link is not None else None
            if found is None:
                return frame._replace(data=self._notice(frame), process="")
            return frame._replace(data=self._packet(frame, *found), process="")
        except (IndexError, struct.error):
            return frame._replace(data=b"", process="")

    def _packet(self, frame: Frame, kind: Kind, network: int, bth: int, icrc: int) -> bytes:
        before, data, checked = frame.data, bytearray(frame.data), PACKETS[kind].checked
        whole = icrc > 0 and icrc + 4 <= len(before) and icrc > bth
        right = whole and icrc_ok(before, network, bth, icrc, checked)
        native = kind in ("lrh", "lrh+grh")
        start = network if kind == "lrh" else network - layer_size("LRH")
        variant = native and whole and before[icrc + 4 : icrc + 6] == vcrc_of(before[start : icrc + 4])
        for at in LINK_TYPES[frame.link_type].addresses(before):
            _each(data, at, 6, 1, self._names.mac)
        around = _layers(frame)
        for layer in around[1:]:
            if layer.ethernet != OUTER:
                _each(data, layer.ethernet, 6, 2, self._names.mac)
        if native:
            self._lids(data, start)
        if kind == "ipv4":
            self._ipv4(data, network)
            data[bth - 2 : bth] = bytes(2)  # UDP checksum: none
        elif kind != "lrh":
            _each(data, network + 8, 16, 2, self._names.gid)
            if kind == "ipv6":
                data[bth - 2 : bth] = bytes(2)
        message = self._decode(frame)
        if isinstance(message, CmMessage):
            self._mad(message, before, data, bth)
        if right:
            data[icrc : icrc + 4] = icrc_of(bytes(data), network, bth, icrc, checked)
        if variant:
            data[icrc + 4 : icrc + 6] = vcrc_of(bytes(data[start : icrc + 4]))
        self._carriers(data, around)
        return bytes(data[: len(before)])  # a frame that was cut among these places has not grown

    def _notice(self, frame: Frame) -> bytes:
        """A frame without a BTH that tells something (notices.py), with the addresses replaced; nothing of others."""
        found = told(frame.link_type, frame.data)
        if found is None:
            return b""
        around = _layers(frame)
        data = (
            self._complaint(frame.data, found, around[-1]) if isinstance(found, Complaint) else self._arp(frame, found)
        )
        ends = [layer.ethernet + place for layer in around[1:] if layer.ethernet != OUTER for place in (0, 6)]
        for at in (*LINK_TYPES[frame.link_type].addresses(frame.data), *ends):
            data[at : at + 6] = self._names.mac(frame.data[at : at + 6])
        self._carriers(data, around)
        return bytes(data)

    def _arp(self, frame: Frame, announced: Announcement) -> bytearray:
        """An ARP or ND frame with what it announces replaced."""
        gid, mac = announced.gid, announced.mac
        address = gid[12:] if gid.startswith(IPV4_MAPPED) else gid
        name = self._names.gid(gid)[-len(address) :]
        return bytearray(frame.data.replace(mac, self._names.mac(mac)).replace(address, name))

    def _complaint(self, before: bytes, found: Complaint, layer: Layer) -> bytearray:
        """An ICMP error with all addresses replaced, and without what it quotes behind the headers."""
        end = found.ports + UDP_SIZE
        data = bytearray(before[:end].ljust(len(before), b"\0"))
        for at in (layer.at, found.quoted):
            if layer.kind == IPV4:
                self._ipv4(data, at)
            else:
                _each(data, at + 8, 16, 2, self._names.gid)
        return data

    def _ipv4(self, data: bytearray, at: int) -> None:
        """The addresses of a header."""
        _each(data, at + 12, 4, 2, self._names.ipv4)
        data[at + 10 : at + 12] = _checksum(data, at, at + (data[at] & 15) * 4, at + 10)

    def _carriers(self, data: bytearray, around: list[Layer]) -> None:
        """The headers of the tunnels that are around a packet, the innermost first: some have a checksum over all."""
        for layer in around[-2::-1]:
            if layer.kind not in (IPV4, IPV6):
                continue
            if layer.kind == IPV4:
                self._ipv4(data, layer.at)
            else:
                _each(data, layer.at + 8, 16, 2, self._names.gid)
            protocol, at, end = carrier(bytes(data), layer)
            if protocol == UDP:
                data[at + 6 : at + 8] = bytes(2)
            elif protocol == GRE and data[at] & GRE_CHECKSUM >> 8 and end <= len(data):
                data[at + 4 : at + 6] = _checksum(data, at, end, at + 4)

    def _lids(self, data: bytearray, lrh: int) -> None:
        for slot in layout("LRH"):
            if slot.name in ("slid", "dlid"):
                at = lrh + slot.bit_offset // 8
                data[at : at + 2] = self._names.lid(int.from_bytes(data[at : at + 2], "big")).to_bytes(2, "big")

    def _mad(self, message: CmMessage, before: bytes, data: bytearray, bth: int) -> None:
        """The fields of a CM message that name somebody."""
        immediate = layer_size("ImmDt") if before[bth] == UD_SEND_ONLY_IMMEDIATE else 0
        begin = bth + layer_size("BTH") + layer_size("DETH") + immediate + layer_size("MAD")
        if message.type not in CM_ATTRIBUTES.values() or message.class_version != 2:
            end = begin + MAD_SIZE - layer_size("MAD")
            data[begin:end] = bytes(len(data[begin:end]))
            return
        for at, end, value in self._replaced(message, bytes(data[begin:])):
            data[begin + at : begin + end] = value[: max(len(data) - begin - at, 0)]

    def _replaced(self, message: CmMessage, area: bytes) -> Iterator[tuple[int, int, bytes]]:
        names = self._names
        for slot in layout(message.type if message.type == "ClassPortInfo" else f"CM_{message.type}"):
            at, end = slot.bit_offset // 8, (slot.bit_offset + slot.width) // 8
            value = area[at:end]
            if end > len(area) and slot.name != "private_data":
                continue
            if slot.kind == "gid":
                yield at, end, names.gid(value)
            elif slot.name.endswith("guid"):
                yield at, end, names.guid(int.from_bytes(value, "big")).to_bytes(8, "big")
            elif slot.name.endswith("_lid"):
                yield at, end, names.lid(int.from_bytes(value, "big")).to_bytes(2, "big")
            elif slot.name == "additional_reject_info":
                yield at, end, self._info(rej_reason(message), bytes(value))
            elif slot.name in ("private_data", "additional_info", "data"):
                yield at, at + len(value), self._private(message, slot.name, value)

    def _info(self, reason: int | None, info: bytes) -> bytes:
        """Additional reject information: a GUID, a GID or a LID; numbers stay."""
        names = self._names
        if reason is None:
            return bytes(len(info))
        if reason == TIMEOUT:
            return names.guid(int.from_bytes(info[:8], "big")).to_bytes(8, "big") + bytes(len(info) - 8)
        if reason in _INFO_LIDS:
            return names.lid(int.from_bytes(info[:2], "big")).to_bytes(2, "big") + bytes(len(info) - 2)
        if reason in _INFO_GIDS:
            return names.gid(info[:16]) + bytes(len(info) - 16)
        return bytes(info[:4]) + bytes(len(info) - 4)

    def _private(self, message: CmMessage, slot: str, data: bytes) -> bytes:
        if slot != "private_data":
            return bytes(len(data))
        fields = message.fields
        if isinstance(fields, (Req, SidrReq)):
            number = fields.local_comm_id if isinstance(fields, Req) else fields.request_id
            request = fields.service_id or 0, data
            self._requests[number] = request
            if len(self._requests) > MOST_REQUESTS:
                self._requests.popitem(last=False)
        else:
            ids = (fields.remote_comm_id, fields.local_comm_id) if isinstance(fields, PAIRED) else ()
            request = next((self._requests[one] for one in ids if one in self._requests), (0, b""))
        return redacted(request[0], message.type, request[1], data, self._names)


def _each(data: bytearray, at: int, size: int, count: int, name: Callable[[bytes], bytes]) -> None:
    """Replace `count` things of this size, one behind the other."""
    for begin in range(at, at + size * count, size):
        if begin + size <= len(data):
            data[begin : begin + size] = name(bytes(data[begin : begin + size]))


def _checksum(data: bytearray, begin: int, end: int, at: int) -> bytes:
    """RFC 1071: the complement of the ones' complement sum of these words, with the checksum's own place taken as 0."""
    words = bytes(data[begin:at]) + bytes(2) + bytes(data[at + 2 : end])
    words += bytes(len(words) % 2)
    total: int = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (0xFFFF - total).to_bytes(2, "big")


def _layers(frame: Frame) -> list[Layer]:
    """What is behind the link layer, tunnels and what they carry; empty without EtherTypes."""
    carried = LINK_TYPES[frame.link_type].carried(frame.data)
    return [] if carried is None else layers(frame.data, carried[1], carried[0])
