"""The readers give what the Scapy layers give, for every field of every layer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet

import ibcmtool
from dissectors.cm import CM_LAYERS, CM_REJ, CM_REQ
from dissectors.fields import BytesField, NumberField, WireLayer, layer_size, layout
from dissectors.mad import MAD, ClassPortInfo
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.messages import MESSAGES
from ibcmtool.wire import header_readers, message_readers, readers
from ibcmtool.wire.readers import field_values, layer_of

LAYERS = [*CM_LAYERS.values(), ClassPortInfo, MAD, LRH, GRH, BTH, DETH, ImmDt]


def machine_values(packet: Packet) -> tuple[Any, ...]:
    """The values of a dissected layer as numbers and bytes."""
    values = []
    for slot in layout(type(packet)):
        value = packet.getfieldval(slot.name)
        values.append(None if value is None else packet.get_field(slot.name).i2m(packet, value))
    return tuple(values)


def script_named(root: Path, name: str) -> SimpleNamespace:
    path = root / "scripts" / f"{name}.py"
    namespace: dict[str, Any] = {"__name__": name, "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), namespace)
    return SimpleNamespace(**namespace)


@pytest.fixture(scope="module")
def script(root: Path) -> SimpleNamespace:
    """The script that writes the readers."""
    return script_named(root, "readers")


def message_reader(layer: type[Packet]) -> Callable[[bytes, int], Any] | None:
    return {layer_of(kind): read for kind, read in message_readers.MESSAGE_READERS.items()}.get(layer.__name__)


def written(script: SimpleNamespace, layers: Sequence[type[Packet]], *names: str) -> Callable[[bytes, int], Any]:
    """A reader of these fields, as the script writes it."""
    namespace: dict[str, Any] = {"Struct": struct.Struct, "Buffer": bytes}
    exec("\n".join(script.reader_lines("it", script.stacked(layers, names), names, "")), namespace)
    read: Callable[[bytes, int], Any] = namespace["read_it"]
    return read


@pytest.mark.parametrize("layer", LAYERS)
@given(data=st.data())
def test_build_dissect_and_read_agree(layer: type[Packet], data: Any) -> None:
    values = {
        slot.name: data.draw(
            st.integers(0, (1 << slot.width) - 1)
            if slot.kind == "number"
            else st.binary(min_size=slot.width // 8, max_size=slot.width // 8)
        )
        for slot in layout(layer)
    }
    size = layer_size(layer)
    built = bytes(layer(**values))[:size]
    assert field_values(layer.__name__, built) == values
    assert machine_values(layer(built)) == tuple(values.values())
    read = message_reader(layer)
    if read is not None:
        assert read(b"before" + built, 6)._asdict() == values


def test_every_message_has_a_reader_of_its_class() -> None:
    assert message_readers.MESSAGE_READERS.keys() == MESSAGES.keys()
    for kind, read in message_readers.MESSAGE_READERS.items():
        assert type(read(bytes(232), 0)) is MESSAGES[kind]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_cut_layer_is_read_as_it_is_dissected(layer: type[Packet]) -> None:
    whole = bytes(range(1, layer_size(layer) + 1))
    for size in range(1, len(whole) + 1):
        assert tuple(field_values(layer.__name__, whole[:size]).values()) == machine_values(layer(whole[:size])), size
    assert set(field_values(layer.__name__, b"").values()) <= {None, b""}
    numbers = [slot.kind != "bytes" for slot in layout(layer)]
    assert all(
        value is None
        for value, number in zip(field_values(layer.__name__, b"").values(), numbers, strict=True)
        if number
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_each_field_can_be_read_alone(script: SimpleNamespace, layer: type[Packet]) -> None:
    data = bytes((7 * index + 131) % 256 for index in range(layer_size(layer)))
    for name, value in field_values(layer.__name__, data).items():
        assert written(script, [layer], name)(data, 0) == (value,)


@given(data=st.binary(min_size=512, max_size=512), offset=st.integers(0, 64))
def test_header_readers_read_what_their_names_say(script: SimpleNamespace, data: bytes, offset: int) -> None:
    for name, layers, fields in script.HEADERS:
        expected: dict[str, Any] = {}
        at = offset
        for layer in layers:
            expected = field_values(layer.__name__, data[at:]) | expected
            at += layer_size(layer)
        read = getattr(header_readers, f"read_{name}")
        assert read(data, offset) == read(memoryview(data), offset) == tuple(expected[field] for field in fields)


def test_fields_come_in_the_order_asked_for(script: SimpleNamespace) -> None:
    assert written(script, [CM_REJ], "reason", "local_comm_id")(bytes(CM_REJ(local_comm_id=1, reason=28)), 0) == (28, 1)


def test_a_reader_needs_no_more_bytes_than_its_fields(script: SimpleNamespace) -> None:
    data = bytes(CM_REQ(local_qpn=0x123456))
    assert written(script, [CM_REQ], "local_qpn")(data[:36], 0) == (0x123456,)
    with pytest.raises(struct.error):
        written(script, [CM_REQ], "local_qpn")(data[:34], 0)


def test_fields_of_several_layers_are_read_at_once(script: SimpleNamespace) -> None:
    names = ("dest_qp", "psn", "q_key", "tid", "reserved_4", "attribute_id")
    packet = BTH(psn=77, dest_qp=1, reserved_4=9) / DETH(q_key=0x80010000, reserved_4=5) / MAD(tid=3, attribute_id=0x13)
    assert written(script, [BTH, DETH, MAD], *names)(b"xyz" + bytes(packet), 3) == (1, 77, 0x80010000, 3, 9, 0x13)


def test_odd_widths_and_little_endian_numbers(script: SimpleNamespace) -> None:
    class Odd(WireLayer):
        fields_desc: ClassVar[list[Any]] = [
            NumberField("a", 0, 24),
            BytesField("b", 3),
            NumberField("little", 0, -16),
            NumberField("c", 0, 3),
            NumberField("d", 0, 29),
            NumberField("e", 0, 40),
            NumberField("f", 0, 72),
        ]

    data = bytes.fromhex("010203 aabbcc 3412 a0000007 0102030405 010203040506070809".replace(" ", ""))
    fields = written(script, [Odd], "a", "b", "little", "c", "d", "e", "f")(data, 0)
    assert fields == (0x010203, b"\xaa\xbb\xcc", 0x1234, 5, 7, 0x0102030405, 0x010203040506070809)
    assert machine_values(Odd(data)) == tuple(fields)


def test_what_the_scripts_write_is_in_place(root: Path, script: SimpleNamespace) -> None:
    """The layers' own field lists are what counts."""
    package, layouts = Path(ibcmtool.__file__).parent, script_named(root, "layouts")
    assert (package / "wire" / "layouts.py").read_text(encoding="utf-8") == layouts.layouts()
    assert (package / "messages.py").read_text(encoding="utf-8") == layouts.messages()
    assert (package / "service_ports.py").read_text(encoding="utf-8") == layouts.ports()
    assert (package / "wire" / "message_readers.py").read_text(encoding="utf-8") == script.message_readers()
    assert (package / "wire" / "header_readers.py").read_text(encoding="utf-8") == script.header_readers()
    for layer in layouts.LAYERS:
        assert readers.layout(layer.__name__) == layout(layer)
