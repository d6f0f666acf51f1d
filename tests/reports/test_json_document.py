"""The JSON report: it fits its schema, and carries the values of the records."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import sinks

from ibcmtool.analysis import Analysis
from ibcmtool.packets import Address

SCHEMA = json.loads((files("ibcmtool.reports") / "analysis.schema.json").read_text())


def made(analysis: Analysis) -> Any:
    return json.loads(sinks.report("analyze", "json", analysis))


def check(value: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(value)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_scene_fits_the_schema(scene: Analysis) -> None:
    check(made(scene))


@pytest.mark.parametrize(
    "break_it",
    [
        lambda value: value["connections"][0].update(opened=1770804001),
        lambda value: value["connections"][0]["active"].update(qpn=17),
        lambda value: value["connections"][0]["messages"][0].pop("fields"),
        lambda value: value["findings"][0].update(surprise=1),
        lambda value: value["summary"]["by_code"].update(S02="one"),
    ],
)
def test_the_schema_notices(records: SimpleNamespace, break_it: Any) -> None:
    value = made(records.stale_S02())
    break_it(value)
    with pytest.raises(jsonschema.ValidationError):
        check(value)


def test_a_connection(records: SimpleNamespace) -> None:
    value = made(records.clean_close())
    conn = value["connections"][0]
    assert value["schema"] == "ibcmtool.analysis/1"
    assert value["policy"] == "relaxed"
    assert {name: conn[name] for name in ("id", "outcome", "history", "transport", "service")} == {
        "id": 1,
        "outcome": "closed",
        "history": "QpUDe",
        "transport": "RoCE v2",
        "service": {"id": "0x0000000001061144", "name": "NVMe/RDMA 4420"},
    }
    assert conn["active"] == {
        "name": "10.77.0.2:41234",
        "ca_guid": "5054:00ff:feaa:0002",
        "gid": "10.77.0.2",
        "lid": None,
        "qpn": "0x000011",
        "comm_id": "0xa0f70798",
        "state": "TIMEWAIT",
        "knowledge": "likely",
        "timewait_until": "1770804007.224400000",
        "implementation": None,
    }
    assert [conn[name] for name in ("opened", "established", "closed", "duration")] == [
        "1770804001.000000000",
        "1770804001.031864000",
        "1770804006.200400000",
        "5.200400000",
    ]


def test_messages_and_their_fields(records: SimpleNamespace) -> None:
    messages = made(records.unanswered_REQs())["connections"][0]["messages"]
    assert [message["retransmission_of"] for message in messages] == [None] + [1] * 15
    first = messages[0]
    assert (first["frame"], first["file"], first["type"], first["sender"]) == (1, 0, "REQ", "active")
    assert first["fields"]["local_comm_id"] == "0xa0f70798"
    assert first["fields"]["local_ca_guid"] == "5054:00ff:feaa:0002"
    assert first["fields"]["local_qpn"] == "0x000011"
    assert first["fields"]["starting_psn"] == 0x3A5F12
    assert first["fields"]["primary_local_gid"] == "::"
    assert first["fields"]["private_data"] == ""


def test_an_end_with_a_lid_and_cut_fields(records: SimpleNamespace) -> None:
    life = records.Life()
    life.step(0, "active", "REQ", "REQ_SENT REQ_RCVD", max_cm_retries=None, private_data=b"\x00\x40")
    life.connection.active.address = Address(None, 18)
    life.connection.service_id = None
    value = made(records.analysis(life.connection))
    check(value)
    conn = value["connections"][0]
    assert (conn["active"]["name"], conn["active"]["gid"], conn["active"]["lid"]) == ("LID 18", None, 18)
    assert conn["service"] == {"id": None, "name": "unknown"}
    assert conn["messages"][0]["fields"]["max_cm_retries"] is None
    assert conn["messages"][0]["fields"]["private_data"] == "0040"


def test_a_finding_and_its_numbers(records: SimpleNamespace) -> None:
    value = made(records.stale_S02())["findings"][0]
    assert (value["code"], value["severity"], value["connection"], value["related"]) == ("S02", "warning", 1, [2])
    assert value["frames"] == [{"file": 0, "frame": 7}, {"file": 0, "frame": 8}]
    assert value["evidence"] == {
        "age": "65.883186000",
        "qpn": "0x000011",
        "refused_at": "1770804066.900086000",
    }


def test_the_summary_counts_what_occurs(records: SimpleNamespace) -> None:
    assert made(records.stale_S02())["summary"] == {
        "connections": 2,
        "by_outcome": {"rejected": 1, "stale": 1},
        "by_code": {"S02": 1, "X03": 1},
    }
    assert made(records.empty())["summary"] == {"connections": 0, "by_outcome": {}, "by_code": {}}


def test_the_objects_of_json_lines_are_the_same(records: SimpleNamespace) -> None:
    analysis = records.stale_S02()
    value = made(analysis)
    records = [*analysis.connections, *analysis.findings, *analysis.inputs]
    lines = [json.loads(line) for line in sinks.report("analyze", "jsonl", records).splitlines()]
    connections = [{"kind": "connection", **one} for one in value["connections"]]
    findings = [{"kind": "finding", **one} for one in value["findings"]]
    inputs = [{"kind": "input", **one} for one in value["inputs"]]
    assert lines == [*connections, *findings, *inputs, {"kind": "summary", **value["summary"]}]


def test_real_captures_fit_the_schema(captures: Path) -> None:
    from ibcmtool.engine.files import analyze

    paths = sorted(captures.glob("*.pcap"))
    assert paths
    for path in paths:
        if path.name != "cmtime_500conn.pcap":
            check(made(analyze([str(path)])))
