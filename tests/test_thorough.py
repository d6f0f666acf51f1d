"""The scan and the decoding of every frame give the same analysis, on every capture at hand."""

from __future__ import annotations

from io import StringIO

import pytest

from ibcmtool.analysis import analyze
from ibcmtool.reports import json

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
    out = StringIO()
    json.render(analyze([str(path)], thorough=thorough), out)
    return out.getvalue()


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(captures, name):
    path = captures / f"{name}.pcap"
    assert document(path, thorough=False) == document(path, thorough=True)


def test_published_captures(public_captures):
    paths = [path for path in public_captures.iterdir() if "242" not in path.name]
    assert len(paths) > 5
    for path in paths:
        assert document(path, thorough=False) == document(path, thorough=True), path.name
