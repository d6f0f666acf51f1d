"""What a capture without CM messages holds instead, and how the report says it."""

from __future__ import annotations

import json

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from sources.files.traffic import CONTENTS, ETHER, V1, V4
from typer.testing import CliRunner

from ibcmtool.analysis import Traffic
from ibcmtool.cli import app
from ibcmtool.engine.files import analyze

START = 1_700_000_000_000_000_000
REQ = bytes(ETHER / V4 / CONTENTS["REQ"])
RC = bytes(ETHER / V4 / CONTENTS["RC"])
SA = bytes(ETHER / V1 / CONTENTS["SA"])
PLAIN = bytes(ETHER / IP() / UDP(dport=53) / Raw(bytes(30)))
MPA = b"MPA ID Req Frame\0\1\0\0"
CASES = {
    "queue pairs connected without the CM": ([(RC, 0)] * 5, Traffic(5, 5, 0, 0, 0, 0), "5 packets of RoCE or"),
    "no RDMA": ([(PLAIN, 0)] * 3, Traffic(3, 0, 0, 0, 0, 0), "No packet of RoCE or InfiniBand among 3 frames"),
    "other classes": ([(SA, 0)], Traffic(1, 1, 1, 0, 0, 0), "1 packet to QP 1, of other management classes"),
    "cut in front of the MAD": ([(REQ[:64], 400)], Traffic(1, 1, 1, 1, 0, 0), "1 packet to QP 1, cut by the snap"),
    "cut in the headers": ([(REQ[:38], 400)] * 2, Traffic(2, 0, 0, 0, 2, 0), "2 frames of 2 frames, cut by the snap"),
    "iWARP": (
        [(bytes(ETHER / IP() / TCP() / MPA), 0), (bytes(ETHER / IPv6() / TCP() / MPA.replace(b"q", b"p")), 0)],
        Traffic(2, 0, 0, 0, 0, 2),
        "2 frames of 2 frames begin an iWARP connection",
    ),
}


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", CASES)
def test_what_is_there(make, tmp_path, name):
    frames, traffic, said = CASES[name]
    path = tmp_path / "capture"
    path.write_bytes(make.pcap([(START + n * 777, data, wire or len(data)) for n, (data, wire) in enumerate(frames)]))
    assert analyze([str(path)]).inputs[0].traffic == traffic
    runner = CliRunner()
    assert said in flat(runner.invoke(app, ["analyze", str(path)]).stdout)
    (info,) = json.loads(runner.invoke(app, ["analyze", "--format", "json", str(path)]).stdout)["inputs"]
    assert info["traffic"]["rdma"] == traffic.rdma


def test_no_second_look_where_there_is_a_message(make, tmp_path, monkeypatch):
    path = tmp_path / "capture"
    path.write_bytes(make.pcap([(START, REQ, len(REQ)), (START + 77, RC, len(RC))]))
    assert analyze([str(path)]).inputs[0].traffic is None


def test_hostile_frames(make, tmp_path):
    path = tmp_path / "capture"
    tcp = bytes(ETHER / IP() / TCP() / MPA)
    frames = [tcp[:size] for size in range(len(tcp))] + [RC[:size] for size in range(60)]
    path.write_bytes(make.pcap([(START + n * 777, data, len(data)) for n, data in enumerate(frames)]))
    traffic = analyze([str(path)]).inputs[0].traffic
    assert traffic is not None
    assert (traffic.frames, traffic.to_qp1, traffic.cut_in_headers) == (len(frames), 0, 0)
