"""The CM messages: their layout against the specification's tables, defaults, codes, and cut messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

import dissectors.encapsulation  # noqa: F401  (binds the layers to Ethernet and UDP)
from dissectors.cm import CM_APR, CM_LAYERS, CM_REJ, CM_REP, CM_REQ, CM_SIDR_REP
from dissectors.fields import WireLayer, layout
from dissectors.mad import MAD, ClassPortInfo

# Byte[bit] and width of every field, as the tables of IBA vol. 1, 12.6 have them. "P" stands for a path of the REQ.
TABLES = {
    "REQ": """
        0 32 local_comm_id; 4 8 reserved_4; 5 24 ece_vendor_id; 8 64 service_id; 16 64 local_ca_guid;
        24 32 reserved_24; 28 32 local_q_key; 32 24 local_qpn; 35 8 responder_resources; 36 24 local_eecn;
        39 8 initiator_depth; 40 24 remote_eecn; 43[0] 5 remote_cm_response_timeout; 43[5] 2 transport_service_type;
        43[7] 1 end_to_end_flow_control; 44 24 starting_psn; 47[0] 5 local_cm_response_timeout; 47[5] 3 retry_count;
        48 16 partition_key; 50[0] 4 path_mtu; 50[4] 1 rdc_exists; 50[5] 3 rnr_retry_count; 51[0] 4 max_cm_retries;
        51[4] 1 srq; 51[5] 3 extended_transport_type;
        52 16 primary_local_lid; 54 16 primary_remote_lid; 56 128 primary_local_gid; 72 128 primary_remote_gid;
        88 20 primary_flow_label; 90[4] 6 reserved_90; 91[2] 6 primary_packet_rate; 92 8 primary_traffic_class;
        93 8 primary_hop_limit; 94[0] 4 primary_sl; 94[4] 1 primary_subnet_local; 94[5] 3 reserved_94;
        95[0] 5 primary_local_ack_timeout; 95[5] 3 reserved_95;
        96 16 alternate_local_lid; 98 16 alternate_remote_lid; 100 128 alternate_local_gid;
        116 128 alternate_remote_gid; 132 20 alternate_flow_label; 134[4] 6 reserved_134;
        135[2] 6 alternate_packet_rate; 136 8 alternate_traffic_class; 137 8 alternate_hop_limit;
        138[0] 4 alternate_sl; 138[4] 1 alternate_subnet_local; 138[5] 3 reserved_138;
        139[0] 5 alternate_local_ack_timeout; 139[5] 1 sap_supported; 139[6] 2 reserved_139; 140 736 private_data""",
    "MRA": """
        0 32 local_comm_id; 4 32 remote_comm_id; 8[0] 2 message_mraed; 8[2] 6 reserved_8; 9[0] 5 service_timeout;
        9[5] 3 reserved_9; 10 1776 private_data""",
    "REJ": """
        0 32 local_comm_id; 4 32 remote_comm_id; 8[0] 2 message_rejected; 8[2] 6 reserved_8;
        9[0] 7 reject_info_length; 9[7] 1 reserved_9; 10 16 reason; 12 576 additional_reject_info;
        84 1184 private_data""",
    "REP": """
        0 32 local_comm_id; 4 32 remote_comm_id; 8 32 local_q_key; 12 24 local_qpn; 15 8 ece_vendor_id_high;
        16 24 local_eecn; 19 8 ece_vendor_id_middle; 20 24 starting_psn; 23 8 ece_vendor_id_low;
        24 8 responder_resources; 25 8 initiator_depth; 26[0] 5 target_ack_delay; 26[5] 2 failover_accepted;
        26[7] 1 end_to_end_flow_control; 27[0] 3 rnr_retry_count; 27[3] 1 srq; 27[4] 4 reserved_27;
        28 64 local_ca_guid; 36 1568 private_data""",
    "RTU": "0 32 local_comm_id; 4 32 remote_comm_id; 8 1792 private_data",
    "DREQ": "0 32 local_comm_id; 4 32 remote_comm_id; 8 24 remote_qpn; 11 8 reserved_11; 12 1760 private_data",
    "DREP": "0 32 local_comm_id; 4 32 remote_comm_id; 8 1792 private_data",
    "SIDR_REQ": """
        0 32 request_id; 4 16 partition_key; 6 16 reserved_6; 8 64 service_id; 16 1728 private_data""",
    "SIDR_REP": """
        0 32 request_id; 4 8 status; 5 8 additional_info_length; 6 16 ece_vendor_id_high; 8 24 qpn;
        11 8 ece_vendor_id_low; 12 64 service_id; 20 32 q_key; 24 576 additional_info; 96 1088 private_data""",
    "LAP": """
        0 32 local_comm_id; 4 32 remote_comm_id; 8 32 reserved_8; 12 24 remote_qpn;
        15[0] 5 remote_cm_response_timeout; 15[5] 3 reserved_15; 16 32 reserved_16; 20 16 alternate_local_lid;
        22 16 alternate_remote_lid; 24 128 alternate_local_gid; 40 128 alternate_remote_gid;
        56 20 alternate_flow_label; 58[4] 4 reserved_58; 59 8 alternate_traffic_class; 60 8 alternate_hop_limit;
        61[0] 2 reserved_61; 61[2] 6 alternate_packet_rate; 62[0] 4 alternate_sl; 62[4] 1 alternate_subnet_local;
        62[5] 3 reserved_62; 63[0] 5 alternate_local_ack_timeout; 63[5] 3 reserved_63; 64 1344 private_data""",
    "APR": """
        0 32 local_comm_id; 4 32 remote_comm_id; 8 8 additional_info_length; 9 8 ap_status; 10 16 reserved_10;
        12 576 additional_info; 84 1184 private_data""",
    "SAP": "0 1856 data",
    "SPR": "0 1856 data",
}


def table(message: str) -> list[tuple[str, int, int]]:
    """Name, bit offset and width of each row."""
    rows = []
    for row in TABLES[message].split(";"):
        place, width, name = row.split()
        byte, _, bit = place.rstrip("]").partition("[")
        rows.append((name, int(byte) * 8 + int(bit or 0), int(width)))
    return rows


@pytest.mark.parametrize("message", TABLES)
def test_layout_is_that_of_the_specification(message: str) -> None:
    assert [slot[:3] for slot in layout(CM_LAYERS[message])] == table(message)


def test_all_messages_have_a_table() -> None:
    assert list(TABLES) == list(CM_LAYERS)


@pytest.mark.parametrize("message", TABLES)
@given(data=st.binary(min_size=232, max_size=232))
def test_each_field_holds_the_bits_of_its_place(message: str, data: bytes) -> None:
    packet = CM_LAYERS[message](data)
    bits = int.from_bytes(data, "big")
    for name, offset, width in table(message):
        found = bits >> 232 * 8 - offset - width & (1 << width) - 1
        field, value = packet.getfield_and_val(name)
        raw = field.i2m(packet, value)
        assert (int.from_bytes(raw, "big") if isinstance(raw, bytes) else raw) == found, name
    packet.clear_cache()
    assert bytes(packet) == data, "built again from the values"


@pytest.mark.parametrize("message", TABLES)
def test_a_message_cut_at_any_byte_keeps_the_fields_before(message: str) -> None:
    layer = CM_LAYERS[message]
    whole = bytes(range(1, 233))
    full = layer(whole)
    for size in range(1, 232):
        packet = layer(whole[:size])
        assert packet.show(dump=True)
        assert packet.summary()
        assert bytes(packet) == whole[:size]
        for slot in layout(layer):
            value = packet.getfieldval(slot.name)
            if slot.bit_offset + slot.width <= size * 8:
                assert value == full.getfieldval(slot.name), (size, slot.name)
            elif slot.kind == "bytes" and slot.bit_offset < size * 8:
                assert value == full.getfieldval(slot.name)[: size - slot.bit_offset // 8], (size, slot.name)
            else:
                assert value is None, (size, slot.name)


def number(data: bytes, first: int, last: int) -> int:
    return int.from_bytes(data[first : last + 1], "big")


def test_recorded_req(recorded: Callable[[str], list[bytes]]) -> None:
    frame = recorded("rping")[0]
    data = frame[14 + 20 + 8 + 12 + 8 + 24 :]
    req = Ether(frame)[CM_REQ]
    assert req.local_comm_id == number(data, 0, 3) == 0xE948B83C
    assert req.service_id == number(data, 8, 15) == 0x0000000001061C06
    assert req.local_ca_guid == number(data, 16, 23) == 0x505400FFFEAA0002
    assert req.local_qpn == number(data, 32, 34) == 0x11
    assert (req.responder_resources, req.initiator_depth) == (data[35], data[39]) == (1, 1)
    assert req.remote_cm_response_timeout == data[43] >> 3 == 20
    assert req.transport_service_type == data[43] >> 1 & 3 == 0
    assert req.end_to_end_flow_control == data[43] & 1 == 0
    assert req.starting_psn == number(data, 44, 46) == 0xE9558B
    assert (req.local_cm_response_timeout, req.retry_count) == (data[47] >> 3, data[47] & 7) == (20, 7)
    assert req.partition_key == number(data, 48, 49) == 0xFFFF
    assert (req.path_mtu, req.rnr_retry_count) == (data[50] >> 4, data[50] & 7) == (3, 7)
    assert (req.max_cm_retries, req.srq) == (data[51] >> 4, data[51] >> 3 & 1) == (15, 0)
    assert (req.primary_local_lid, req.primary_remote_lid) == (0xFFFF, 0xFFFF)
    assert (req.primary_local_gid, req.primary_remote_gid) == ("::ffff:10.77.0.2", "::ffff:10.77.0.1")
    assert req.primary_flow_label == number(data, 88, 90) >> 4 == 0xB5E2C
    assert (req.primary_packet_rate, req.primary_hop_limit) == (data[91] & 0x3F, data[93]) == (0, 64)
    assert req.primary_local_ack_timeout == data[95] >> 3 == 19
    assert req.alternate_remote_gid == "::"
    assert req.private_data == data[140:232]
    assert req.private_data[:4].hex() == "0040e11a"


def test_recorded_rep(recorded: Callable[[str], list[bytes]]) -> None:
    frame = recorded("rping")[1]
    data = frame[14 + 20 + 8 + 12 + 8 + 24 :]
    rep = Ether(frame)[CM_REP]
    assert rep.local_comm_id == number(data, 0, 3)
    assert rep.remote_comm_id == number(data, 4, 7) == 0xE948B83C
    assert rep.local_qpn == number(data, 12, 14) == 0x11
    assert rep.starting_psn == number(data, 20, 22)
    assert (rep.responder_resources, rep.initiator_depth) == (data[24], data[25]) == (1, 1)
    assert rep.target_ack_delay == data[26] >> 3 == 15
    assert rep.failover_accepted == data[26] >> 1 & 3 == 0
    assert (rep.rnr_retry_count, rep.srq) == (data[27] >> 5, data[27] >> 4 & 1)
    assert rep.local_ca_guid == number(data, 28, 35) == 0x505400FFFEAA0001
    assert rep.private_data == data[36:232]


def test_defaults_of_a_req_are_what_linux_asks_for() -> None:
    data = bytes(CM_REQ(local_comm_id=1))
    assert number(data, 0, 3) == 1
    assert data[35] == data[39] == 1
    assert data[43] == data[47] & 0xF8 == 20 << 3
    assert data[47] & 7 == 7
    assert data[48:52] == bytes([0xFF, 0xFF, 3 << 4 | 7, 15 << 4])
    assert (data[93], data[95]) == (64, 19 << 3)
    assert not any(data[96:])


def shown(packet: WireLayer, name: str) -> str:
    return str(packet.get_field(name).i2repr(packet, packet.getfieldval(name)))


@pytest.mark.parametrize(
    ("packet", "name", "words"),
    [
        (CM_REJ(reason=10), "reason", "10 (stale connection)"),
        (CM_REJ(reason="invalid service ID"), "reason", "8 (invalid service ID)"),
        (CM_REJ(reason=34), "reason", "unknown(0x22)"),
        (CM_REJ(message_rejected=2), "message_rejected", "2 (no message)"),
        (CM_REQ(path_mtu=4), "path_mtu", "4 (2048 bytes)"),
        (CM_REQ(path_mtu=6), "path_mtu", "unknown(0x06)"),
        (CM_REQ(primary_packet_rate=16), "primary_packet_rate", "16 (100 Gb/s)"),
        (CM_REQ(primary_packet_rate=25), "primary_packet_rate", "25 (1600 Gb/s)"),
        (CM_REQ(primary_packet_rate=1), "primary_packet_rate", "unknown(0x01)"),
        (CM_REQ(transport_service_type="UC"), "transport_service_type", "1 (UC)"),
        (CM_REQ(extended_transport_type=1), "extended_transport_type", "1 (XRC)"),
        (CM_REQ(rnr_retry_count=6), "rnr_retry_count", "6"),
        (CM_REQ(), "remote_cm_response_timeout", "20 (4.29 s)"),
        (CM_REQ(local_qpn=0x11), "local_qpn", "0x000011"),
        (CM_REP(failover_accepted=1), "failover_accepted", "1 (alternate path not supported)"),
        (CM_APR(ap_status=5), "ap_status", "5 (proposed path equals current primary)"),
        (CM_SIDR_REP(status=1), "status", "1 (service ID not supported)"),
    ],
)
def test_values_in_words(packet: WireLayer, name: str, words: str) -> None:
    assert shown(packet, name) == words
    assert shown(type(packet)(bytes(packet)), name) == words


def test_length_of_the_information_is_counted() -> None:
    data = bytes(CM_REJ(reason=4, additional_reject_info=bytes(range(8)), reserved_9=1))
    assert data[9] == 8 << 1 | 1
    assert bytes(CM_REJ(reject_info_length=5))[9] == 5 << 1
    assert bytes(CM_APR(additional_info=b"\x00\x07"))[8] == 2
    assert bytes(CM_SIDR_REP(additional_info=bytes(72)))[5] == 72


@pytest.mark.parametrize("rebuild", [False, True])
def test_information_is_shown_in_words(rebuild: bool) -> None:
    def words(packet: WireLayer, name: str) -> str:
        return shown(type(packet)(bytes(packet)) if rebuild else packet, name)

    rej = CM_REJ(reason=4, additional_reject_info=bytes.fromhex("505400fffeaa0001"))
    assert words(rej, "additional_reject_info").endswith("(CA GUID of the sender 5054:00ff:feaa:0001)")
    apr = CM_APR(ap_status=7, additional_info=b"\x00\x07")
    assert words(apr, "additional_info").endswith("(acceptable LID 7)")
    redirect = bytes(ClassPortInfo(redirect_lid=9, redirect_qp=5, redirect_q_key=0x80010000))
    sidr = CM_SIDR_REP(status=4, additional_info_length=0, additional_info=redirect)
    assert "redirect to LID 9, QPN 0x000005" in words(sidr, "additional_info")
    assert "(" not in words(CM_REJ(reason=8), "additional_reject_info")


def test_summary_tells_the_ids() -> None:
    packet = MAD() / CM_REJ(local_comm_id=1, remote_comm_id=2, reason=8)
    assert packet.summary() == (
        "MAD / CM REJ local_comm_id 0x00000001 remote_comm_id 0x00000002 reason 8 (invalid service ID)"
    )


@pytest.mark.parametrize("message", TABLES)
@given(data=st.data())
def test_built_values_come_back(message: str, data: Any) -> None:
    layer = CM_LAYERS[message]
    values = {
        slot.name: data.draw(
            st.integers(0, (1 << slot.width) - 1)
            if slot.kind == "number"
            else st.binary(min_size=slot.width // 8, max_size=slot.width // 8)
        )
        for slot in layout(layer)
    }
    built = bytes(MAD() / layer(**values))
    assert len(built) == 256
    packet = MAD(built).payload
    assert type(packet) is layer
    for name, value in values.items():
        assert packet.get_field(name).i2m(packet, packet.getfieldval(name)) == value, name
