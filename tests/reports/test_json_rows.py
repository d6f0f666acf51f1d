"""A view as JSON: it fits its schema, and its lines are its objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import sinks

from ibcmtool.analysis import Analysis, By
from ibcmtool.engine.files import stream

SCHEMA = json.loads((files("ibcmtool.reports") / "views.schema.json").read_text())
BYS: tuple[By, ...] = ("pair", "target", "service")


def records_of(analysis: Analysis) -> list[Any]:
    return [*analysis.connections, *analysis.findings, *analysis.inputs]


def made(records: Iterable[Any], by: By) -> Any:
    return json.loads(sinks.report("analyze --by", "json", records, by=by))


def lines_of(records: Iterable[Any], by: By) -> list[Any]:
    return [json.loads(line) for line in sinks.report("analyze --by", "jsonl", records, by=by).splitlines()]


def check(value: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(value)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("by", BYS)
def test_every_scene_fits_the_schema(scene: Analysis, by: By) -> None:
    check(made(records_of(scene), by))


@pytest.mark.parametrize(
    "break_it",
    [
        lambda value: value["rows"][0].update(surprise=1),
        lambda value: value["rows"][0]["by_outcome"].update(stale="one"),
        lambda value: value["rows"][0]["requests"].pop("sent"),
        lambda value: value["rows"][0]["active"].update(name=None),
        lambda value: value.update(by="host"),
    ],
)
def test_the_schema_notices(records: SimpleNamespace, break_it: Any) -> None:
    value = made(records_of(records.stale_S02()), "pair")
    break_it(value)
    with pytest.raises(jsonschema.ValidationError):
        check(value)


def test_a_row(records: SimpleNamespace) -> None:
    value = made(records_of(records.clean_close()), "target")
    assert (value["schema"], value["by"], value["others"]) == ("ibcmtool.views/1", "target", None)
    assert value["summary"] == {"connections": 1, "by_outcome": {"closed": 1}, "by_code": {}}
    (row,) = value["rows"]
    assert row["passive"] == {"name": "10.77.0.1:4420", "gid": "10.77.0.1", "lid": None}
    assert row["service"] == {"id": "0x0000000001061144", "name": "NVMe/RDMA 4420"}
    assert (row["connections"], row["connected"], row["closed_by"]) == (1, 1, {"active": 1})
    assert (row["clients"], row["targets"], row["parties_complete"]) == (1, 1, True)
    reply = {"count": 1, "p50": "0.009747000", "p99": "0.009747000", "max": "0.009747000", "exact": True}
    assert row["reply_after_first_request"] == row["reply_after_last_request"] == reply
    assert row["peak"] == {"second": "1770804001.000000000", "requests": 1}
    assert (row["first"], row["last"]) == ("1770804001.000000000",) * 2


def test_rejects_and_findings(records: SimpleNamespace) -> None:
    (row,) = made(records_of(records.stale_S02()), "pair")["rows"]
    assert row["by_outcome"] == {"rejected": 1, "stale": 1}
    assert row["rejects"] == [{"number": 1, "sidr": False, "reason": 10, "words": None, "by": "passive"}]
    assert row["by_code"] == {"S02": 2, "X03": 1}  # S02 concerns two of its connections
    assert row["worst"] == "warning"
    (row,) = made(records_of(records.SRP_reject()), "service")["rows"]
    assert row["rejects"][0]["words"] == "SRP: RDMA channel limit reached for this initiator"


@pytest.mark.parametrize("by", BYS)
def test_lines_are_the_objects_of_the_document(captures: Path, by: By) -> None:
    records = list(stream([str(captures / "stale_req_dup_dreq_edge.pcap")]))
    lines = lines_of(records, by)
    kinds = [line.pop("kind") for line in lines]
    whole = made(records, by)
    assert kinds == ["input", *[by] * len(whole["rows"]), "summary"]
    assert lines == [*whole["inputs"], *whole["rows"], whole["summary"]]


@pytest.mark.parametrize("by", BYS)
def test_real_captures_fit_the_schema(captures: Path, by: By) -> None:
    for path in sorted(captures.glob("*.pcap")):
        check(made(stream([str(path)]), by))


def test_others(records: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibcmtool.views.rows.MOST_ROWS", 1)
    crowd = records_of(records.crowd(20, 2))
    value = made(crowd, "pair")
    check(value)
    assert [row["connections"] for row in value["rows"]] == [7]
    assert value["others"]["connections"] == 13
    assert [line["kind"] for line in lines_of(crowd, "pair")] == ["input", "pair", "others", "summary"]
