"""Every format: built, dissected, cut at every byte, and told from the others."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Padding

from dissectors.fields import kept, layer_size, layout
from dissectors.private_data import (
    KIB_MSG,
    KIB_MSG_BE,
    KIB_REJ,
    KIB_REJ_BE,
    LIBFABRIC_XRC,
    PROTOCOLS,
    RDMA_IP_CM,
    RDMA_IP_CM_SERVICE,
    RDS6_CM,
    RDS_CM,
    RDS_REJ,
    RDS_REJ_BE,
    RPCRDMA_CM,
    RSOCKETS_CM,
    RTRS_REQ,
    RTRS_RSP,
    SDP_HELLO,
    SDP_HELLO_ACK,
    SRP_LOGIN_REJ,
    SRP_LOGIN_REQ,
    SRP_LOGIN_REQ_RDMA,
    SRP_LOGIN_RSP,
    IPoIB_CM,
    NVMe_REJ,
    NVMe_REP,
    NVMe_REQ,
    dissect,
    ip_cm_reject_words,
    iSER_CM,
    recognise,
    words,
)

REGISTERED = {layer for protocol in PROTOCOLS for layers in protocol.layers.values() for layer in layers}
LAYERS = [RDMA_IP_CM, *sorted(REGISTERED, key=lambda layer: layer.__name__)]
NVME, ISER, NFS, RDMA_TCP_5555 = 0x0000000001061144, 0x0000000001060CBC, 0x0000000001064E51, 0x00000000010615B3
SDP_5001, LUSTRE, RTRS = 0x0000000000011389, 0x00000000010603DB, 0x00000000010604D2
RDS_IPV4, RDS_IPV6 = 0x00000000010648CA, 0x0000000001064001
TARGET_GUID = 0x0002C903000E0B72  # as SRP targets use it for a service id
HEADER = RDMA_IP_CM(source_port=41234, source="10.77.0.2", destination="10.77.0.1")
HEADER6 = RDMA_IP_CM(source_port=41234, source="fd77::2", destination="fd77::1")
RSOCKETS = RSOCKETS_CM(target_address=0x7F12A4001000, data_address=0x7F12A4020000)
LOGIN_IDS = {"iu_length": 8260, "initiator_port_id": 0x505400FFFEAA0002, "target_port_id": 0x505400FFFEAA0001}

every_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)


def wire(layers, size=92) -> bytes:
    return bytes(layers).ljust(size, b"\0")


@every_layer
@given(data=st.data())
def test_fields_survive_build_and_dissection(layer, data):
    values = {}
    for slot in layout(layer):
        if slot.kind == "bytes":
            values[slot.name] = data.draw(st.binary(min_size=slot.width // 8, max_size=slot.width // 8))
        elif slot.kind != "gid":
            values[slot.name] = data.draw(st.integers(0, 2**slot.width - 1))
    addresses = [slot.name for slot in layout(layer) if slot.kind == "gid"]
    version = 6 if layer is RDS6_CM else data.draw(st.sampled_from([4, 6]))
    for name in addresses:
        values[name] = str(data.draw(st.ip_addresses(v=version)))
    if addresses and "ip_version" in values:
        values["ip_version"] = version
    again = layer(bytes(layer(**values)))
    found = {slot.name: getattr(again, slot.name) for slot in layout(layer)}
    for name in addresses:  # ::1.2.3.4 and ::102:304 are the same address
        field = again.get_field(name)
        found[name], values[name] = (field.i2m(again, text) for text in (found[name], values[name]))
    assert found == values


@every_layer
@given(data=st.data())
def test_any_bytes_are_built_again_from_their_fields(layer, data):
    size = layer_size(layer)
    raw = data.draw(st.binary(min_size=size, max_size=size))
    packet = layer(raw)
    assert bytes(packet) == raw
    assert bytes(layer(**packet.fields)) == raw
    assert packet.show(dump=True)


@every_layer
@settings(max_examples=20)
@given(data=st.data())
def test_cut_at_every_byte(layer, data):
    size = layer_size(layer)
    raw = data.draw(st.binary(min_size=size, max_size=size))
    whole = layer(raw)
    for captured in range(1, size):
        cut = layer(raw[:captured])
        assert bytes(cut) == raw[:captured]
        assert cut.show(dump=True)
        assert isinstance(cut.words(), list)
        for slot in layout(layer):
            assert getattr(cut, slot.name) == kept(slot, getattr(whole, slot.name), captured)


CONNECTIONS = [
    (NVME, HEADER / NVMe_REQ(qid=3, hrqsize=128, hsqsize=127), NVMe_REP(crqsize=128), NVMe_REJ(status=3)),
    (ISER, HEADER / iSER_CM(), iSER_CM(), None),
    (NFS, HEADER / RPCRDMA_CM(), RPCRDMA_CM(), None),
    (RDMA_TCP_5555, HEADER / SRP_LOGIN_REQ_RDMA(**LOGIN_IDS), SRP_LOGIN_RSP(), SRP_LOGIN_REJ()),
    (TARGET_GUID, SRP_LOGIN_REQ(**LOGIN_IDS), SRP_LOGIN_RSP(), SRP_LOGIN_REJ()),
    (0x1000000000000048, IPoIB_CM(ud_qpn=0x49), IPoIB_CM(ud_qpn=0x48), None),
    (0x0100000000000048, IPoIB_CM(ud_qpn=0x49), IPoIB_CM(ud_qpn=0x48), None),
    (SDP_5001, SDP_HELLO(source="10.77.0.2", destination="10.77.0.1"), SDP_HELLO_ACK(), None),
    (LUSTRE, HEADER / KIB_MSG(), KIB_MSG(type="CONNACK"), KIB_REJ(reason=1)),
    (LUSTRE, HEADER / KIB_MSG_BE(), KIB_MSG(type="CONNACK"), KIB_REJ_BE(reason=7)),
    (RDS_IPV4, HEADER / RDS_CM(credit=16), RDS_CM(), RDS_REJ()),
    (RDS_IPV4, HEADER / RDS_CM(major_version=3, minor_version_mask=2), RDS_CM(), RDS_REJ_BE()),
    (RDS_IPV6, HEADER6 / RDS6_CM(source="fd77::2"), RDS6_CM(), RDS_REJ(reason=-95 & 0xFFFFFFFF)),
    (RTRS, HEADER / RTRS_REQ(connections=9), RTRS_RSP(queue_depth=512), RTRS_RSP(errno=104)),
    (RTRS, RTRS_REQ(connections=9, reconnections=1), RTRS_RSP(queue_depth=512), RTRS_RSP(errno=-16 & 0xFFFF)),
    (RDMA_TCP_5555, HEADER / RSOCKETS, RSOCKETS, None),
    (
        RDMA_TCP_5555,
        HEADER / LIBFABRIC_XRC(port=8080, srqn=0x142, connection_tag=1),
        LIBFABRIC_XRC(target_qpn=0x19, srqn=0x143, connection_tag=1),
        LIBFABRIC_XRC(connection_tag=1),
    ),
]


def claims(protocol, service_id, private_data) -> bool:
    behind_header = protocol.over_ip_cm and RDMA_IP_CM.fits(private_data)
    return protocol.recognises(service_id, private_data[36:] if behind_header else private_data)


@pytest.mark.parametrize(("service_id", "req", "rep", "rej"), CONNECTIONS, ids=lambda x: getattr(x, "name", None))
def test_a_connection_of_each_protocol(service_id, req, rep, rej):
    protocol = recognise(service_id, wire(req))
    assert [known for known in PROTOCOLS[:-1] if claims(known, service_id, wire(req))] == [protocol]
    for message, built, area in (("REQ", req, 92), ("REP", rep, 196), ("REJ", rej, 148)):
        if built is None:
            assert dissect(protocol, message, bytes(area)) is None
            continue
        data = wire(built, area)
        layers = dissect(protocol, message, data)
        assert layers.layers()[: len(built.layers())] == built.layers()
        assert bytes(layers) == data
        assert not layers.haslayer(Padding)
        assert words(protocol, message, data)
        for captured in range(area):
            cut = dissect(protocol, message, data[:captured])
            assert cut is None or bytes(cut) == data[:captured]
            assert len(words(protocol, message, data[:captured])) <= len(words(protocol, message, data))


@given(st.integers(0, 2**64 - 1) | st.integers(0x1000000, 0x1FFFFFF), st.binary(max_size=92))
def test_nothing_raises(service_id, data):
    protocol = recognise(service_id, data)
    for any_protocol in PROTOCOLS if protocol is None else (protocol, *PROTOCOLS):
        for message in ("REQ", "REP", "REJ", "RTU", "SIDR_REQ"):
            layers = dissect(any_protocol, message, data)
            assert layers is None or bytes(layers) == data
            words(any_protocol, message, data)


@pytest.mark.parametrize(
    ("service_id", "private_data", "name"),
    [
        (NVME, wire(HEADER), "NVMe/RDMA"),
        (0x0000000001061145, wire(HEADER / NVMe_REQ(qid=1, hrqsize=128, hsqsize=127)), "NVMe/RDMA"),
        (0x0000000001061145, wire(HEADER / NVMe_REQ(qid=1, hrqsize=128, hsqsize=100)), "RDMA IP CM"),
        (0x0000000001061145, wire(HEADER), "RDMA IP CM"),
        (0x0000000001111144, wire(HEADER), "RDMA IP CM"),
        (RDMA_TCP_5555, wire(HEADER / RPCRDMA_CM()), "NFS/RDMA"),
        (NFS, wire(HEADER), "NFS/RDMA"),
        (NFS, wire(RPCRDMA_CM()), "NFS/RDMA"),
        (RDMA_TCP_5555, wire(HEADER / SRP_LOGIN_REQ_RDMA(iu_length=8260)), "RDMA IP CM"),  # no target
        (TARGET_GUID, bytes(92), None),
        (TARGET_GUID, wire(SRP_LOGIN_REQ(iu_length=32, target_port_id=1)), None),
        (0x0200000000000001, wire(HEADER), None),
    ],
)
def test_recognition(service_id, private_data, name):
    protocol = recognise(service_id, private_data)
    assert (protocol and protocol.name) == name


def test_addresses_of_afib_have_no_header():
    """Over AF_IB the consumer data begins at once."""
    data = wire(NVMe_REQ(qid=2))
    layers = dissect(recognise(NVME, data), "REQ", data)
    assert layers.layers()[0] is NVMe_REQ
    assert layers.qid == 2


def test_wire_bytes():
    assert bytes(NVMe_REQ(qid=1, hrqsize=128, hsqsize=127)).hex() == "0000010080007f00" + "00" * 24
    assert bytes(NVMe_REJ(status="no resources")).hex() == "00000600"
    assert bytes(RPCRDMA_CM(send_size=3, receive_size=255)).hex() == "f6ab0e18010103ff"
    assert bytes(iSER_CM()).hex() == "80000000"
    assert bytes(IPoIB_CM(ud_qpn=0x405)).hex() == "000004050000fff4"
    rej = bytes(SRP_LOGIN_REJ(reason=0x00010002, tag=7))
    assert rej.hex() == "c200000000010002" + "0000000000000007" + "00" * 8 + "0006" + "00" * 6
    assert bytes(HEADER).hex() == "0040a112" + "00" * 12 + "0a4d0002" + "00" * 12 + "0a4d0001"


def test_ip_version_follows_the_addresses():
    assert bytes(RDMA_IP_CM(source="fd77::2", destination="fd77::1"))[1] == 0x60
    assert bytes(RDMA_IP_CM(source="10.0.0.1", ip_version=6))[1] == 0x60


def test_addresses_that_are_none():
    with pytest.raises(ValueError, match="not an IP address: 'host'"):
        RDMA_IP_CM(source="host")


def test_ipv4_address_behind_other_bytes_is_shown_whole():
    raw = bytearray(bytes(HEADER))
    raw[4] = 0xFE
    assert RDMA_IP_CM(bytes(raw)).source == "fe00::a4d:2"
    assert not RDMA_IP_CM.fits(bytes(raw))


@pytest.mark.parametrize(
    ("ari", "expected"),
    [
        (b"", []),
        (b"\x00\x01\x00", [("reason", "refused by the RDMA IP CM service: major version not supported")]),
        (b"\x00", [("reason", "refused by the RDMA IP CM service: unspecified")]),
        (b"\x00\x2a", [("reason", "refused by the RDMA IP CM service: unknown(0x2a)")]),
        (b"\x01\x05", [("refused by", "the consumer")]),
    ],
)
def test_additional_reject_information(ari, expected):
    assert ip_cm_reject_words(ari) == expected


def test_unknown_reasons_are_shown_as_numbers():
    assert KIB_REJ(reason=0x2A).words() == [("reason", "unknown(0x2a)")]
    assert RTRS_RSP(errno=4000).words() == [("reason", "errno 4000")]
    assert NVMe_REJ(status=0x2A).words() == [("reason", "unknown(0x2a)")]
    assert SRP_LOGIN_REJ(reason=0x00010042).words() == [("reason", "unknown(0x10042)")]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_a_reject_without_private_data_says_nothing(protocol):
    """Linux zeroes what it does not fill: a REJ 8 for a connection of any protocol is no reject of its own."""
    assert dissect(protocol, "REJ", bytes(148)) is None
    assert words(protocol, "REJ", bytes(148)) == []


def test_the_fallback_comes_last():
    assert PROTOCOLS[-1] is RDMA_IP_CM_SERVICE


def test_import_loads_no_network_layers_of_scapy():
    code = (
        "import sys, dissectors.private_data; print([name for name in sys.modules if name.startswith('scapy.layers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
