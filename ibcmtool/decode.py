"""Frame -> CmMessage: the bulk path, which builds no Scapy packet.

What counts as a CM MAD: BTH opcode UD SEND ONLY (or the same with immediate data), destination QP 1, Q_Key 0x80010000,
base version 1, management class 7 (IBA vol. 1, 12.6 and 13.4). Decoding never raises: a frame that is something else,
or whose bytes end before the attribute ID, gives None; a message that is cut behind it has None in the fields beyond.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import Any, NamedTuple

from dissectors.icrc import Network, icrc_ok
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

from .frames import FINDERS, Kind
from .model import IPV4_MAPPED, Address, CmMessage, DataPacket, Frame, Transport
from .readers import Reader, layer_size, layout, read_cut, reader, stack_reader

__all__ = ["Decoder", "field_names", "reader"]


class RawData(NamedTuple):
    """The fields of a message whose attribute ID no edition of the specification defines."""

    data: bytes


# Layer by message type.
_LAYERS = {name: name if name == "ClassPortInfo" else f"CM_{name}" for name in CM_ATTRIBUTES.values()}

_HEADER_FIELDS = (
    "dest_qp",
    "psn",
    "q_key",
    "base_version",
    "mgmt_class",
    "class_version",
    "method",
    "tid",
    "attribute_id",
)
_headers = stack_reader(("BTH", "DETH", "MAD"), *_HEADER_FIELDS)
_headers_immediate = stack_reader(("BTH", "DETH", "ImmDt", "MAD"), *_HEADER_FIELDS)
_bth = stack_reader(("BTH",), "opcode", "dest_qp")
_lids = stack_reader(("LRH",), "slid", "dlid")
_lids_and_gids = stack_reader(("LRH", "GRH"), "slid", "dlid", "sgid", "dgid")
_gids = stack_reader(("GRH",), "sgid", "dgid")

_MAD = layer_size("BTH") + layer_size("DETH")  # from the BTH on
_MAD_IMMEDIATE = _MAD + layer_size("ImmDt")
_MAD_HEADER = layer_size("MAD")
_CONNECTED_SERVICES = frozenset({0, 1, 5})  # RC, UC, XRC: the top three bits of the opcode

# Beside these, a field of another class version may stand elsewhere (wire layouts of the first edition).
_SAME_IN_ALL_VERSIONS = frozenset(
    {"local_comm_id", "remote_comm_id", "request_id", "local_qpn", "remote_qpn", "message_rejected", "reason"}
)
_SERVICE_ID_IN_ALL_VERSIONS = frozenset({"REQ", "SIDR_REQ"})

KINDS: dict[Kind, tuple[Transport, Network]] = {
    "ipv4": ("RoCE v2", "ipv4"),
    "ipv6": ("RoCE v2", "ipv6"),
    "grh": ("RoCE v1", "grh"),
    "lrh": ("InfiniBand", "lrh"),
    "lrh+grh": ("InfiniBand", "grh"),
}
_MOST_PAIRS = 100_000  # of addresses remembered, so that noise in an endless stream does not fill the memory


def field_names(message_type: str) -> tuple[str, ...]:
    """The field names of a message type (as in `CmMessage.type`), in wire order."""
    layer = _LAYERS.get(message_type)
    return tuple(slot.name for slot in layout(layer)) if layer is not None else RawData._fields


class _Readers(dict[int, "tuple[str, Reader | None]"]):
    """Message type and reader by attribute ID, each compiled when the first such message is met; None: unknown."""

    def __missing__(self, attribute: int) -> tuple[str, Reader | None]:
        name = CM_ATTRIBUTES.get(attribute)
        known = (f"attribute 0x{attribute:04x}", None) if name is None else (name, reader(_LAYERS[name]))
        self[attribute] = known
        return known


class Decoder:
    """Decodes the frames of any number of captures. One instance hands out one `Address` object per port."""

    def __init__(self) -> None:
        self._readers = _Readers()
        self._pairs: dict[bytes | tuple[Any, ...], tuple[Address, Address]] = {}
        self._addresses: dict[Address, Address] = {}

    def __call__(self, frame: Frame, watched: Container[int] = ()) -> CmMessage | DataPacket | None:
        """The CM message in a frame, or the packet of a connection to a QPN in `watched`, else None."""
        file, number, time, link_type, data, wire_length = frame
        try:
            finder = FINDERS.get(link_type)
            found = finder(data) if finder is not None else None
            if found is None:
                return None
            kind, network, bth, icrc = found
            opcode = data[bth]
            if opcode == UD_SEND_ONLY:
                header, mad = _headers(data, bth), bth + _MAD
            elif opcode == UD_SEND_ONLY_IMMEDIATE:
                header, mad = _headers_immediate(data, bth), bth + _MAD_IMMEDIATE
            elif watched and opcode >> 5 in _CONNECTED_SERVICES:
                dest_qpn = _bth(data, bth)[1]
                if dest_qpn not in watched:
                    return None
                source, destination = self._pair(kind, data, network)
                return DataPacket(file, number, time, source, destination, dest_qpn)
            else:
                return None
            dest_qp, psn, q_key, base_version, mgmt_class, class_version, method, tid, attribute = header
            if dest_qp != GSI_QPN or q_key != GSI_Q_KEY or base_version != 1 or mgmt_class != CM_CLASS:
                return None
            if icrc < 0 and -icrc < mad + MAD_SIZE:
                return None  # the rest of the MAD is in another fragment
            source, destination = self._pair(kind, data, network)
        except (IndexError, struct.error):
            return None
        transport, checked = KINDS[kind]
        end = mad + MAD_SIZE
        if bth < icrc < end:
            end = max(icrc, mad + _MAD_HEADER)  # the headers tell of a shorter packet
        content = data[mad:end]
        right = None
        if icrc > 0 and icrc + 4 <= len(data) >= wire_length:
            right = icrc > mad and icrc_ok(data, network, bth, icrc, checked)
        message_type, read = self._readers[attribute]
        if read is not None and class_version == CM_CLASS_VERSION and len(content) == MAD_SIZE:
            fields = read(content, _MAD_HEADER)
        else:
            fields = _odd_fields(message_type, class_version, content[_MAD_HEADER:])
        message: CmMessage = tuple.__new__(
            CmMessage,
            (
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
            ),
        )
        return message

    def _pair(self, kind: Kind, data: bytes, network: int) -> tuple[Address, Address]:
        """Source and destination of a packet, the same objects each time."""
        key: Any
        if kind == "ipv4":
            key = data[network + 12 : network + 20]
        elif kind == "ipv6":
            key = data[network + 8 : network + 40]
        elif kind == "grh":
            key = _gids(data, network)
        elif kind == "lrh":
            key = _lids(data, network)
        else:
            key = _lids_and_gids(data, network - layer_size("LRH"))
        pair = self._pairs.get(key)
        if pair is None:
            if len(self._pairs) >= _MOST_PAIRS:
                self._pairs.clear()
                self._addresses.clear()
            source, destination = _addresses(key)
            pair = (
                self._addresses.setdefault(source, source),
                self._addresses.setdefault(destination, destination),
            )
            self._pairs[key] = pair
        return pair


def _addresses(key: bytes | tuple[Any, ...]) -> tuple[Address, Address]:
    """Addresses from the fields that tell them: both IP addresses, or the numbers in LRH and GRH."""
    if isinstance(key, bytes):
        half = len(key) // 2
        prefix = IPV4_MAPPED if half == 4 else b""
        return Address(prefix + key[:half]), Address(prefix + key[half:])
    if isinstance(key[0], bytes):
        return Address(key[0]), Address(key[1])
    sgid, dgid = key[2:] or (None, None)
    return Address(sgid, key[0]), Address(dgid, key[1])


def _odd_fields(message_type: str, class_version: int, data: bytes) -> Any:
    """The fields of a message that is cut, of another class version, or of an unknown attribute."""
    layer = _LAYERS.get(message_type)
    if layer is None:
        return RawData(data)
    fields = read_cut(layer, data)
    if class_version == CM_CLASS_VERSION or message_type == "ClassPortInfo":
        return fields
    same = _SAME_IN_ALL_VERSIONS | ({"service_id"} if message_type in _SERVICE_ID_IN_ALL_VERSIONS else set())
    return fields._make(value if name in same else None for name, value in zip(fields._fields, fields, strict=True))
