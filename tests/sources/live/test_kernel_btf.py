"""BTF: offsets of members and arguments of functions, from types that the test builds and from those of this kernel."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibcmtool.sources.live.kernel.btf import Btf, BtfError, Member

INT, POINTER, ARRAY, STRUCT, UNION, TYPEDEF, CONST, FUNCTION, PROTOTYPE = 1, 2, 3, 4, 5, 8, 10, 12, 13


class Builder:
    """Types are added in the order of their numbers."""

    def __init__(self, first: int = 1, first_string: int = 0) -> None:
        self._types = b""
        self._strings = b"\0"
        self._next = first
        self._first_string = first_string

    def string(self, text: str) -> int:
        if not text:
            return 0
        place = self._first_string + len(self._strings)
        self._strings += text.encode() + b"\0"
        return place

    def add(self, kind: int, name: int | str, members: int, reference: int, rest: bytes = b"", flag: int = 0) -> int:
        place = name if isinstance(name, int) else self.string(name)
        self._types += struct.pack("=III", place, flag << 31 | kind << 24 | members, reference) + rest
        self._next += 1
        return self._next - 1

    def integer(self, name: str, size: int) -> int:
        return self.add(INT, name, 0, size, struct.pack("=I", size * 8))

    def structure(self, name: str, size: int, *members: tuple[str, int, int], kind: int = STRUCT, flag: int = 0) -> int:
        rest = b"".join(struct.pack("=III", self.string(member), number, bits) for member, number, bits in members)
        return self.add(kind, name, len(members), size, rest, flag)

    def bytes(self) -> bytes:
        lengths = (0, len(self._types), len(self._types), len(self._strings))
        return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, *lengths) + self._types + self._strings


def kernel() -> tuple[Builder, dict[str, int]]:
    built = Builder()
    u8, u16, u64 = built.integer("u8", 1), built.integer("u16", 2), built.integer("u64", 8)
    pointer = built.add(POINTER, 0, 0, 0)  # to void
    alias = built.add(TYPEDEF, "alias", 0, u16)
    constant = built.add(CONST, 0, 0, alias)
    array = built.add(ARRAY, 0, 0, 0, struct.pack("=III", u8, u64, 64))
    ib = built.structure("", 4, ("dlid", constant, 0), ("bits", u8, 16))
    either = built.structure("", 4, ("ib", ib, 0), ("mac", u16, 0), kind=UNION)
    device = built.structure("device", 96, ("ops", pointer, 0), ("name", array, 64), ("", either, 576))
    return built, {"u8": u8, "u16": u16, "pointer": pointer, "device": device}


def test_members() -> None:
    built, _ = kernel()
    btf = Btf(built.bytes())
    assert btf.member("device", "ops") == Member(0, 8)
    assert btf.member("device", "name") == Member(8, 64)
    assert btf.member("device", "mac") == Member(72, 2)  # in a union without a name
    assert btf.member("device", "ib.dlid") == Member(72, 2)  # behind const and typedef
    assert btf.member("device", "ib.bits") == Member(74, 1)
    assert btf.member("device", "ib.lid") is None
    assert btf.member("device", "ops.name") is None  # a pointer is not followed
    assert btf.member("no_such", "name") is None


def test_bit_fields() -> None:
    built = Builder()
    number = built.integer("int", 4)
    built.structure("flags", 8, ("one", number, 3 << 24 | 0), ("two", number, 8 << 24 | 40), flag=1)
    assert Btf(built.bytes()).member("flags", "two") == Member(5, 4)


def test_a_module_goes_on_where_the_kernel_ends() -> None:
    base, types = kernel()
    vmlinux = Btf(base.bytes())
    module = Builder(vmlinux.end, vmlinux.strings_end)
    [name] = [vmlinux._strings.find(b"\0device\0") + 1]  # a string of the kernel names a type of the module
    mine = module.structure("agent", 16, ("device", types["pointer"], 0), ("port", types["u8"], 64))
    to_agent = module.add(POINTER, 0, 0, mine)
    to_device = module.add(POINTER, 0, 0, module.add(CONST, 0, 0, types["device"]))
    rest = b"".join(struct.pack("=II", 0, number) for number in (to_agent, types["u16"], to_device))
    prototype = module.add(PROTOTYPE, 0, 3, types["u8"], rest)
    module.add(FUNCTION, "handler", 0, prototype)
    module.add(FUNCTION, name, 0, prototype)
    btf = Btf(module.bytes(), vmlinux)
    assert btf.member("agent", "port") == Member(8, 1)
    assert btf.member("device", "name") == Member(8, 64)  # of the kernel, asked for through the module
    assert btf.parameters("handler") == ["agent", "", "device"]
    assert btf.parameters("device") == ["agent", "", "device"]
    assert btf.parameters("agent") is None  # which is no function


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "too short"),
        (b"\x9f\xeb", "too short"),
        (bytes(64), "no BTF"),
        (struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, 40, 40, 1) + bytes(10), "cut off"),
        (
            struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 1) + struct.pack("=III", 0, 31 << 24, 0) + b"\0",
            "kind 31",
        ),
    ],
)
def test_what_is_no_btf(data: bytes, says: str) -> None:
    with pytest.raises(BtfError, match=says):
        Btf(data)


def test_a_ring_of_types_ends() -> None:
    built = Builder()
    built.structure("ring", 8, ("next", 2, 0))
    built.add(TYPEDEF, "there", 0, 3)
    built.add(TYPEDEF, "back", 0, 2)
    with pytest.raises(BtfError, match="ring"):
        Btf(built.bytes()).member("ring", "next.next")


@given(st.data())
def test_damage_is_noticed_or_harmless(data: st.DataObject) -> None:
    built, _ = kernel()
    whole = bytearray(built.bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        btf = Btf(bytes(whole))
        btf.member("device", "ib.dlid")
        btf.parameters("device")
    except BtfError:
        pass


def test_this_kernel() -> None:
    path = Path("/sys/kernel/btf/vmlinux")
    if not path.exists():
        pytest.skip("this kernel has no BTF")
    btf = Btf(path.read_bytes())
    assert btf.member("list_head", "prev") == Member(8, 8)
    pid, tgid = btf.member("task_struct", "pid"), btf.member("task_struct", "tgid")
    assert pid is not None
    assert tgid == Member(pid.offset + 4, 4)
    parameters = btf.parameters("vfs_read")
    assert parameters is not None
    assert parameters[0] == "file"
