"""One frame in full: every layer and field, where it lies, and what is left of it when the frame is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissectors.fields import CUT
from ibcmtool.packets import Frame
from ibcmtool.sources.files import open_capture
from ibcmtool.wire import detail
from ibcmtool.wire.detail import LayerDetail


def frame_of(path: Path, number: int, captured: int | None = None) -> Frame:
    with open_capture(str(path), 0) as capture:
        frame = next(frame for frame in capture if frame.number == number)
    return frame._replace(data=frame.data[:captured])


def layers_of(frame: Frame) -> list[LayerDetail]:
    return list(detail.layers(detail.dissect(frame)))


def values(layer: LayerDetail) -> dict[str, object]:
    return {field.name: field.value for field in layer.fields}


@pytest.fixture
def request_frame(captures: Path) -> Frame:
    return frame_of(captures / "nvme_host_crash_stale.pcap", 1)


def test_layers_from_the_link_to_the_private_data(request_frame: Frame) -> None:
    layers = {layer.layer: layer for layer in layers_of(request_frame)}
    assert list(layers) == [
        "Ether", "IP", "UDP", "BTH", "DETH", "MAD", "CM_REQ", "RDMA_IP_CM", "NVMe_REQ", "ConsumerData",
    ]  # fmt: skip
    assert values(layers["IP"])["src"] == "10.77.0.2"
    assert values(layers["CM_REQ"])["local_qpn"] == 0x11
    assert values(layers["CM_REQ"])["primary_remote_gid"] == "::ffff:10.77.0.1"
    assert values(layers["RDMA_IP_CM"])["source_port"] == 47563
    assert values(layers["NVMe_REQ"])["hsqsize"] == 31


def test_words(request_frame: Frame) -> None:
    [request] = [layer for layer in layers_of(request_frame) if layer.layer == "CM_REQ"]
    words = {field.name: field.words for field in request.fields}
    assert words["local_cm_response_timeout"] == "20 (4.29 s)"
    assert words["path_mtu"] == "3 (1024 bytes)"
    assert words["local_ca_guid"] == "5054:00ff:feaa:0002"


def test_fields_say_where_they_lie(request_frame: Frame) -> None:
    layers = layers_of(request_frame)
    [request] = [layer for layer in layers if layer.layer == "CM_REQ"]
    places = {field.name: (field.bit_offset, field.width, field.raw.hex()) for field in request.fields}
    assert places["local_comm_id"] == (0, 32, "9807f7a0")
    assert places["transport_service_type"] == (43 * 8 + 5, 2, "a1")
    assert places["primary_flow_label"] == (88 * 8, 20, "690d90")
    for layer in layers:
        if layer.layer != "ConsumerData":
            placed = [field for field in layer.fields if field.bit_offset is not None]
            assert [field.bit_offset for field in placed] == [
                sum(field.width for field in placed[:index]) for index in range(len(placed))
            ], layer.layer
    [icrc] = [field for layer in layers for field in layer.fields if field.name == "icrc"]
    assert (icrc.bit_offset, icrc.raw, icrc.words) == (None, request_frame.data[-4:], "0xe2bbde7c [right]")


def test_wrong_icrc_says_so(request_frame: Frame) -> None:
    flipped = request_frame.data[:200] + bytes([request_frame.data[200] ^ 1]) + request_frame.data[201:]
    [icrc] = [f for layer in layers_of(request_frame._replace(data=flipped)) for f in layer.fields if f.name == "icrc"]
    assert icrc.words.startswith("0xe2bbde7c [wrong, expected 0x")


@pytest.mark.parametrize(
    ("name", "number"), [("nvme_host_crash_stale", 1), ("srp_login_rejected", 2), ("rping_ipv6", 1), ("rping_vlan", 2)]
)
def test_a_frame_cut_at_each_byte(name: str, number: int, captures: Path) -> None:
    whole = frame_of(captures / f"{name}.pcap", number)
    complete = {(layer.layer, field.name): field for layer in layers_of(whole) for field in layer.fields}
    for captured in range(len(whole.data)):
        layers = layers_of(whole._replace(data=whole.data[:captured]))
        for layer in layers:
            for field in layer.fields:
                if field.value is None:
                    assert field.words == CUT
                elif field.width % 8 == 0 and len(field.raw) == field.width // 8 and layer.layer.startswith("CM_"):
                    assert field.value == complete[layer.layer, field.name].value
        cut = [layer.layer for layer in layers if layer.captured is not None]
        assert len(cut) <= 1 or cut[0] == "CM_REQ", captured  # its private data are cut with it


def test_private_data_of_an_answer_needs_the_protocol_of_its_request(captures: Path) -> None:
    packet = detail.dissect(frame_of(captures / "srp_login_rejected.pcap", 2))
    request = {layer.layer: values(layer) for layer in layers_of(frame_of(captures / "srp_login_rejected.pcap", 1))}
    data = bytes.fromhex(str(request["CM_REQ"]["private_data"]))
    protocol = detail.request_protocol(int(str(request["CM_REQ"]["service_id"])), data)
    assert "SRP_LOGIN_REJ" not in [layer.layer for layer in detail.layers(packet)]
    answer = {layer.layer: values(layer) for layer in detail.layers(packet, protocol)}
    assert answer["SRP_LOGIN_REJ"]["reason"] == 0x00010006
    assert detail.request_protocol(None, data) is None


def test_names_do_not_hang_on_the_machine(captures: Path) -> None:
    """Scapy takes names of EtherTypes and IP protocols from files in /etc, which differ."""
    words = {
        (layer.layer, field.name): field.words
        for layer in layers_of(frame_of(captures / "rping_vlan.pcap", 1))
        for field in layer.fields
    }
    assert words["Ether", "type"] == "0x8100"
    assert words["IP", "proto"] == "17"
    assert words["UDP", "dport"] == "4791"


def test_link_type_that_scapy_does_not_know(request_frame: Frame) -> None:
    [layer] = layers_of(request_frame._replace(link_type=4711))
    assert layer.layer == "Raw"
