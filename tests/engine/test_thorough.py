"""The scan and the decoding of every frame give the same analysis, on every capture at hand."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import wrpcap
from sinks import report

import dissectors.encapsulation  # noqa: F401  (binds RoCE)
from dissectors.cm import CM_REQ
from dissectors.mad import MAD
from dissectors.transport import BTH, DETH
from ibcmtool.engine.files import analyze

SAMPLES = [
    "rping",
    "rping_ipv6",
    "rping_vlan",
    "rtu_lost",
    "rep_lost_retransmit",
    "nvme_connect_disconnect",
    "stale_req_dup_dreq_edge",
    "udaddy_sidr",
]


def document(path, thorough):
    return report("analyze", "json", analyze([str(path)], thorough=thorough))


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(captures, name):
    path = captures / f"{name}.pcap"
    assert document(path, thorough=False) == document(path, thorough=True)


def test_published_captures(public_captures):
    paths = [path for path in public_captures.iterdir() if "242" not in path.name]
    assert len(paths) > 5
    for path in paths:
        assert document(path, thorough=False) == document(path, thorough=True), path.name


def test_address_that_moved(tmp_path):
    """What ARP tells reaches the judge either way."""
    mac, moved = "52:54:00:aa:00:02", "52:54:00:aa:00:09"
    ether = Ether(src="52:54:00:aa:00:01", dst=mac)
    link = ether / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=4791)
    mad = DETH(source_qp=1) / MAD() / CM_REQ(local_comm_id=7, local_ca_guid=5, local_qpn=9, max_cm_retries=1)
    requests = [link / BTH(psn=psn) / mad for psn in (1, 2)]
    announcements = [Ether(src=each) / ARP(op=1, hwsrc=each, psrc="10.0.0.2", pdst="10.0.0.2") for each in (mac, moved)]
    times = (0, 10, 20, 26, 60)
    packets = (*announcements, *requests, ether / IP() / TCP())
    path = tmp_path / "capture.pcap"
    for time, packet in zip(times, packets, strict=True):
        packet.time = 1_700_000_000 + time
        wrpcap(str(path), packet, append=path.exists())
    assert document(path, thorough=False) == document(path, thorough=True)
    assert "X09" in document(path, thorough=False)
