"""Field types of the InfiniBand layers, and the layout that a layer's field list describes.

A layer's `fields_desc` is the only place where an offset or a width stands: `layout` reads them from there for
everything that decodes without Scapy. Bit 0 of a byte is its most significant bit, numbers are big endian, as in the
tables of the InfiniBand specification.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from scapy.fields import BitField, Field, StrField, StrFixedLenField
from scapy.packet import Packet

from .slots import Slot, kept
from .text import bytes_words, duration_words, exponent_time, gid_bytes, gid_text, guid_text

CUT = "[cut off]"  # stands in show() for a field that the capture does not hold


class NumberField(BitField):
    """An unsigned number of `size` bits, shown in decimal."""

    absent = CUT

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return self.absent if x is None else self.words(x) if isinstance(x, int) else repr(x)

    def words(self, x: int) -> str:
        return str(x)


class HexField(NumberField):
    """A number shown in hexadecimal at its full width, as QPNs, P_Keys and communication IDs are written."""

    def words(self, x: int) -> str:
        return f"0x{x:0{(self.size + 3) // 4}x}"


class ComputedField(NumberField):
    """A length that is computed on build as long as it is None."""

    absent = "[computed on build]"


class CodeField(NumberField):
    """A number with names for its values. It can be set by name; a value without a name stays what it is."""

    __slots__ = ["names"]

    def __init__(self, name: str, default: int | None, size: int, names: Mapping[int, str]) -> None:
        super().__init__(name, default, size)
        self.names = names

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        if not isinstance(x, str):
            return x
        for value, name in self.names.items():
            if name == x:
                return value
        raise ValueError(f"{self.name}: no value is called {x!r}; known are {', '.join(self.names.values())}")

    def words(self, x: int) -> str:
        return f"{x} ({self.names[x]})" if x in self.names else f"unknown(0x{x:02x})"


class HexCodeField(CodeField):
    """A code that is written in hexadecimal."""

    def words(self, x: int) -> str:
        return f"0x{x:02x} ({self.names[x]})" if x in self.names else super().words(x)


class SpecialField(CodeField):
    """A number of which some values have a meaning of their own."""

    def words(self, x: int) -> str:
        return super().words(x) if x in self.names else str(x)


class ExponentTimeField(NumberField):
    """A time as a 5-bit exponent n: 4.096 us * 2^n."""

    def __init__(self, name: str, default: int | None) -> None:
        super().__init__(name, default, 5)

    def words(self, x: int) -> str:
        return f"{x} ({duration_words(exponent_time(x))})"


class GuidField(NumberField):
    """A 64-bit GUID, shown as 5054:00ff:feaa:0001; it can be set to a number or to that text."""

    def __init__(self, name: str, default: int | None = 0) -> None:
        super().__init__(name, default, 64)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        if not isinstance(x, str):
            return x
        groups = x.split(":")
        if len(groups) == 1:
            return int(x, 16)
        width = 64 // len(groups)
        value = 0
        for group in groups:
            value = value << width | int(group, 16)
        return value

    def words(self, x: int) -> str:
        return guid_text(x)


class GidField(Field[Any, bytes]):
    """A 128-bit GID. Its value is IPv6 text; it can be set to text (IPv4 too: the mapped GID) or to 16 bytes."""

    def __init__(self, name: str, default: str | bytes | None = "::") -> None:
        super().__init__(name, default, "16s")

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        return gid_text(gid_bytes(x)) if isinstance(x, (str, bytes)) else x

    def h2i(self, pkt: Packet | None, x: Any) -> Any:
        return self.any2i(pkt, x)

    def i2m(self, pkt: Packet | None, x: Any) -> bytes:
        return gid_bytes(x) if x is not None else bytes(16)

    def m2i(self, pkt: Packet | None, x: bytes) -> str:
        return gid_text(x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return CUT if x is None else str(x)


class BytesField(StrFixedLenField):
    """`length` raw bytes: shorter values are padded with zeros on build, longer ones are an error."""

    def __init__(self, name: str, length: int) -> None:
        super().__init__(name, b"", length=length)

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        raw = self.i2m(pkt, val)
        if len(raw) > self.sz:
            raise ValueError(f"{self.name} holds {self.sz} bytes, not {len(raw)}")
        return s + bytes(raw.ljust(self.sz, b"\0"))

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        return CUT if x is None else bytes_words(bytes(x))


class WireLayer(Packet):
    """A layer of fixed size that dissects whatever is left of it.

    Cut bytes leave the fields that they held None, except raw bytes fields, which keep the part that was captured.
    """

    def do_dissect(self, s: bytes) -> bytes:
        size = layer_size(type(self))
        if len(s) >= size:
            return bytes(super().do_dissect(s))
        super().do_dissect(s.ljust(size, b"\0"))
        for slot in layout(type(self)):
            self.fields[slot.name] = kept(slot, self.fields[slot.name], len(s))
        self.raw_packet_cache = s
        return b""


@functools.cache
def layout(layer: type[Packet]) -> tuple[Slot, ...]:
    """The fields of a layer of fixed size, in wire order. Fields without a fixed place (trailers) are left out."""
    slots = []
    bit = 0
    for item in layer.fields_desc:
        if isinstance(item, BitField):
            width, kind = item.size, "little" if item.rev else "number"
        elif not item.sz:
            continue
        else:
            width = int(item.sz) * 8
            if isinstance(item, GidField):
                kind = "gid"
            elif isinstance(item, StrField) or item.fmt[-1] not in "BHIQ":
                kind = "bytes"
            else:
                kind = "little" if item.fmt[0] == "<" else "number"
        slots.append(Slot(item.name, bit, width, kind))
        bit += width
    return tuple(slots)


def layer_size(layer: type[Packet]) -> int:
    """The bytes that a layer's fields take on the wire."""
    last = layout(layer)[-1]
    return (last.bit_offset + last.width) // 8


def check_layout(layer: type[Packet], size: int) -> None:
    """Raise TypeError unless the fields fill `size` bytes, have distinct names, and stand where their names say.

    A reserved field is named after its byte offset, which pins down the fields around it; bytes, GIDs and little
    endian numbers must begin and end at byte borders.
    """
    slots = layout(layer)
    bits = slots[-1].bit_offset + slots[-1].width
    if bits != size * 8:
        raise TypeError(f"{layer.__name__}: {bits} bits, not {size} bytes")
    if len({slot.name for slot in slots}) != len(slots):
        raise TypeError(f"{layer.__name__}: a field name stands twice")
    for slot in slots:
        if slot.name.startswith("reserved_") and slot.name != f"reserved_{slot.bit_offset // 8}":
            raise TypeError(f"{layer.__name__}: {slot.name} stands at byte {slot.bit_offset // 8}")
        if slot.kind != "number" and (slot.bit_offset % 8 or slot.width % 8):
            raise TypeError(f"{layer.__name__}: {slot.name} does not stand at a byte border")
