"""The private data of real connections."""

from __future__ import annotations

import pytest

from dissectors.private_data import (
    RDMA_IP_CM,
    RDMA_IP_CM_SERVICE,
    RPCRDMA_CM,
    SRP_LOGIN_REJ,
    SRP_LOGIN_REQ_RDMA,
    ConsumerData,
    IPoIB_CM,
    NVMe_REP,
    NVMe_REQ,
    dissect,
    iSER_CM,
    recognise,
    words,
)
from dissectors.private_data.protocol import Protocol


def opened(req) -> tuple[Protocol, RDMA_IP_CM]:
    protocol = recognise(req.service_id, req.private_data)
    layers = dissect(protocol, "REQ", req.private_data)
    assert bytes(layers) == req.private_data
    return protocol, layers


@pytest.mark.parametrize(
    ("frame", "qid", "queue_size", "source_port"),
    [(1, 0, 32, 47152), (80, 1, 128, 50386)],
    ids=["admin queue", "I/O queue"],
)
def test_nvme(recorded, frame, qid, queue_size, source_port):
    req, rep = (recorded("linux-rxe/nvme_connect_disconnect.pcap", number) for number in (frame, frame + 1))
    protocol, header = opened(req)
    assert protocol.name == "NVMe/RDMA"
    assert (header.source, header.destination, header.source_port) == ("10.77.0.2", "10.77.0.1", source_port)
    request = header[NVMe_REQ]
    assert (request.recfmt, request.qid, request.cntlid) == (0, qid, 0)
    assert (request.hrqsize, request.hsqsize) == (queue_size, queue_size - 1)
    assert dissect(protocol, "REP", rep.private_data)[NVMe_REP].crqsize == queue_size
    assert words(protocol, "REQ", req.private_data)[0] == ("qid", str(qid))
    assert words(protocol, "REP", rep.private_data) == [("crqsize", str(queue_size))]


def test_iser(recorded):
    req, rep = (recorded("linux-rxe/iser_login_logout.pcap", number) for number in (1, 2))
    protocol, header = opened(req)
    assert protocol.name == "iSER"
    for message in (header[iSER_CM], dissect(protocol, "REP", rep.private_data)[iSER_CM]):
        assert (message.zbva_not_supported, message.send_with_invalidate_not_supported) == (1, 0)
    assert words(protocol, "REP", rep.private_data) == [
        ("zero based virtual addresses", "no"),
        ("send with invalidate", "yes"),
    ]


def test_nfs(recorded):
    req, rep = (recorded("linux-rxe/nfs_rdma_mount_umount.pcap", number) for number in (1, 2))
    protocol, header = opened(req)
    assert protocol.name == "NFS/RDMA"
    request, reply = header[RPCRDMA_CM], dissect(protocol, "REP", rep.private_data)[RPCRDMA_CM]
    assert (request.magic, request.version) == (reply.magic, reply.version) == (0xF6AB0E18, 1)
    assert (request.remote_invalidation, reply.remote_invalidation) == (1, 0)
    assert (request.send_size, request.receive_size) == (3, 3)
    assert words(protocol, "REQ", req.private_data) == [
        ("inline send size", "4096 bytes"),
        ("inline receive size", "4096 bytes"),
        ("remote invalidation", "yes"),
    ]


def test_srp_login_rejected(recorded):
    req, rej = (recorded("linux-rxe/srp_login_rejected.pcap", number) for number in (1, 2))
    protocol, header = opened(req)
    assert protocol.name == "SRP"
    login = header[SRP_LOGIN_REQ_RDMA]
    assert login.iu_length == 0x2044
    assert (login.indirect_buffers, login.direct_buffers, login.immediate_data) == (1, 1, 1)
    assert login.initiator_port_id == 0x505400FFFEAA0002
    assert login.target_port_id == 0x505400FFFEAA0001505400FFFEAA0001
    assert login.immediate_data_offset == 0x44
    reject = dissect(protocol, "REJ", rej.private_data)[SRP_LOGIN_REJ]
    assert reject.reason == 0x00010006
    assert words(protocol, "REJ", rej.private_data) == [("reason", "RDMA channel limit reached for this initiator")]


def test_ipv6(recorded):
    protocol, header = opened(recorded("linux-rxe/rping_ipv6.pcap", 1))
    assert protocol is RDMA_IP_CM_SERVICE
    assert (header.ip_version, header.source, header.destination) == (6, "fd77::2", "fd77::1")
    assert header.source_port == 40206
    assert header[ConsumerData].data == bytes(56)


def test_header_of_a_sidr_req(recorded):
    req = recorded("linux-rxe/udaddy_sidr.pcap", 1)
    protocol = recognise(req.service_id, req.private_data)
    header = dissect(protocol, "SIDR_REQ", req.private_data)
    assert (header.source, header.destination, header.source_port) == ("10.77.0.2", "10.77.0.1", 59691)
    assert len(header[ConsumerData].data) == 180


def test_another_program_at_the_nvme_port(recorded):
    req = recorded("linux-rxe/nvme_invalid_private_data_rej.pcap", 1)
    protocol, _ = opened(req)
    assert words(protocol, "REQ", req.private_data) == [("qid", "0"), ("hrqsize", "0"), ("hsqsize", "0")]


def test_ipoib_cm(recorded):
    req, rep = (recorded("public/erf-ipoib-cm-infiniband.pcap", number) for number in (27, 28))
    protocol = recognise(req.service_id, req.private_data)
    assert protocol.name == "IPoIB-CM"
    request = dissect(protocol, "REQ", req.private_data)[IPoIB_CM]
    assert (request.ud_qpn, request.receive_mtu) == (0x48, 65524)
    assert words(protocol, "REP", rep.private_data) == [("UD QPN", "0x000405"), ("receive MTU", "65524")]


def test_refusals_without_private_data_say_nothing(recorded):
    """Linux zeroes what it does not fill: a REJ 8 for an NVMe, SRP or iSER connection is no reject of theirs."""
    rej = recorded("linux-rxe/no_listener_rej.pcap", 2)
    for name in ("nvme_connect_disconnect", "srp_login_rejected", "iser_login_logout", "nfs_rdma_mount_umount"):
        req = recorded(f"linux-rxe/{name}.pcap", 1)
        protocol = recognise(req.service_id, req.private_data)
        assert dissect(protocol, "REJ", rej.private_data) is None
        assert words(protocol, "REJ", rej.private_data) == []
