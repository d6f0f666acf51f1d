"""What the running kernel says of its own structures: a reader of BTF, as far as offsets and arguments need it.

Format: Documentation/bpf/btf.rst of the kernel. A header, then a list of types, numbered from 1, then strings. A
module's BTF goes on where that of vmlinux ends: its types and its strings have the numbers behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = 0xEB9F
HEADER = struct.Struct("=HBBIIIII")  # magic, version, flags, header length, types (offset, length), strings (the same)
TYPE = struct.Struct("=III")  # name, kind and number of members, size or the type that it refers to
MEMBER = struct.Struct("=III")  # name, type, offset in bits
PARAMETER = struct.Struct("=II")  # name, type
ELEMENTS = struct.Struct("=III")  # type of an element, type of the index, number of elements
POINTER_SIZE = struct.calcsize("P")

INT, POINTER, ARRAY, STRUCT, UNION, ENUM, FORWARD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNCTION, PROTOTYPE, VARIABLE, SECTION, FLOAT, DECLARATION_TAG, TYPE_TAG, ENUM64 = range(12, 20)
# Bytes behind the common part: so many, and so many for each member.
EXTRA = {
    INT: (4, 0),
    ARRAY: (12, 0),
    STRUCT: (0, 12),
    UNION: (0, 12),
    ENUM: (0, 8),
    PROTOTYPE: (0, 8),
    VARIABLE: (4, 0),
    SECTION: (0, 12),
    DECLARATION_TAG: (4, 0),
    ENUM64: (0, 12),
}
ALIASES = {TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG}
DEEPEST = 32  # of aliases and anonymous members: a damaged file may hold a ring
VOID = 0


class BtfError(Exception):
    """These bytes are no BTF, or a damaged one."""


class _Type(NamedTuple):
    """The common part of a type, and where the rest of it stands."""

    data: bytes
    rest: int  # offset in `data` of what follows
    name: int  # place in the strings
    kind: int
    members: int
    bitfields: bool  # the offsets of its members hold widths, too
    reference: int  # its size, or the type that it refers to


class Member(NamedTuple):
    """Where a member stands in its structure, in bytes."""

    offset: int
    size: int


class Btf:
    """The types of a kernel, or of a module when `base` (that of vmlinux) is given. Raises BtfError."""

    def __init__(self, data: bytes, base: Btf | None = None) -> None:
        self._base = base
        self._data = data
        try:
            magic, _, _, size, types, types_length, strings, strings_length = HEADER.unpack_from(data)
        except struct.error:
            raise BtfError("too short") from None
        if magic != MAGIC:
            raise BtfError("no BTF, or that of a machine of the other byte order")
        self._strings = data[size + strings : size + strings + strings_length]
        self._first = base.end if base is not None else 1
        self._first_string = base.strings_end if base is not None else 0
        self._places: list[int] = []  # of each type in `data`
        self._named: dict[tuple[int, int], int] = {}  # structures and functions by kind and name
        self._index(size + types, size + types + types_length)
        self.end: int = self._first + len(self._places)  # number of the next type
        self.strings_end: int = self._first_string + strings_length

    def _index(self, at: int, end: int) -> None:
        data, places = self._data, self._places
        if end > len(data):
            raise BtfError("cut off")
        while at < end:
            try:
                name, info, _ = TYPE.unpack_from(data, at)
            except struct.error:
                raise BtfError("cut off") from None
            kind = info >> 24 & 0x1F
            if not INT <= kind <= ENUM64:
                raise BtfError(f"a type of the unknown kind {kind}")
            if kind in (STRUCT, FUNCTION):
                self._named.setdefault((kind, name), self._first + len(places))
            places.append(at)
            once, each = EXTRA.get(kind, (0, 0))
            at += TYPE.size + once + each * (info & 0xFFFF)
        if at > end:
            raise BtfError("cut off")

    def member(self, structure: str, path: str) -> Member | None:
        """Where "av.ah_attr.grh" stands in a structure; None where there is none of that name."""
        number = self._find(STRUCT, structure)
        if number is None:
            return None
        bits = 0
        for name in path.split("."):
            found = self._member(number, name, DEEPEST)
            if found is None:
                return None
            number = found[1]
            bits += found[0]
        return Member(bits // 8, self._size(number))

    def parameters(self, function: str) -> list[str] | None:
        """The structures that the arguments of a function point to, "" for other arguments; None if it is unknown."""
        number = self._find(FUNCTION, function)
        if number is None:
            return None
        prototype = self._type(self._type(number).reference)
        return [
            self._pointee(PARAMETER.unpack_from(prototype.data, prototype.rest + index * PARAMETER.size)[1])
            for index in range(prototype.members)
        ]

    def _find(self, kind: int, name: str) -> int | None:
        """Number of the type of this kind and name, in the module before the kernel."""
        for place in self._places_of(name.encode() + b"\0"):
            number = self._named.get((kind, place))
            if number is not None:
                return number
        return self._base._find(kind, name) if self._base is not None else None

    def _places_of(self, text: bytes) -> Iterator[int]:
        """Where a string stands; a module's types may be named by strings of the kernel."""
        if self._base is not None:
            yield from self._base._places_of(text)
        offset = self._strings.find(text)
        while offset >= 0:
            yield self._first_string + offset
            offset = self._strings.find(text, offset + 1)

    def _text(self, place: int) -> str:
        if place < self._first_string and self._base is not None:
            return self._base._text(place)
        begin = place - self._first_string
        return self._strings[begin : self._strings.find(b"\0", begin)].decode("ascii", "replace")

    def _type(self, number: int) -> _Type:
        if number < self._first and self._base is not None:
            return self._base._type(number)
        if not self._first <= number < self.end:
            raise BtfError(f"no type {number}")
        at = self._places[number - self._first]
        name, info, reference = TYPE.unpack_from(self._data, at)
        return _Type(self._data, at + TYPE.size, name, info >> 24 & 0x1F, info & 0xFFFF, bool(info >> 31), reference)

    def _resolved(self, number: int) -> _Type | None:
        """The type behind typedefs and qualifiers; None for void."""
        for _ in range(DEEPEST):
            if number == VOID:
                return None
            found = self._type(number)
            if found.kind not in ALIASES:
                return found
            number = found.reference
        raise BtfError("a ring of types")

    def _pointee(self, number: int) -> str:
        pointer = self._resolved(number)
        if pointer is None or pointer.kind != POINTER:
            return ""
        target = self._resolved(pointer.reference)
        return "" if target is None or target.kind not in (STRUCT, FORWARD) else self._text(target.name)

    def _member(self, number: int, wanted: str, depth: int) -> tuple[int, int] | None:
        """Offset in bits and type number of a member; anonymous structures and unions are looked through."""
        if depth == 0:
            raise BtfError("a ring of types")
        structure = self._resolved(number)
        if structure is None or structure.kind not in (STRUCT, UNION):
            return None
        for index in range(structure.members):
            name, kind, bits = MEMBER.unpack_from(structure.data, structure.rest + index * MEMBER.size)
            if structure.bitfields:
                bits &= 0xFFFFFF
            text = self._text(name)
            if text == wanted:
                return bits, kind
            if not text:
                found = self._member(kind, wanted, depth - 1)
                if found is not None:
                    return bits + found[0], found[1]
        return None

    def _size(self, number: int) -> int:
        found = self._resolved(number)
        if found is None:
            return 0
        if found.kind == POINTER:
            return POINTER_SIZE
        if found.kind == ARRAY:
            element, _, count = ELEMENTS.unpack_from(found.data, found.rest)
            return int(count) * self._size(element)
        return found.reference
