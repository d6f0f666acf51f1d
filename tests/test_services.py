"""Service ids in words, names of the ends, and what the private data of a connection says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap
from typed import typed

import dissectors.cm
import dissectors.encapsulation
import dissectors.mad
from dissectors.private_data import (
    KIB_MSG,
    KIB_REJ,
    KIB_REJ_BE,
    PROTOCOLS,
    RDMA_IP_CM,
    RDS_CM,
    RDS_REJ,
    RPCRDMA_CM,
    RSOCKETS_CM,
    RTRS_REQ,
    RTRS_RSP,
    SRP_LOGIN_REQ,
    NVMe_REJ,
    NVMe_REQ,
    recognise,
)
from ibcmtool import services
from ibcmtool.messages import Fields
from ibcmtool.model import Connection, End
from ibcmtool.packets import Address, CmMessage
from ibcmtool.service_ports import PORTS
from ibcmtool.wire.readers import read_message

ROOT = Path(__file__).resolve().parents[1]
TCP_PORTS = 0x0000000001060000
NVME = TCP_PORTS + 4420
HEADER = RDMA_IP_CM(source_port=41234, source="10.77.0.2", destination="10.77.0.1")

RSOCKETS = RSOCKETS_CM(target_address=0x7F12A4001000, data_address=0x7F12A4020000)
STALE_OF_LUSTRE = "Lustre: stale peer incarnation (Lustre's own, not IB stale connection)"


def private_data(layers: Packet, size: int = 92) -> bytes:
    return bytes(layers).ljust(size, b"\0")


def recorded(name: str, frame: int) -> CmMessage:
    """A CM message of a capture, as far as the services look at it."""
    for folder in ("captures", "../shared/captures"):
        path = ROOT / folder / name
        if path.exists():
            layer = rdpcap(str(path), count=frame)[frame - 1][dissectors.mad.MAD].payload
            kind = type(layer).__name__.removeprefix("CM_")
            return message(kind, read_message(kind, bytes(layer)))
    pytest.skip(f"no capture {name}")


def message(kind: str, fields: Fields) -> CmMessage:
    return CmMessage(0, 1, 0, kind, Address(), Address(), "RoCE v2", None, 0, fields, b"", None)


def connection(req: Any) -> Connection:
    """With the name that the tracker gives to its passive end."""
    names = services.endpoint_names(req.service_id, req.private_data or b"")
    made = without_req(req.service_id)
    made.request, made.passive.name = req, names[1] if names else ""
    return made


def without_req(service_id: int | None) -> Connection:
    active, passive = End("active", Address(), "IDLE"), End("passive", Address(), "IDLE")
    made = Connection(1, active, passive, "RoCE v2", 0)
    made.service_id = service_id
    return made


def request(service_id: int, data: bytes | None) -> Fields:
    return typed("REQ", service_id=service_id, private_data=data)


def reject(data: bytes, reason: int = 28, ari: bytes = b"") -> CmMessage:
    fields = typed(
        "REJ",
        reason=reason,
        reject_info_length=len(ari),
        additional_reject_info=ari.ljust(72, b"\0"),
        private_data=data,
    )
    return message("REJ", fields)


@pytest.mark.parametrize(
    ("service_id", "name"),
    [
        (TCP_PORTS + 445, "SMB Direct 445"),
        (TCP_PORTS + 987, "Lustre o2iblnd 987"),
        (TCP_PORTS + 1234, "RTRS 1234"),
        (TCP_PORTS + 3260, "iSER 3260"),
        (TCP_PORTS + 4420, "NVMe/RDMA 4420"),
        (TCP_PORTS + 16385, "RDS 16385"),
        (TCP_PORTS + 18634, "RDS 18634"),
        (TCP_PORTS + 20049, "NFS/RDMA 20049"),
        (TCP_PORTS + 9999, "RDMA TCP 9999"),
        (0x0000000001111C06, "RDMA UDP 7174"),
        (0x0000000001111144, "RDMA UDP 4420"),
        (0x00000000013F1C06, "RDMA IB 7174"),
        (0x0000000001841C06, "RDMA IP protocol 132 7174"),
        (0x0000000000011389, "SDP 5001"),
        (0x0000000000020007, "RDMA IPoIB 7"),
        (0x1000000000000048, "IPoIB-CM UD QPN 0x000048"),
        (0x0100000000000405, "IPoIB-CM UD QPN 0x000405"),
        (0x0100000001000405, "IETF assigned 0x0100000001000405"),
        (0x0200000000000001, "locally administered 0x0200000000000001"),
        (0x0002C903000E0B72, "IBTA assigned 0x0002c903000e0b72"),
        (0x505400FFFEAA0001, "0x505400fffeaa0001"),
        (0x1000000001000048, "0x1000000001000048"),
        (0, "IBTA assigned 0x0000000000000000"),
        (2**64 - 1, "0xffffffffffffffff"),
    ],
)
def test_name(service_id, name):
    assert services.name(service_id) == name


def test_names_agree_with_the_formats():
    """A port that makes the formats recognise a protocol carries that protocol's name."""
    by_port = {port: recognise(TCP_PORTS + port, b"") for port in range(1 << 16)}
    known = {port: protocol.name for port, protocol in by_port.items() if protocol is not PROTOCOLS[-1]}
    assert known == PORTS
    assert known.keys() >= {987, 1234, 3260, 4420, 16385, 18634, 20049}
    assert {port: services.name(TCP_PORTS + port) for port in known} == {
        port: f"{name} {port}" for port, name in known.items()
    }


@pytest.mark.parametrize(
    ("service_id", "data", "name"),
    [
        (NVME, private_data(HEADER / NVMe_REQ()), "NVMe/RDMA 4420"),
        (NVME, None, "NVMe/RDMA 4420"),
        (TCP_PORTS + 4421, private_data(HEADER / NVMe_REQ()), "NVMe/RDMA (RDMA CM port 4421)"),
        (TCP_PORTS + 9999, private_data(HEADER), "RDMA TCP 9999"),
        (TCP_PORTS + 2049, private_data(HEADER / RPCRDMA_CM()), "NFS/RDMA (RDMA CM port 2049)"),
        (0x0002C903000E0B72, private_data(SRP_LOGIN_REQ(iu_length=8260, target_port_id=1)), "SRP"),
        (0x0002C903000E0B72, bytes(92), "IBTA assigned 0x0002c903000e0b72"),
        (0x1000000000000048, bytes(92), "IPoIB-CM UD QPN 0x000048"),
        (0x0000000001111C06, private_data(HEADER), "RDMA UDP 7174"),
        (TCP_PORTS + 987, private_data(HEADER), "Lustre o2iblnd 987"),
        (TCP_PORTS + 987, private_data(HEADER / KIB_MSG()), "Lustre o2iblnd 987"),
        (TCP_PORTS + 988, private_data(HEADER / KIB_MSG()), "Lustre o2iblnd (RDMA CM port 988)"),
        (TCP_PORTS + 1234, private_data(HEADER / RTRS_REQ()), "RTRS 1234"),
        (TCP_PORTS + 18634, private_data(HEADER / RDS_CM()), "RDS 18634"),
        (TCP_PORTS + 7471, private_data(HEADER / RSOCKETS), "rsockets (RDMA CM port 7471)"),
        (TCP_PORTS + 445, private_data(HEADER / Raw(b"\1\2\3\4\5\6\7\x08")), "SMB Direct 445"),
    ],
)
def test_service_of_a_connection(service_id, data, name):
    named = connection(request(service_id, data))
    assert services.connection_service(named) == name
    named.passive.name = ""  # of a tracker that gives no names
    assert services.connection_service(named) == name


@pytest.mark.parametrize("port", [987, 1234])
def test_a_port_is_no_proof_where_the_private_data_are_others(port):
    data = private_data(HEADER / Raw(b"my own protocol"))
    assert services.connection_service(connection(request(TCP_PORTS + port, data))) == f"RDMA TCP {port}"
    nvme = private_data(HEADER / NVMe_REQ())
    assert (
        services.connection_service(connection(request(TCP_PORTS + port, nvme))) == f"NVMe/RDMA (RDMA CM port {port})"
    )


def test_service_of_a_connection_whose_req_is_missing():
    assert services.connection_service(without_req(None)) == "unknown"
    assert services.connection_service(without_req(NVME)) == "NVMe/RDMA 4420"


def test_recorded_srp_login():
    req, rej = (recorded("linux-rxe/srp_login_rejected.pcap", frame) for frame in (1, 2))
    login = connection(req.fields)
    assert services.connection_service(login) == "SRP (RDMA CM port 5555)"
    assert services.private_data(login, rej) == [("", "SRP: RDMA channel limit reached for this initiator")]
    assert services.private_data(login, req)[0] == ("initiator port id", "0x0000000000000000505400fffeaa0002")


def test_recorded_nvme_queues():
    for frame, qid in ((1, "0"), (80, "1")):
        req, rep = (recorded("linux-rxe/nvme_connect_disconnect.pcap", number) for number in (frame, frame + 1))
        queue = connection(req.fields)
        assert services.connection_service(queue) == "NVMe/RDMA 4420"
        assert services.private_data(queue, req)[0] == ("qid", qid)
        assert [name for name, _ in services.private_data(queue, rep)] == ["crqsize"]


def test_recorded_refusal_without_private_data():
    req, rej = (recorded("linux-rxe/no_listener_rej.pcap", frame) for frame in (1, 2))
    assert services.private_data(connection(req.fields), rej) is None
    assert services.private_data(connection(req.fields), req) is None


def test_nvme_reject():
    queue = connection(request(NVME, private_data(HEADER / NVMe_REQ(qid=9))))
    assert services.private_data(queue, reject(private_data(NVMe_REJ(status=3), 148))) == [
        ("", "NVMe: invalid queue id (QID)")
    ]
    assert services.private_data(queue, reject(bytes(148))) is None


@pytest.mark.parametrize(
    ("port", "req", "rej", "words"),
    [
        (987, KIB_MSG(), KIB_REJ(reason=1), "Lustre: connection race lost (normal: both sides connected at once)"),
        (987, KIB_MSG(), KIB_REJ_BE(reason=5), STALE_OF_LUSTRE),
        (18634, RDS_CM(), RDS_REJ(reason=-12 & 0xFFFFFFFF), "RDS: ENOMEM (cannot allocate memory)"),
        (1234, RTRS_REQ(), RTRS_RSP(errno=-104 & 0xFFFF), "RTRS: ECONNRESET (connection reset by peer)"),
    ],
)
def test_consumer_rejects_are_told_in_the_words_of_the_protocol(port, req, rej, words):
    refused = connection(request(TCP_PORTS + port, private_data(HEADER / req)))
    assert services.private_data(refused, reject(private_data(rej, 148))) == [("", words)]


@pytest.mark.parametrize("reason", [8, 10, 27, None])
def test_private_data_of_the_cms_own_rejects_say_nothing(reason):
    """REJ 10, stale connection, is the CM's; whatever follows it is not Lustre's "stale"."""
    peer = connection(request(TCP_PORTS + 987, private_data(HEADER / KIB_MSG())))
    data = private_data(KIB_REJ(reason=5), 148)
    assert services.private_data(peer, reject(data)) == [("", STALE_OF_LUSTRE)]
    assert services.private_data(peer, reject(data, reason=reason)) is None


def test_reject_that_says_more_than_its_reason():
    peer = connection(request(TCP_PORTS + 987, private_data(HEADER / KIB_MSG())))
    rej = KIB_REJ(reason=7, queue_depth=8, max_fragments=256)
    assert services.private_data(peer, reject(private_data(rej, 148))) == [
        ("", "Lustre: message queue size mismatch"),
        ("queue depth", "8"),
        ("max fragments", "256"),
        ("max message size", "4096"),
    ]


def test_reject_by_the_rdma_ip_cm_service():
    refused = connection(request(TCP_PORTS + 9999, private_data(HEADER)))
    assert services.private_data(refused, reject(bytes(148), ari=b"\x00\x05")) == [
        ("reason", "refused by the RDMA IP CM service: destination address")
    ]
    assert services.private_data(refused, reject(bytes(148), reason=12, ari=b"\x00\x05")) is None
    elsewhere = connection(request(0x505400FFFEAA0001, bytes(92)))
    assert services.private_data(elsewhere, reject(bytes(148), ari=b"\x00\x05")) is None


def test_private_data_of_what_is_not_known():
    queue = connection(request(NVME, private_data(HEADER / NVMe_REQ())))
    rtu = message("RTU", typed("RTU", private_data=bytes(224)))
    assert services.private_data(queue, rtu) is None
    assert services.private_data(queue, message("REP", typed("REP", private_data=None))) is None
    assert services.private_data(without_req(None), reject(bytes(148))) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"quota exceeded", ("", '"quota exceeded"')),
        (b"busy\0" + bytes.fromhex("0000000b"), ("", '"busy" + 0000000b')),
        ("gesperrt: Größe".encode(), ("", '"gesperrt: Größe"')),
        (bytes.fromhex("92ffffff"), ("private data", "92ffffff (-110)")),
        (bytes.fromhex("00000006"), ("private data", "00000006 (6)")),
        (b"A", ("private data", "41000000 (65)")),
        (bytes.fromhex("00000400"), ("private data", "00000400")),
        (bytes.fromhex("0004000000000000deadbeef"), ("private data", "00040000 00000000 deadbeef")),
        (b"\x1b[2Jgone", ("private data", "1b5b324a 676f6e65")),
    ],
)
@pytest.mark.parametrize("service_id", [TCP_PORTS + 6000, 0x505400FFFEAA0001, None])
def test_words_of_a_consumer_whose_protocol_is_not_known(data, words, service_id):
    refused = without_req(None) if service_id is None else connection(request(service_id, private_data(HEADER)))
    said = reject(data.ljust(148, b"\0"))
    assert services.private_data(refused, said) == [words]
    assert services.refusal_words(refused, said) == " ".join(words).strip()
    assert services.private_data(refused, reject(said.fields.private_data, reason=10)) is None


@pytest.mark.parametrize(
    ("reason", "ari", "words"),
    [
        (26, b"\x40", "acceptable path MTU 2048 bytes"),
        (25, bytes(10) + b"\xff\xff\x0a\0\0\2", "port to use ::ffff:10.0.0.2"),
        (13, b"\0\x21", "acceptable LID 33"),
        (26, b"", ""),
        (8, b"", ""),
    ],
)
def test_what_would_be_accepted(reason, ari, words):
    refused = connection(request(TCP_PORTS + 6000, private_data(HEADER)))
    assert services.refusal_words(refused, reject(bytes(148), reason=reason, ari=ari)) == words


def test_protocols_that_always_say_why():
    for service, name in (("NVMe/RDMA 4420", "NVMe"), ("SRP (RDMA CM port 5555)", "SRP"), ("iSER 3260", "")):
        assert services.refuses_with_words(service) == name


def test_rej_whose_fields_were_cut_off():
    queue = connection(request(NVME, None))
    fields = typed("REJ", reason=28, reject_info_length=None, additional_reject_info=None, private_data=None)
    assert services.private_data(queue, message("REJ", fields)) is None


def test_endpoint_names():
    assert services.endpoint_names(NVME, private_data(HEADER)) == ("10.77.0.2:41234", "10.77.0.1:4420")
    ipv6 = RDMA_IP_CM(source_port=40206, source="fd77::2", destination="fd77::1")
    assert services.endpoint_names(NVME, bytes(ipv6)) == ("[fd77::2]:40206", "[fd77::1]:4420")


def test_endpoint_names_without_source_port():
    assert services.endpoint_names(NVME, bytes(RDMA_IP_CM(source="10.77.0.2", destination="10.77.0.1"))) == (
        "10.77.0.2",
        "10.77.0.1:4420",
    )


def changed(offset: int, value: int) -> bytes:
    raw = bytearray(bytes(HEADER))
    raw[offset] = value
    return bytes(raw)


@pytest.mark.parametrize(
    ("service_id", "data"),
    [
        (0x1000000000000048, bytes(HEADER)),
        (0x0000000000011144, bytes(HEADER)),
        (NVME, bytes(HEADER)[:35]),
        (NVME, b""),
        (NVME, bytes(92)),
        (NVME, changed(0, 0x10)),
        (NVME, changed(0, 0x01)),
        (NVME, changed(1, 0x50)),
        (NVME, changed(4, 1)),
        (NVME, changed(31, 1)),
    ],
)
def test_no_endpoint_names(service_id, data):
    assert services.endpoint_names(service_id, data) is None


@given(
    st.integers(0x1000000, 0x1FFFFFF),
    st.binary(min_size=36, max_size=92)
    | st.builds(
        lambda version, port, source, destination, padding: (
            bytes([0, version]) + port + padding + source[-4:] + padding + destination[-4:]
            if version >> 4 == 4
            else bytes([0, version]) + port + source + destination
        ),
        st.sampled_from([0x40, 0x4F, 0x60, 0x00]),
        st.binary(min_size=2, max_size=2),
        st.binary(min_size=16, max_size=16),
        st.binary(min_size=16, max_size=16),
        st.sampled_from([bytes(12), bytes(11) + b"\x01"]),
    ),
)
def test_endpoint_names_are_those_of_the_layer(service_id, data):
    header = RDMA_IP_CM(data)
    names = services.endpoint_names(service_id, data)
    if not RDMA_IP_CM.fits(data):
        assert names is None
        return
    source, destination = (f"[{text}]" if ":" in text else text for text in (header.source, header.destination))
    port = f":{header.source_port}" if header.source_port else ""
    assert names == (f"{source}{port}", f"{destination}:{service_id & 0xFFFF}")


def test_names_load_no_scapy():
    code = (
        "import sys, ibcmtool.services as s; s.name(1); s.endpoint_names(0x1061144, bytes(92)); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('scapy', 'dissectors')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
