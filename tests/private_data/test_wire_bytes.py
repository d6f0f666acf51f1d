"""Each format as bytes that were written down by hand: what is read from them, and what is told of it."""

from __future__ import annotations

import errno

import pytest

from dissectors.private_data import PROTOCOLS, RDMA_IP_CM, RDMA_IP_CM_SERVICE, dissect, recognise, words
from dissectors.private_data.errnos import ERRNOS
from dissectors.private_data.rsockets import ScaledField

TCP = 0x0000000001060000
SDP_PORT_5001 = 0x0000000000011389
HEADER = "0040a112" + "00" * 12 + "0a4d0002" + "00" * 12 + "0a4d0001"
HEADER6 = "0060a112" + "fd77" + "00" * 13 + "02" + "fd77" + "00" * 13 + "01"
NO_HEADER = ""

SDP_HELLO = (
    "00 00 0040 0000005c 00000000 00000000"  # BSDH
    "22 41 00 01 00008010 00008010 8235 0000"
    + "00" * 12 + "0a4d0002" + "00" * 12 + "0a4d0001" + "0000 0000"
)  # fmt: skip
SDP_HELLO_ACK = "01 00 0040 000000c4 00000001 00000000 22 00 00 02 00008010"

LUSTRE_CONNREQ = (
    "911be90b 1200 c0 08 38000000 c3b2a191"
    "02004d0a00000500 e6d5c4b3a2f10500 01004d0a00000500 0000000000000000"
    "0800 0001 00100000"
)  # fmt: skip
LUSTRE_CONNACK_BIG_ENDIAN = (
    "0be91b91 0011 c1 08 00000038 91a1b2c3"
    "000500030a4d0001 0005f1a2b3c4d5e7 000500030a4d0002 0005f1a2b3c4d5e6"
    "0008 0100 00001000"
)  # fmt: skip
LUSTRE_REJ = "911be90b 1200 {:02x} 00 e7d5c4b3a2f10500 0800 2000 00100000"
LUSTRE_REJ_BIG_ENDIAN = "0be91b91 0012 05 00 0005f1a2b3c4d5e7 0008 0020 00001000"

RDS_COMMON = "04 01 0003 05 00 4000 0000000000000102 00000010"
RDS_IPV4 = "0a4d0002 0a4d0001" + RDS_COMMON
RDS_IPV6 = "fd77" + "00" * 13 + "02" + "fd77" + "00" * 13 + "01" + RDS_COMMON

SESSION, PATHS = "5a3c1b2d-0001-4002-8003-0000000000aa", "5a3c1b2d-0001-4002-8003-0000000000bb"
RTRS_REQ = "00 00 bd1b 0002 0300 0900 0200" + SESSION.replace("-", "") + PATHS.replace("-", "") + "01" + "00" * 11
RTRS_RSP = "bd1b 0002 0000 0002 00f00100 00100000 02000000" + "00" * 36

RSOCKETS = (
    "01 02 0180 000000 84"
    "00007f12a4001000 00001a2b 00000002"
    "00007f12a4020000 00001a2c 00010000"
)  # fmt: skip
LIBFABRIC = "02 01 1f90 00000019 00000142 80000001 03 616263"

REQUESTS = [
    (
        "SDP", SDP_PORT_5001, NO_HEADER, SDP_HELLO,
        {"message_id": 0, "buffers": 64, "length": 92, "major_version": 2, "minor_version": 2, "ip_version": 4,
         "invalidate": 1, "max_adverts": 1, "desired_remote_receive_size": 32784, "local_port": 33333,
         "source": "10.77.0.2", "destination": "10.77.0.1"},
        [("source", "10.77.0.2"), ("local port", "33333"), ("destination", "10.77.0.1"),
         ("local receive size", "32784")],
    ),
    (
        "Lustre o2iblnd", TCP + 987, HEADER, LUSTRE_CONNREQ,
        {"magic": 0x0BE91B91, "version": 0x12, "type": 0xC0, "credits": 8, "message_bytes": 56, "checksum": 0x91A1B2C3,
         "source_nid": 0x000500000A4D0002, "source_incarnation": 0x0005F1A2B3C4D5E6,
         "destination_nid": 0x000500000A4D0001, "queue_depth": 8, "max_fragments": 256, "max_message_size": 4096},
        [("source NID", "10.77.0.2@o2ib"), ("destination NID", "10.77.0.1@o2ib"), ("queue depth", "8"),
         ("max fragments", "256"), ("max message size", "4096")],
    ),
    (
        "RDS", TCP + 18634, HEADER, RDS_IPV4,
        {"source": 0x0A4D0002, "destination": 0x0A4D0001, "major_version": 4, "minor_version": 1,
         "minor_version_mask": 3, "type_of_service": 5, "fragment_size": 16384, "acknowledged_sequence": 258,
         "credit": 16},
        [("version", "4.1"), ("accepts", "4.0 4.1"), ("type of service", "5"), ("fragment size", "16384"),
         ("credit", "16")],
    ),
    (
        "RDS", TCP + 16385, HEADER6, RDS_IPV6,
        {"source": "fd77::2", "destination": "fd77::1", "minor_version_mask": 3, "credit": 16},
        [("version", "4.1"), ("accepts", "4.0 4.1"), ("type of service", "5"), ("fragment size", "16384"),
         ("credit", "16")],
    ),
    (
        "RTRS", TCP + 1234, HEADER, RTRS_REQ,
        {"magic": 0x1BBD, "version": 0x0200, "connection": 3, "connections": 9, "reconnections": 2,
         "session_uuid": bytes.fromhex(SESSION.replace("-", "")), "first_connection": 1},
        [("connection", "3 of 9"), ("session", SESSION), ("reconnections", "2")],
    ),
    (
        "RTRS", TCP + 1234, NO_HEADER, RTRS_REQ,  # AF_IB
        {"connection": 3, "connections": 9},
        [("connection", "3 of 9"), ("session", SESSION), ("reconnections", "2")],
    ),
    (
        "rsockets", TCP + 7471, HEADER, RSOCKETS,
        {"version": 1, "iomap": 1, "big_endian_host": 0, "credits": 384, "iomap_size": 0x84,
         "target_address": 0x7F12A4001000, "target_key": 0x1A2B, "data_address": 0x7F12A4020000,
         "data_key": 0x1A2C, "data_length": 65536},
        [("credits", "384"), ("receive buffer", "2 x 65536 bytes")],
    ),
    (
        "libfabric verbs XRC", TCP + 5000, HEADER, LIBFABRIC,
        {"reciprocal": 1, "port": 8080, "target_qpn": 0x19, "srqn": 0x142, "connection_tag": 0x80000001,
         "data_size": 3},
        [("reciprocal", "yes"), ("connection tag", "0x80000001"), ("SRQN", "0x00000142"),
         ("target QPN", "0x00000019")],
    ),
    (
        "IPoIB-CM", 0x1000000000000048, NO_HEADER, "00000049 0000fff4",
        {"ud_qpn": 0x49, "receive_mtu": 65524},
        [("UD QPN", "0x000049"), ("receive MTU", "65524")],
    ),
    (
        "IPoIB-CM", 0x0100000000000048, NO_HEADER, "ff000049 0000fff4",  # the first byte is for the reader to ignore
        {"ud_qpn": 0x49, "receive_mtu": 65524},
        [("UD QPN", "0x000049"), ("receive MTU", "65524")],
    ),
]  # fmt: skip

# Answers: service id and consumer data of the REQ, message, bytes, fields, words.
ANSWERS = [
    (
        SDP_PORT_5001, SDP_HELLO, "REP", SDP_HELLO_ACK,
        {"message_id": 1, "sequence_number": 1, "extended_max_adverts": 2, "actual_receive_size": 32784},
        [("actual receive size", "32784"), ("buffers", "64")],
    ),
    (
        TCP + 987, LUSTRE_CONNREQ, "REP", LUSTRE_CONNACK_BIG_ENDIAN,
        {"version": 0x11, "type": 0xC1, "checksum": 0x91A1B2C3,
         "source_nid": 0x000500030A4D0001, "destination_incarnation": 0x0005F1A2B3C4D5E6,
         "queue_depth": 8, "max_fragments": 256, "max_message_size": 4096},
        [("source NID", "10.77.0.1@o2ib3"), ("destination NID", "10.77.0.2@o2ib3"), ("queue depth", "8"),
         ("max fragments", "256"), ("max message size", "4096")],
    ),
    (
        TCP + 987, LUSTRE_CONNREQ, "REJ", LUSTRE_REJ.format(1),
        {"reason": 1, "incarnation": 0x0005F1A2B3C4D5E7, "max_fragments": 32},
        [("reason", "connection race lost (normal: both sides connected at once)")],
    ),
    (
        TCP + 987, LUSTRE_CONNREQ, "REJ", LUSTRE_REJ_BIG_ENDIAN,
        {"reason": 5, "incarnation": 0x0005F1A2B3C4D5E7, "max_fragments": 32},
        [("reason", "stale peer incarnation (Lustre's own, not IB stale connection)")],
    ),
    (
        TCP + 987, LUSTRE_CONNREQ, "REJ", LUSTRE_REJ.format(6),
        {"reason": 6},
        [("reason", "RDMA fragments mismatch"), ("queue depth", "8"), ("max fragments", "32"),
         ("max message size", "4096")],
    ),
    (
        TCP + 18634, RDS_IPV4, "REP", "0a4d0001 0a4d0002 03 01 0002" + "00" * 16,
        {"source": 0x0A4D0001, "major_version": 3},
        [("version", "3.1"), ("accepts", "3.1")],
    ),
    (
        TCP + 18634, RDS_IPV4, "REJ", "01000000", {"reason": 1},
        [("reason", "INCOMPAT (incompatible version, or already connected or connecting to this peer)")],
    ),
    (
        TCP + 16385, RDS_IPV6, "REJ", "00000001", {"reason": 1},
        [("reason", "INCOMPAT (incompatible version, or already connected or connecting to this peer)")],
    ),
    (
        TCP + 18634, RDS_IPV4, "REJ", "f4ffffff", {"reason": 0xFFFFFFF4},
        [("reason", "ENOMEM (cannot allocate memory)")],
    ),
    (
        TCP + 18634, RDS_IPV4, "REJ", "fffffff4", {"reason": 0xFFFFFFF4},
        [("reason", "ENOMEM (cannot allocate memory)")],
    ),
    (
        TCP + 1234, RTRS_REQ, "REP", RTRS_RSP,
        {"version": 0x0200, "errno": 0, "queue_depth": 512, "max_io_size": 126976, "max_header_size": 4096, "flags": 2},
        [("queue depth", "512"), ("max IO size", "126976"), ("max header size", "4096")],
    ),
    (
        TCP + 1234, RTRS_REQ, "REJ", "bd1b 0002 98ff", {"errno": 0xFF98},
        [("reason", "ECONNRESET (connection reset by peer)")],
    ),
    (
        TCP + 1234, RTRS_REQ, "REJ", "bd1b 0002 6800", {"errno": 104},
        [("reason", "ECONNRESET (connection reset by peer)")],
    ),
    (
        TCP + 1234, RTRS_REQ, "REJ", "bd1b 0002 f0ff", {"errno": 0xFFF0},
        [("reason", "EBUSY (device or resource busy): the server still has the previous session")],
    ),
    (
        TCP + 7471, RSOCKETS, "REP", "01 01" + RSOCKETS[5:],
        {"iomap": 0, "big_endian_host": 1, "credits": 384},
        [("credits", "384"), ("receive buffer", "2 x 65536 bytes"), ("host", "big endian")],
    ),
    (
        TCP + 5000, LIBFABRIC, "REJ", "02 00 1f90 00000000 00000000 80000001 00",
        {"reciprocal": 0, "connection_tag": 0x80000001},
        [("reciprocal", "no"), ("connection tag", "0x80000001"), ("SRQN", "0x00000000")],
    ),
]  # fmt: skip

AREAS = {"REQ": 92, "REP": 196, "REJ": 148}


def area(message: str, *parts: str) -> bytes:
    data = b"".join(map(bytes.fromhex, parts))
    assert len(data) <= AREAS[message]
    return data.ljust(AREAS[message], b"\0")


def request(service_id: int, data: str, header: str = HEADER) -> bytes:
    return area("REQ", NO_HEADER if service_id == SDP_PORT_5001 else header, data)


@pytest.mark.parametrize(("name", "service_id", "header", "data", "fields", "told"), REQUESTS)
def test_request(name, service_id, header, data, fields, told):
    raw = area("REQ", header, data)
    protocol = recognise(service_id, raw)
    assert protocol.name == name
    layers = dissect(protocol, "REQ", raw)
    assert bytes(layers) == raw
    message = layers.payload if header else layers
    assert (type(layers) is RDMA_IP_CM) == bool(header)
    assert {name: getattr(message, name) for name in fields} == fields
    assert words(protocol, "REQ", raw) == told
    assert bytes(type(message)(**message.fields)) == bytes.fromhex(data)[: len(bytes(type(message)()))]


@pytest.mark.parametrize(("service_id", "req", "message", "data", "fields", "told"), ANSWERS)
def test_answer(service_id, req, message, data, fields, told):
    protocol = recognise(service_id, request(service_id, req))
    raw = area(message, data)
    layers = dissect(protocol, message, raw)
    assert bytes(layers) == raw
    assert {name: getattr(layers, name) for name in fields} == fields
    assert words(protocol, message, raw) == told


@pytest.mark.parametrize(("name", "service_id", "header", "data", "fields", "told"), REQUESTS)
def test_request_cut_at_every_byte(name, service_id, header, data, fields, told):
    """What was captured is never told wrong, and a protocol with an id or port of its own is known by that alone."""
    raw = area("REQ", header, data)
    for captured in range(len(raw)):
        cut = raw[:captured]
        protocol = recognise(service_id, cut)
        if name not in ("rsockets", "libfabric verbs XRC"):
            assert protocol.name == name or captured < len(bytes.fromhex(header))
        if protocol is not None:
            assert set(words(protocol, "REQ", cut)) <= set(told)
            layers = dissect(protocol, "REQ", cut)
            assert layers is None or bytes(layers) == cut


@pytest.mark.parametrize(
    ("service_id", "data"),
    [
        (TCP + 987, "921be90b" + LUSTRE_CONNREQ[8:]),
        (TCP + 987, "1b910be9" + LUSTRE_CONNREQ[8:]),
        (TCP + 1234, "00 00 1bbd" + RTRS_REQ[10:]),
        (TCP + 1234, "01" + RTRS_REQ[2:]),
        (TCP + 4321, RTRS_REQ.replace("bd1b 0002", "bd1b 0003")),
        (TCP + 4321, RTRS_REQ.replace("0300 0900", "0900 0900")),
        (TCP + 18635, RDS_IPV4),
        (TCP + 7471, "02" + RSOCKETS[2:]),
        (TCP + 7471, RSOCKETS.replace("01 02", "01 04")),
        (TCP + 7471, RSOCKETS.replace("0180", "0000")),
        (TCP + 7471, RSOCKETS.replace("000000 84", "000001 84")),
        (TCP + 7471, RSOCKETS.replace("00000002", "00000003")),
        (TCP + 7471, RSOCKETS.replace("00010000", "00000000")),
        (TCP + 7471, RSOCKETS + "01"),
        (TCP + 5000, "01" + LIBFABRIC[2:]),
        (TCP + 5000, "02 02" + LIBFABRIC[5:]),
        (TCP + 5000, LIBFABRIC.replace("1f90", "0000")),
        (TCP + 5000, LIBFABRIC.replace("00000019", "01000019")),
        (TCP + 5000, LIBFABRIC.replace("00000142", "00000000")),
        (TCP + 5000, LIBFABRIC.replace("00000142", "01000142")),
        (TCP + 5000, LIBFABRIC.replace("80000001", "00000000")),
        (TCP + 5000, LIBFABRIC.replace("80000001", "ffffffff")),
        (TCP + 5000, LIBFABRIC + "64"),
        (TCP + 5000, LIBFABRIC.replace("03 616263", "30 616263")),
        (0x0000000001110000 + 987, LUSTRE_CONNREQ),
        (0x0000000001110000 + 1234, RTRS_REQ),
        (0x0000000001110000 + 7471, RSOCKETS),
        (0x0000000001110000 + 5000, LIBFABRIC),
        (0x0000000001110000 + 18634, RDS_IPV4),
    ],
)
def test_what_does_not_fit_is_left_alone(service_id, data):
    raw = request(service_id, data)
    assert recognise(service_id, raw) is RDMA_IP_CM_SERVICE
    assert words(RDMA_IP_CM_SERVICE, "REQ", raw) == []


@pytest.mark.parametrize(
    ("service_id", "data"),
    [
        (SDP_PORT_5001, "01" + SDP_HELLO[2:]),
        (SDP_PORT_5001, SDP_HELLO.replace("22 41", "32 41")),
        (SDP_PORT_5001, SDP_HELLO.replace("22 41", "22 01")),
        (TCP + 18634, RDS_IPV4.replace("04 01", "02 01")),
        (TCP + 16385, RDS_IPV4),
        (0x1000000000000048, "00000049 00000000"),
    ],
)
def test_other_data_at_an_id_or_port_of_its_own_stay_raw(service_id, data):
    raw = request(service_id, data, NO_HEADER)
    protocol = recognise(service_id, raw)
    assert protocol.name in ("SDP", "RDS", "IPoIB-CM")
    assert dissect(protocol, "REQ", raw) is None
    assert words(protocol, "REQ", raw) == []


@pytest.mark.parametrize("service_id", [0x0000000000021389, 0x0000000100011389, 0x0200000000011389])
def test_sdp_has_one_range_of_service_ids(service_id):
    assert recognise(service_id, area("REQ", SDP_HELLO)) is None


@pytest.mark.parametrize("data", [LUSTRE_CONNREQ, LUSTRE_CONNACK_BIG_ENDIAN, RTRS_REQ])
def test_a_magic_is_known_at_any_port(data):
    protocol = recognise(TCP + 4321, request(TCP + 4321, data))
    assert protocol.name == ("RTRS" if data is RTRS_REQ else "Lustre o2iblnd")


@pytest.mark.parametrize(
    ("service_id", "req", "data"),
    [
        (TCP + 987, LUSTRE_CONNREQ, "911be90c 1200 01"),
        (TCP + 18634, RDS_IPV4, "02000000"),
        (TCP + 18634, RDS_IPV4, "01000000 01"),
        (TCP + 18634, RDS_IPV4, "00efffff"),  # -4352: beyond the errnos
        (TCP + 1234, RTRS_REQ, "1bbd 0002 98ff"),
        (TCP + 5000, LIBFABRIC, "03 00 1f90"),
    ],
)
def test_rejects_in_another_form_say_nothing(service_id, req, data):
    protocol = recognise(service_id, request(service_id, req))
    assert protocol in PROTOCOLS[:-1]
    assert dissect(protocol, "REJ", area("REJ", data)) is None
    assert words(protocol, "REJ", area("REJ", data)) == []


def test_rtrs_refusal_without_an_error_number_says_nothing():
    protocol = recognise(TCP + 1234, request(TCP + 1234, RTRS_REQ))
    assert words(protocol, "REJ", area("REJ", "bd1b 0002 0000")) == []


def test_lustre_network_that_is_not_o2ib_is_shown_as_a_number():
    raw = request(TCP + 987, LUSTRE_CONNREQ.replace("02004d0a00000500", "02004d0a00000200"))
    assert words(recognise(TCP + 987, raw), "REQ", raw)[0] == ("source NID", "0x000200000a4d0002")


@pytest.mark.parametrize(("scaled", "count"), [(0, "0"), (0x7F, "127"), (0x80, "128"), (0x81, "256"), (0x84, "1024")])
def test_scaled_counts_of_rsockets(scaled, count):
    assert ScaledField("iomap_size", 0, 8).words(scaled) == count


@pytest.mark.skipif(errno.EDEADLK != 35 or errno.EADDRINUSE != 98, reason="a system with other numbers")
def test_error_numbers_are_those_of_linux():
    ours = {text.partition(" ")[0]: number for number, text in ERRNOS.items()}
    assert len(ours) == len(ERRNOS)
    theirs = {name: getattr(errno, name) for name in ours if hasattr(errno, name)}
    assert len(theirs) > 120
    assert {name: ours[name] for name in theirs} == theirs
