"""The telling fields of messages."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typed import typed

from ibcmtool.reports import message_summary
from ibcmtool.wire.decode import field_names


def message(records: SimpleNamespace, type_: str, **values: Any) -> Any:
    return records.Life().step(0, "active", type_, "IDLE IDLE", **values).message


def test_req_alone_tells_service_and_timers(records: SimpleNamespace) -> None:
    assert message_summary.line(message_summary.telling_fields(message(records, "REQ"))) == (
        "NVMe/RDMA 4420, QPN 0x000011, PSN 0x3a5f12, CM response timeouts 4.29 s, Max CM Retries 15, "
        "Local ACK Timeout 2.15 s, MTU 1024"
    )


def test_req_in_its_connection_tells_what_the_header_does_not(records: SimpleNamespace) -> None:
    life = records.Life()
    step = life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD", transport_service_type=1)
    assert (
        message_summary.line(message_summary.telling_fields(step.message, life.connection))
        == "QPN 0x000011, PSN 0x3a5f12, UC"
    )


def test_unequal_timeouts_name_their_side(records: SimpleNamespace) -> None:
    pairs = message_summary.telling_fields(message(records, "REQ", local_cm_response_timeout=22))
    assert ("CM response timeouts", "4.29 s remote, 17.2 s local") in pairs


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("REP", {}, "QPN 0x000011, PSN 0x00beef, Target ACK Delay 134 ms"),
        ("REP", {"local_qpn": 0, "local_eecn": 0x77}, "QPN 0x000077, PSN 0x00beef, Target ACK Delay 134 ms"),
        ("REJ", {"reason": 10}, "reason 10 stale connection"),
        ("REJ", {"reason": 34}, "reason 34 unknown reason"),
        (
            "REJ",
            {"reason": 4, "reject_info_length": 8, "additional_reject_info": bytes.fromhex("505400fffeaa0001")},
            "reason 4 timeout, CA GUID of the sender 5054:00ff:feaa:0001",
        ),
        ("MRA", {"message_mraed": 1, "service_timeout": 21}, "for the REP, service timeout 8.59 s"),
        ("DREQ", {"remote_qpn": 0x12}, "remote QPN 0x000012"),
        ("SIDR_REQ", {"request_id": 7, "service_id": 0x1111C06}, "RDMA UDP 7174, request 0x00000007"),
        (
            "SIDR_REP",
            {"qpn": 0x1C, "q_key": 0x1234567, "service_id": 0x1111C06},
            "RDMA UDP 7174, QPN 0x00001c, Q_Key 0x01234567",
        ),
        ("SIDR_REP", {"status": 1, "service_id": None}, "status 1 service ID not supported"),
        ("RTU", {}, ""),
        ("DREP", {}, ""),
    ],
)
def test_each_type(records: SimpleNamespace, type_: str, values: dict[str, Any], expected: str) -> None:
    assert message_summary.line(message_summary.telling_fields(message(records, type_, **values))) == expected


ALL_TYPES = [
    "REQ",
    "MRA",
    "REJ",
    "REP",
    "RTU",
    "DREQ",
    "DREP",
    "SIDR_REQ",
    "SIDR_REP",
    "LAP",
    "APR",
    "SAP",
    "SPR",
    "ClassPortInfo",
]


@pytest.mark.parametrize("type_", ALL_TYPES)
@pytest.mark.parametrize("value", [None, 0, 255])
def test_cut_and_odd_messages_tell_what_they_have(records: SimpleNamespace, type_: str, value: int | None) -> None:
    names = field_names(type_)
    bytes_like = ("gid", "private_data", "info", "data")
    given = {name: None if name.endswith(bytes_like) else value for name in names}
    made = replace(message(records, "RTU"), type=type_, fields=typed(type_, **given))
    line = message_summary.line(message_summary.telling_fields(made))
    assert "None" not in line
    if value is None:
        assert line == ""
