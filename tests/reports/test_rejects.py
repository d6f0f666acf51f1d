"""Why a connection was refused, in one sentence: a program, the kernel for it, or one that ended."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, run

from dissectors.private_data import RDS_CM, RDS_REJ
from ibcmtool.reports import rejects
from ibcmtool.views.filters import concerns

RDS = 0x00000000010648CA
NVME = 0x0000000001061144


def sentence(service_id: int = 0x0000000001061C06, *, rep: bool = False, killed: bool = False, **rej: Any) -> str:
    talk = Conversation(service_id=service_id)
    other = talk.another(service_id=service_id)
    other.establish(0)
    talk.active(1, "REQ")
    if rep:
        talk.passive(1.01, "REP")
    if killed:
        other.passive(1.0199, "DREQ")
    talk.passive(1.02, "REJ", **rej)
    result = run(talk)
    (refused,) = (conn for conn in result.connections if conn.outcome == "rejected")
    return rejects.sentence(refused, False, [one for one in result.findings if refused.id in concerns(one)])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reason": 28, "private_data": b"quota exceeded"}, '"quota exceeded"'),
        ({"reason": 28}, rejects.NO_REASON),
        (
            {"reason": 28, "service_id": NVME},
            "no reason, which NVMe always gives: the kernel refused for it, or it ended",
        ),
        ({"reason": 28, "service_id": NVME, "private_data": b"\0\0\4\0"}, "NVMe: invalid host send queue size"),
        ({"reason": 28, "service_id": NVME, "killed": True}, rejects.ENDED),
        ({"reason": 28, "rep": True}, "its program closed the connection, or ended, before it was established"),
        ({"reason": 26, "additional_reject_info": b"\x40"}, "acceptable path MTU 2048 bytes"),
        ({"reason": 8}, "nobody listens for RDMA TCP 7174"),
    ],
)
def test_who_refused_and_why(given: dict[str, Any], says: str) -> None:
    words = sentence(**given)
    assert words.startswith(f"REJ {given['reason']} ")
    assert f"by the passive side, frame {6 if given.get('rep') or given.get('killed') else 5}: " in words
    assert says in words


def test_a_version_step() -> None:
    """H25: RDS asks with 4.1, then with 3.1; a requester that insists was refused."""
    for again, says in ((RDS_CM(major_version=3), rejects.NEGOTIATED), (RDS_CM(), "RDS: INCOMPAT")):
        talk = Conversation(service_id=RDS)
        talk.active(0, "REQ", private_data=bytes(RDS_CM()))
        talk.passive(0.01, "REJ", reason=28, private_data=bytes(RDS_REJ()))
        talk.another(service_id=RDS).establish(0.02, private_data=bytes(again))
        result = run(talk)
        found = result.of("H25")
        assert says in rejects.sentence(result.connections[0], False, found)
        assert bool(found) is (says == rejects.NEGOTIATED)
        for finding in found:
            assert (finding.severity, finding.confidence, finding.connection) == ("info", "probable", 1)
            assert finding.message == (
                "RDS 18634: 10.0.0.2 refused version 4.1, and 10.0.0.1 asked again 10 ms later with version 3.1"
                " (frame 3). So versions are negotiated: no failure."
            )


def test_a_sidr_request_that_is_refused() -> None:
    talk = Conversation()
    talk.active(0, "SIDR_REQ")
    talk.passive(0.01, "SIDR_REP", status=1, qpn=0)
    (conn,) = run(talk).connections
    assert rejects.sentence(conn, False) == "SIDR status 1 service ID not supported, frame 2"


def test_what_was_not_refused() -> None:
    talk = Conversation()
    talk.establish(0)
    (conn,) = run(talk).connections
    assert rejects.sentence(conn, False) == ""
