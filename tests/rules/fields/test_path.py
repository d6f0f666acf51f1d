"""F06-F09: the path of a REQ, held against itself and against its packet."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, Host, run
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dissectors.fields import gid_bytes
from dissectors.transport import BTH, DETH

HEADERS = 14 + 20 + 8 + 12 + 8  # Ethernet, IPv4, UDP, BTH, DETH


def in_partition(partition_key: int) -> dict[str, Any]:
    """The envelope of a packet that was sent in a partition."""
    stack = Ether() / IP() / UDP(dport=4791) / BTH(partition_key=partition_key) / DETH(source_qp=1)
    return {"link_type": 1, "headers": bytes(stack)[:HEADERS]}


def native(**req: Any) -> Conversation:
    """Two REQs between InfiniBand ports LID 18 and LID 12."""
    talk = Conversation(Host("fe80::1", lid=18), Host("fe80::2", lid=12))
    talk.active(0, "REQ", **req)
    talk.another().active(1, "REQ", **req)
    return talk


@pytest.mark.parametrize("kind", ["REQ", "SIDR_REQ"])
def test_sent_in_a_partition_that_it_does_not_ask_for(kind: str) -> None:
    """F06"""
    talk = Conversation()
    talk.active(0, kind, partition_key=0x8002, **in_partition(0x8005))
    talk.another().active(1, kind, partition_key=0x8002, **in_partition(0x8005))
    finding = run(talk).only("F06")  # told once for the pair
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "certain", ((0, 1),))
    assert finding.message == f"The {kind} asks for P_Key 0x8002, but its packet has P_Key 0x8005."
    assert finding.evidence == {"partition_key": 0x8002, "bth_partition_key": 0x8005}


@pytest.mark.parametrize(("asked", "used"), [(0x8002, 0xFFFF), (0x8002, 0x7FFF), (0x8002, 0x0002), (0xFFFF, 0xFFFF)])
def test_the_default_partition_and_another_membership(asked: int, used: int) -> None:
    """F06"""
    talk = Conversation()
    talk.active(0, "REQ", partition_key=asked, **in_partition(used))
    assert "F06" not in run(talk).codes


def test_no_headers_no_partition() -> None:
    """F06"""
    talk = Conversation()
    talk.active(0, "REQ", partition_key=0x8002)
    assert "F06" not in run(talk).codes


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ({"primary_subnet_local": 1, "primary_hop_limit": 64}, "is 1, but its hop limit is 64"),
        (
            {
                "primary_subnet_local": 1,
                "primary_hop_limit": 1,
                "primary_local_gid": "fec0:0:0:1::1",
                "primary_remote_gid": "fec0:0:0:2::2",
            },
            "is 1, but its GIDs fec0:0:0:1::1 and fec0:0:0:2::2 have different prefixes",
        ),
        ({"primary_subnet_local": 0, "primary_remote_lid": 12}, "is 0, but its remote LID is 12"),
    ],
)
def test_subnet_local_that_does_not_fit(path: dict[str, Any], words: str) -> None:
    """F07"""
    finding = run(native(**path)).only("F07")  # told once for the pair
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "possible", ((0, 1),))
    assert finding.message == f"Subnet Local of the primary path {words}."


@pytest.mark.parametrize(
    "path",
    [
        {"primary_subnet_local": 1, "primary_hop_limit": 0, "primary_remote_lid": 12},
        {"primary_subnet_local": 1, "primary_hop_limit": 1, "primary_local_gid": "fec0::1"},  # the other: fe80::2
        {"primary_subnet_local": 0, "primary_hop_limit": 64, "primary_remote_lid": 0xFFFF},
    ],
)
def test_paths_as_linux_writes_them(path: dict[str, Any]) -> None:
    """F07"""
    assert "F07" not in run(native(**path)).codes


def test_the_bit_decides_nothing_on_roce() -> None:
    """F07"""
    talk = Conversation()
    talk.active(0, "REQ", primary_subnet_local=1, primary_hop_limit=64)
    assert "F07" not in run(talk).codes


PRIMARY = {"primary_local_lid": 18, "primary_remote_lid": 12, "primary_subnet_local": 1, "primary_hop_limit": 0}
SAME = {
    "alternate_local_lid": 18,
    "alternate_remote_lid": 12,
    "alternate_local_gid": "fe80::1",
    "alternate_remote_gid": "fe80::2",
    "alternate_subnet_local": 1,
}


@pytest.mark.parametrize(
    ("alternate", "fault"),
    [
        (SAME, "that is its primary path once more"),
        (SAME | {"alternate_remote_lid": 0}, "with one LID only (local 18, remote 0)"),
        (SAME | {"alternate_local_gid": "::"}, "with one GID only (local ::, remote fe80::2)"),
    ],
)
def test_an_alternate_path_that_cannot_help(alternate: dict[str, Any], fault: str) -> None:
    """F08"""
    finding = run(native(**PRIMARY, **alternate)).only("F08")  # told once for the pair
    assert (finding.severity, finding.confidence, finding.frames) == ("warning", "certain", ((0, 1),))
    assert finding.message == f"The REQ has an alternate path {fault}."
    assert finding.evidence["local_lid"] == 18


def test_a_second_path() -> None:
    """F08: another LID of the same port (LMC), and another port."""
    for alternate in (
        SAME | {"alternate_local_lid": 19},
        SAME | {"alternate_local_lid": 40, "alternate_local_gid": "fe80::101"},
        {},
    ):
        assert "F08" not in run(native(**PRIMARY, **alternate)).codes


def test_roce_has_no_path_migration() -> None:
    """F08"""
    talk = Conversation()
    talk.active(0, "REQ", alternate_local_gid="10.0.1.1", alternate_remote_gid="10.0.1.2")
    assert "alternate path although RoCE v2 has no path migration" in run(talk).only("F08").message


def test_a_req_that_was_translated_on_the_way() -> None:
    """F09"""
    talk = Conversation()
    req = talk.active(0, "REQ", primary_local_gid="192.168.7.1")
    talk.another().active(1, "REQ", primary_local_gid="192.168.7.1")
    finding = run(talk).only("F09")  # told once for the pair
    assert (finding.severity, finding.confidence, finding.frames) == ("info", "possible", ((0, req.frame),))
    assert finding.message == "The REQ's path goes from 192.168.7.1, its packet from 10.0.0.1."
    assert finding.evidence == {"source": "10.0.0.1", "destination": "10.0.0.2"}


def test_both_ends_and_lids() -> None:
    """F09"""
    path = {"primary_local_lid": 530, "primary_remote_lid": 700, "primary_subnet_local": 1, "primary_hop_limit": 0}
    finding = run(native(**path)).only("F09")
    assert finding.message == (
        "The REQ's path goes from LID 530, its packet from LID 18 and to LID 700, its packet to LID 12."
    )


@pytest.mark.parametrize(
    "path",
    [
        PRIMARY,
        {},  # both LIDs 0
        PRIMARY | {"primary_local_lid": 19, "primary_remote_lid": 15},  # LMC
        PRIMARY | {"primary_subnet_local": 0, "primary_local_lid": 900, "primary_remote_lid": 0xFFFF},  # routed
    ],
)
def test_the_lids_of_the_packet_and_their_neighbours(path: dict[str, Any]) -> None:
    """F09"""
    assert "F09" not in run(native(**path)).codes


def test_another_prefix_of_the_same_port() -> None:
    """F09"""
    talk = Conversation(Host("fe80::1"), Host("fe80::2"))
    talk.active(0, "REQ", primary_local_gid=gid_bytes("fd77::1"))
    assert "F09" not in run(talk).codes
