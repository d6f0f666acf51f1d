"""The MAD header, ClassPortInfo, and which layer follows a MAD header."""

from __future__ import annotations

import pytest
from scapy.packet import Raw

from dissectors.cm import CM_LAYERS, CM_REQ
from dissectors.fields import WireLayer
from dissectors.mad import CM_ATTRIBUTES, MAD, MAD_SIZE, ClassPortInfo


@pytest.mark.parametrize(("attribute", "name"), CM_ATTRIBUTES.items())
def test_attribute_and_layer_belong_together(attribute: int, name: str) -> None:
    layer = ClassPortInfo if name == "ClassPortInfo" else CM_LAYERS[name]
    built = bytes(MAD(tid=0x0102030405060708) / layer())
    assert len(built) == MAD_SIZE
    assert built[:4] == (b"\x01\x07\x02\x81" if layer is ClassPortInfo else b"\x01\x07\x02\x03")
    assert built[8:16] == bytes(range(1, 9))
    assert int.from_bytes(built[16:18], "big") == attribute
    packet = MAD(built)
    assert type(packet.payload) is layer
    assert packet.get_field("attribute_id").i2repr(packet, attribute) == f"0x{attribute:04x} ({name})"
    assert bytes(packet) == built


def test_every_cm_layer_has_an_attribute() -> None:
    assert set(CM_LAYERS) | {"ClassPortInfo"} == set(CM_ATTRIBUTES.values())


def test_short_data_are_padded_and_long_ones_left() -> None:
    assert bytes(MAD() / Raw(b"\x01\x02"))[24:] == b"\x01\x02" + bytes(230)
    assert len(bytes(MAD())) == 256
    assert len(bytes(MAD() / CM_REQ() / Raw(b"more"))) == 260


@pytest.mark.parametrize(
    "header",
    [
        {"class_version": 1, "attribute_id": 0x10},
        {"mgmt_class": 3, "attribute_id": 0x10},
        {"mgmt_class": 3, "attribute_id": 0x01},
        {"attribute_id": 0x1D},
    ],
)
def test_data_of_another_layout_stay_raw(header: dict[str, int]) -> None:
    packet = MAD(bytes(MAD(**header) / Raw(b"\x55" * 232)))
    assert packet[Raw].load == b"\x55" * 232
    assert not any(isinstance(layer, WireLayer) for layer in (packet.payload,))


def test_attribute_names_are_those_of_the_class() -> None:
    packet = MAD(mgmt_class=3, attribute_id=0x12)
    assert packet.get_field("attribute_id").i2repr(packet, 0x12) == "0x0012"


def test_class_port_info_stands_at_the_start_of_the_data() -> None:
    info = ClassPortInfo(
        capability_mask=0x2200,
        resp_time_value=18,
        redirect_gid="fe80::1",
        redirect_sl=3,
        redirect_flow_label=0x12345,
        redirect_lid=7,
        redirect_partition_key=0xFFFF,
        redirect_qp=1,
        redirect_q_key=0x80010000,
        trap_hop_limit=5,
        trap_qp=0x000123,
    )
    data = bytes(MAD() / info)[24:]
    assert data[:8].hex(" ") == "01 02 22 00 00 00 00 12"
    assert data[8:24].hex() == "fe800000000000000000000000000001"
    assert data[24:40].hex(" ") == "00 31 23 45 00 07 ff ff 00 00 00 01 80 01 00 00"
    assert data[64:72].hex(" ") == "05 00 01 23 00 00 00 00"
    assert data[72:] == bytes(160)


def test_a_mad_cut_at_any_byte() -> None:
    whole = bytes(MAD(tid=5) / CM_REQ(local_comm_id=1))
    for size in range(1, 256):
        packet = MAD(whole[:size])
        assert packet.show(dump=True)
        assert bytes(packet) == whole[:size]
    assert MAD(whole[:16]).tid == 5
    assert MAD(whole[:15]).tid is None
