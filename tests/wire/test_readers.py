"""The compiled readers give what the Scapy layers give, for every field of every layer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet

from dissectors.cm import CM_LAYERS, CM_REJ, CM_REQ
from dissectors.fields import BytesField, NumberField, WireLayer, layer_size, layout
from dissectors.mad import MAD, ClassPortInfo
from dissectors.transport import BTH, DETH, GRH, LRH, ImmDt
from ibcmtool.wire import readers
from ibcmtool.wire.readers import compile_reader, read_cut, reader, stack_reader

LAYERS = [*CM_LAYERS.values(), ClassPortInfo, MAD, LRH, GRH, BTH, DETH, ImmDt]


def machine_values(packet: Packet) -> tuple[Any, ...]:
    """The values of a dissected layer as numbers and bytes."""
    values = []
    for slot in layout(type(packet)):
        value = packet.getfieldval(slot.name)
        values.append(None if value is None else packet.get_field(slot.name).i2m(packet, value))
    return tuple(values)


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
    read = reader(layer.__name__)(b"before" + built, 6)
    assert read._asdict() == values
    assert machine_values(layer(built)) == tuple(read)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_cut_layer_is_read_as_it_is_dissected(layer: type[Packet]) -> None:
    whole = bytes(range(1, layer_size(layer) + 1))
    for size in range(1, len(whole) + 1):
        assert tuple(read_cut(layer.__name__, whole[:size])) == machine_values(layer(whole[:size])), size
    numbers = [slot.kind != "bytes" for slot in layout(layer)]
    assert all(value is None for value, number in zip(read_cut(layer.__name__, b""), numbers, strict=True) if number)


@pytest.mark.parametrize("layer", LAYERS)
def test_each_field_can_be_read_alone(layer: type[Packet]) -> None:
    data = bytes((7 * index + 131) % 256 for index in range(layer_size(layer)))
    whole = reader(layer.__name__)(data, 0)
    for name in whole._fields:
        assert reader(layer.__name__, name)(data, 0) == (getattr(whole, name),)


def test_named_fields_come_in_the_order_asked_for() -> None:
    read = reader("CM_REJ", "reason", "local_comm_id")
    fields = read(bytes(CM_REJ(local_comm_id=1, reason=28)), 0)
    assert fields == (28, 1)
    assert (fields.reason, fields.local_comm_id) == (28, 1)
    assert type(fields).__name__ == "CM_REJ"
    assert read is reader("CM_REJ", "reason", "local_comm_id"), "compiled once"


def test_a_reader_needs_no_more_bytes_than_its_fields() -> None:
    data = bytes(CM_REQ(local_qpn=0x123456))
    assert reader("CM_REQ", "local_qpn")(data[:36], 0) == (0x123456,)
    with pytest.raises(struct.error):
        reader("CM_REQ", "local_qpn")(data[:34], 0)


def test_fields_of_several_layers_are_read_at_once() -> None:
    read = stack_reader(("BTH", "DETH", "MAD"), "dest_qp", "psn", "q_key", "tid", "reserved_4", "attribute_id")
    packet = BTH(psn=77, dest_qp=1, reserved_4=9) / DETH(q_key=0x80010000, reserved_4=5) / MAD(tid=3, attribute_id=0x13)
    assert read(b"xyz" + bytes(packet), 3) == (1, 77, 0x80010000, 3, 9, 0x13)


def test_odd_widths_and_little_endian_numbers() -> None:
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
    fields = compile_reader(layout(Odd), ("a", "b", "little", "c", "d", "e", "f"), None)(data, 0)
    assert fields == (0x010203, b"\xaa\xbb\xcc", 0x1234, 5, 7, 0x0102030405, 0x010203040506070809)
    assert machine_values(Odd(data)) == tuple(fields)


def test_layouts_are_those_of_the_layers(root: Path) -> None:
    """What scripts/layouts.py writes; the layers' own field lists are what counts."""
    source = (root / "scripts" / "layouts.py").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "layouts", "__file__": str(root / "scripts" / "layouts.py")}
    exec(compile(source, "layouts.py", "exec"), namespace)
    assert (root / "ibcmtool" / "wire" / "layouts.py").read_text(encoding="utf-8") == namespace["layouts"]()
    assert (root / "ibcmtool" / "messages.py").read_text(encoding="utf-8") == namespace["messages"]()
    assert (root / "ibcmtool" / "service_ports.py").read_text(encoding="utf-8") == namespace["ports"]()
    for layer in namespace["LAYERS"]:
        assert readers.layout(layer.__name__) == layout(layer)
