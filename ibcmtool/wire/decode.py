"""Frame -> CmMessage: the bulk path, which builds no Scapy packet.

What counts as a CM MAD: BTH opcode UD SEND ONLY (or the same with immediate data), destination QP 1, Q_Key 0x80010000,
base version 1, management class 7 (IBA vol. 1, 12.6 and 13.4). Decoding never raises: a frame that is something else,
or whose bytes end before the attribute ID, gives None; a message that is cut behind it has None in the fields beyond.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container
from typing import Final

from dissectors.icrc import icrc_ok
from dissectors.recognition import (
    CM_ATTRIBUTES,
    CM_CLASS,
    CM_CLASS_VERSION,
    GSI_Q_KEY,
    GSI_QPN,
    MAD_SIZE,
    UD_SEND_ONLY,
    UD_SEND_ONLY_IMMEDIATE,
)
from ibcmtool.messages import MESSAGES, Fields, UnknownMessage
from ibcmtool.packets import IPV4_MAPPED, Address, CmMessage, DataPacket, Frame
from ibcmtool.wire import Buffer
from ibcmtool.wire.header_readers import (
    read_cm_headers,
    read_cm_headers_immediate,
    read_destination_qp,
    read_lids,
    read_lids_and_gids,
)
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.message_readers import MESSAGE_READERS
from ibcmtool.wire.network import GIDS, IPV4_ADDRESSES, LIDS, PACKETS
from ibcmtool.wire.readers import field_values, layer_of, layer_size, read_message

_MAD: Final = layer_size("BTH") + layer_size("DETH")  # from the BTH on
_MAD_IMMEDIATE: Final = _MAD + layer_size("ImmDt")
_MAD_HEADER: Final = layer_size("MAD")
_CONNECTED_SERVICES: Final = frozenset({0, 1, 5})  # RC, UC, XRC: the top three bits of the opcode

# Beside these, a field of another class version may stand elsewhere (wire layouts of the first edition).
_SAME_IN_ALL_VERSIONS: Final = frozenset(
    {"local_comm_id", "remote_comm_id", "request_id", "local_qpn", "remote_qpn", "message_rejected", "reason"}
)
_SERVICE_ID_IN_ALL_VERSIONS: Final = frozenset({"REQ", "SIDR_REQ"})

_LRH_SIZE: Final = layer_size("LRH")
_FINDERS: Final = {number: link.find for number, link in LINK_TYPES.items()}
# Message type and reader by attribute ID.
_READERS: Final[dict[int, tuple[str, Callable[[Buffer, int], Fields] | None]]] = {
    attribute: (name, MESSAGE_READERS[name]) for attribute, name in CM_ATTRIBUTES.items()
}
_MOST_PAIRS: Final = 100_000  # of addresses remembered, so that noise in an endless stream does not fill the memory


def field_names(message_type: str) -> tuple[str, ...]:
    """The field names of a message type (as in `CmMessage.type`), in wire order."""
    return MESSAGES.get(message_type, UnknownMessage)._fields


class Decoder:
    """Decodes the frames of any number of captures. One instance hands out one `Address` object per port."""

    def __init__(self) -> None:
        # Source and destination by the headers that tell them. (A dict with __missing__ is several times as slow.)
        self._pairs: dict[bytes, tuple[Address, Address]] = {}
        self._addresses: dict[Address, Address] = {}

    def __call__(
        self, frame: Frame, watched: Container[int] = (), place: tuple[int, int] | None = None
    ) -> CmMessage | DataPacket | None:
        """The CM message in a frame, or the packet of a connection to a QPN in `watched`, else None.

        place: file and number that it shall have instead of the frame's.
        """
        file, number, time, link_type, data, wire_length, _, _ = frame
        if place is not None:
            file, number = place
        try:
            finder = _FINDERS.get(link_type)
            found = finder(data) if finder is not None else None
            if found is None:
                return None
            kind, network, bth, icrc = found
            opcode = data[bth]
            if opcode == UD_SEND_ONLY:
                header, mad = read_cm_headers(data, bth), bth + _MAD
            elif opcode == UD_SEND_ONLY_IMMEDIATE:
                header, mad = read_cm_headers_immediate(data, bth), bth + _MAD_IMMEDIATE
            elif watched and opcode >> 5 in _CONNECTED_SERVICES:
                dest_qpn = read_destination_qp(data, bth)[0]
                if dest_qpn not in watched:
                    return None
                _, _, begin, behind = PACKETS[kind]
                return DataPacket(file, number, time, *self._pair(data[network + begin : network + behind]), dest_qpn)
            else:
                return None
            dest_qp, psn, q_key, base_version, mgmt_class, class_version, method, tid, attribute = header
            if dest_qp != GSI_QPN or q_key != GSI_Q_KEY or base_version != 1 or mgmt_class != CM_CLASS:
                return None
            end = mad + MAD_SIZE
            if icrc < end:
                if icrc < 0 and -icrc < end:
                    return None  # the rest of the MAD is in another fragment
                if icrc > bth:
                    end = max(icrc, mad + _MAD_HEADER)  # the headers tell of a shorter packet
        except (IndexError, struct.error):
            return None
        transport, checked, begin, behind = PACKETS[kind]
        ends = data[network + begin : network + behind]
        source, destination = self._pairs.get(ends) or self._pair(ends)
        content = data[mad:end]
        right = None
        if icrc > 0 and icrc + 4 <= len(data) >= wire_length:
            right = icrc > mad and icrc_ok(data, network, bth, icrc, checked)
        message_type, read = _READERS.get(attribute) or (f"attribute 0x{attribute:04x}", None)
        if read is not None and class_version == CM_CLASS_VERSION and len(content) == MAD_SIZE:
            fields = read(content, _MAD_HEADER)
        else:
            fields = _odd_fields(message_type, class_version, content[_MAD_HEADER:])
        return CmMessage(
            file,
            number,
            time,
            message_type,
            source,
            destination,
            transport,
            psn,
            tid,
            fields,
            content,
            right,
            class_version,
            method,
            link_type,
            data[:mad],
        )

    def _pair(self, headers: bytes) -> tuple[Address, Address]:
        pair = self._pairs.get(headers)
        if pair is None:
            if len(self._pairs) >= _MOST_PAIRS:
                self._pairs.clear()
                self._addresses.clear()
            source, destination = (self._addresses.setdefault(address, address) for address in _addresses(headers))
            self._pairs[headers] = pair = source, destination
        return pair


def _addresses(headers: bytes) -> tuple[Address, Address]:
    """Source and destination from the part of the headers that `PACKETS` gives; its length tells which part it is."""
    if len(headers) in (IPV4_ADDRESSES, GIDS):
        half = len(headers) // 2
        prefix = IPV4_MAPPED if len(headers) == IPV4_ADDRESSES else b""
        return Address(prefix + headers[:half]), Address(prefix + headers[half:])
    if len(headers) == LIDS:
        slid, dlid = read_lids(headers.rjust(_LRH_SIZE, b"\0"), 0)
        return Address(None, slid), Address(None, dlid)
    slid, dlid, sgid, dgid = read_lids_and_gids(headers, 0)
    return Address(sgid, slid), Address(dgid, dlid)


def _odd_fields(message_type: str, class_version: int, data: bytes) -> Fields:
    """The fields of a message that is cut, of another class version, or of an unknown attribute."""
    if class_version == CM_CLASS_VERSION or message_type not in MESSAGES or message_type == "ClassPortInfo":
        return read_message(message_type, data)
    same = _SAME_IN_ALL_VERSIONS | ({"service_id"} if message_type in _SERVICE_ID_IN_ALL_VERSIONS else set())
    values = field_values(layer_of(message_type), data)
    return MESSAGES[message_type]._make(value if name in same else None for name, value in values.items())
