"""One frame in full: its Scapy layers as plain records, from the link layer down to the private data.

This is the slow and complete way, for a frame that somebody looks at; the bulk path is ibcmtool.wire.decode. Cut or
foreign bytes never raise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scapy.config import conf
from scapy.fields import ConditionalField, XShortEnumField, _EnumField
from scapy.packet import NoPayload, Packet, Raw

import dissectors.cm
import dissectors.encapsulation
from dissectors import private_data
from dissectors.fields import CUT, WireLayer, layer_size, layout
from ibcmtool.wire import tunnels
from ibcmtool.wire.links import LINK_TYPES
from ibcmtool.wire.links.ethernet import ETHERNET
from ibcmtool.wire.links.raw_ip import RAW_IP

if TYPE_CHECKING:
    from dissectors.private_data import Protocol
    from ibcmtool.packets import Frame


class FieldDetail(NamedTuple):
    """A field of a layer. Bit 0 of a byte is its most significant bit, as in the tables of the specification."""

    name: str
    value: int | str | None  # addresses as text, raw bytes as hex; None where the capture cut the field off
    words: str  # the value as people read it
    bit_offset: int | None  # from the start of the layer; None for a checksum behind the payload
    width: int  # bits
    raw: bytes  # the bytes that the field lies in, as far as they were captured


class LayerDetail(NamedTuple):
    """A layer with its fields."""

    layer: str  # class name: CM_REQ
    name: str  # for people: "CM REQ"
    fields: tuple[FieldDetail, ...]
    captured: int | None  # bytes of this layer that were captured, where it is cut; None where it is whole


def dissect(frame: Frame) -> Packet:
    """The frame as Scapy layers; Raw for a link type that Scapy does not know, or a frame cut in the link layer."""
    try:
        packet = conf.l2types[frame.link_type](frame.data)
    except Exception:  # KeyError, or what the layer raises on cut bytes; further up Scapy itself falls back to Raw
        return Raw(frame.data)
    last = packet.lastlayer()
    inner = _tunnelled(frame)
    if inner is not None and type(last) is Raw and last.load.endswith(inner.data):  # a tunnel that Scapy does not know
        last.load = last.original = last.load[: -len(inner.data)]
        last.add_payload(dissect(inner))
    return packet


def _tunnelled(frame: Frame) -> Frame | None:
    """What the innermost tunnel of a frame carries, from its Ethernet or IP header on; None where there is none."""
    link = LINK_TYPES.get(frame.link_type)
    try:
        carried = None if link is None else link.carried(frame.data)
        found = [] if carried is None else tunnels.layers(frame.data, carried[1], carried[0])
    except (IndexError, struct.error):
        return None
    if len(found) < 2:
        return None
    if found[-1].ethernet != tunnels.OUTER:
        return frame._replace(link_type=ETHERNET.number, data=frame.data[found[-1].ethernet :])
    inner = frame.data[found[-1].at :]
    return frame._replace(link_type=RAW_IP.number, data=inner) if inner else None


def layers(packet: Packet, protocol: Protocol | None = None) -> Iterator[LayerDetail]:
    """All layers of a packet. The private data of a REP or REJ is read as `protocol`, that of a REQ as what it is."""
    layer = packet
    while not isinstance(layer, NoPayload):
        yield _layer(layer, layer.original)
        yield from _private_layers(layer, protocol)
        layer = layer.payload


def request_protocol(service_id: int | None, data: bytes | None) -> Protocol | None:
    """The upper protocol of a REQ; None where it is cut off or in no format that is known."""
    return None if service_id is None else private_data.recognise(service_id, data or b"")


def _private_layers(layer: Packet, protocol: Protocol | None) -> Iterator[LayerDetail]:
    message = next((name for name, known in dissectors.cm.CM_LAYERS.items() if type(layer) is known), None)
    data = layer.fields.get("private_data")
    if message is None or not data:
        return
    if message in ("REQ", "SIDR_REQ"):
        protocol = request_protocol(layer.service_id, data)
    private = None if protocol is None else private_data.dissect(protocol, message, data)
    while private is not None and not isinstance(private, NoPayload):
        yield _layer(private, data)
        data = data[layer_size(type(private)) :] if isinstance(private, WireLayer) else b""
        private = private.payload


def _layer(layer: Packet, original: bytes) -> LayerDetail:
    """`original` holds the captured bytes from the start of the layer on."""
    fields = []
    for name, offset, width in _places(layer, original):
        value = layer.getfieldval(name)
        raw = original[offset // 8 : (offset + width + 7) // 8]
        fields.append(FieldDetail(name, _plain(value), _words(layer, name, value), offset, width, raw))
    size = sum(field.width for field in fields) // 8
    trailer = getattr(layer, "trailer", "")
    if trailer:
        value = layer.getfieldval(trailer)
        width = layer.trailer_size
        raw = b"" if value is None else value.to_bytes(width, "big")
        fields.append(FieldDetail(trailer, value, _words(layer, trailer, value), None, width * 8, raw))
    captured = len(original) if isinstance(layer, WireLayer) and len(original) < size else None
    return LayerDetail(type(layer).__name__, str(layer.name), tuple(fields), captured)


def _places(layer: Packet, original: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, bit offset and width of each field that has a place in the layer."""
    if isinstance(layer, WireLayer):
        yield from ((slot.name, slot.bit_offset, slot.width) for slot in layout(type(layer)))
        return
    rest: Any = original
    total = _bits(rest)
    for field in layer.fields_desc:
        if isinstance(field, ConditionalField) and not field._evalcond(layer):
            continue
        before = _bits(rest)
        try:
            rest, _ = field.getfield(layer, rest)
        except Exception:  # what other layers raise on cut bytes is theirs to choose
            return
        if before > _bits(rest):
            yield field.name, total - before, before - _bits(rest)


def _bits(rest: Any) -> int:
    """Bits left to dissect; inside a byte, Scapy keeps a pair of the bytes and the bits already taken."""
    return len(rest[0]) * 8 - rest[1] if isinstance(rest, tuple) else len(rest) * 8


def _plain(value: Any) -> int | str | None:
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, (int, str)) else str(value)


def _words(layer: Packet, name: str, value: Any) -> str:
    if value is None:
        return CUT
    field = layer.get_field(name)
    if isinstance(field, _EnumField) and not isinstance(layer, WireLayer):
        # Scapy takes the names from the machine's /etc; the layer that follows tells what the number means.
        return f"0x{value:04x}" if isinstance(field, XShortEnumField) else str(value)
    return str(field.i2repr(layer, value))
