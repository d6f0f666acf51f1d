"""Grouped attempts in the ordinary report and in the JSON summary."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import sinks
from conversation import FIRST_DAY, SECOND, Conversation, Host, Result, attempts_of, run

from ibcmtool.analysis import Analysis, InputInfo
from ibcmtool.connections.release import Retry
from ibcmtool.reports import attempts
from ibcmtool.reports.calendar import Calendar

UTC = Calendar("utc")
NVME = 0x0000000001061144
TO_TARGET = bytes(12) + bytes((10, 0, 0, 2))  # the end of an RDMA IP CM header, behind port and address of the source


def retry_loop(attempts_made: int = 5, *, dreq: bool = True) -> Conversation:
    """A host comes back after a crash and asks again and again with the QPN of its old connection."""
    old = Conversation(active_qpn=0x11)
    old.establish(0, primary_local_ack_timeout=18)
    for at in range(attempts_made):
        new = old.another(active_qpn=0x11)
        new.active(60 + at * 0.2, "REQ")
        new.passive(60.001 + at * 0.2, "REJ", reason=10)
    if dreq:
        old.repeat(old.passive(60.0015, "DREQ"), every=4.3, count=1)
        old.active(64.5, "DREP")
    return old


def storm(number: int = 240, clients: int = 12, *, named: bool = False, reason: int = 8, **rej: Any) -> Conversation:
    hosts = [Host(f"10.0.1.{at + 1}", guid=0x1000 + at, first_comm_id=7 + at) for at in range(clients)]
    talk = Conversation(service_id=0x7777)
    talk.establish(-1)
    for at in range(number):
        client = hosts[at % clients]
        one = talk.another(client, service_id=NVME)
        header = bytes.fromhex("00400400") + bytes(12) + client.gid[12:] + TO_TARGET
        one.active(at * 3.2 / number, "REQ", private_data=header if named else b"")
        one.passive(at * 3.2 / number + 0.001, "REJ", reason=reason, **rej)
    return talk


def analysis(result: Result) -> Analysis:
    return Analysis("relaxed", [InputInfo("capture.pcap")], result.connections, result.findings)


def report(screen: Any, talk: Conversation, *, everything: bool = False, width: int | None = None) -> list[str]:
    made = screen(width)
    value = analysis(run(talk, until=400))
    sinks.report("analyze", "text", value, console=made.console, everything=everything)
    return made.lines


def squeezed(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_a_retry_loop_is_one_row(screen: Any) -> None:
    lines = report(screen, retry_loop())
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == ["1", "2-6"]
    assert rows[1][1:9] == ["10.0.0.1", "→", "10.0.0.2", "RDMA", "TCP", "7174", "rejected", "10"]
    assert rows[1][9:12] == ["Qj", "22:14:20.000", "-"]
    assert rows[1][12:14] == ["801", "ms"]
    # Closed by the DREP at 60 + 4.5 s; the longest timewait for a Local ACK Timeout of 18 is 2.147 s.
    assert (
        "5 attempts in 801 ms, all REJ 10 stale connection: the receiver still holds a connection with this QPN; "
        "earliest safe retry 22:14:26.648 UTC"
    ) in squeezed(lines)


def test_all_lists_each_attempt(screen: Any) -> None:
    lines = report(screen, retry_loop(), everything=True)
    assert [line.split()[0] for line in lines if line.strip()[:1].isdigit()] == ["1", "2", "3", "4", "5", "6"]
    assert "attempts in" not in squeezed(lines)


def test_findings_of_a_group_are_told_once(screen: Any) -> None:
    talk = retry_loop(8)
    codes = [finding.code for finding in run(talk, until=400).findings]
    assert codes.count("S02") == 8
    folded, whole = report(screen, talk), report(screen, talk, everything=True)
    told = sum("S02 stale-refused" in line for line in folded)
    assert told < sum("S02 stale-refused" in line for line in whole) == 8
    also = next(line for line in folded if line.startswith("  also"))
    assert f"{8 - told} more attempts alike: connections" in also


def test_a_single_refusal_tells_the_retry_time_too(screen: Any) -> None:
    assert "with this QPN; earliest safe retry 22:14:26.648 UTC" in squeezed(report(screen, retry_loop(1)))


def test_a_storm(screen: Any) -> None:
    words = squeezed(report(screen, storm()))
    assert "2-241 12 clients → 10.0.0.2 NVMe/RDMA 4420 rejected 8 Qj" in words
    assert (
        "240 attempts of 12 clients in 3.19 s, all REJ 8 invalid service ID: nothing listens on 10.0.0.2, NVMe/RDMA "
        "4420; first 22:13:20.000, last 22:13:23.186"
    ) in words
    assert "240 of 241 connections shown, problems first" in words


def test_a_storm_at_a_port(screen: Any) -> None:
    (group,) = attempts_of(run(storm(6, 2, named=True)).connections)
    assert "nothing listens on port 4420 of 10.0.0.2; first" in attempts.sentence(group, UTC)


def test_a_consumer_reject_in_the_words_of_its_protocol() -> None:
    (group,) = attempts_of(run(storm(4, 2, reason=28, private_data=bytes.fromhex("00000400"))).connections)
    assert "4 attempts of 2 clients in" in attempts.sentence(group, UTC)
    assert "all REJ 28 consumer reject: NVMe: invalid host send queue size (HSQSIZE); first" in attempts.sentence(
        group, UTC
    )


def test_attempts_without_an_answer() -> None:
    talk = Conversation()
    for at in range(3):
        one = talk.another()
        one.repeat(one.active(at, "REQ"), every=6.4, count=15)
    (group,) = attempts_of(run(talk, until=400).connections)
    sentence = attempts.sentence(group, UTC)
    assert ", all timed out: no answer of 10.0.0.2, RDMA TCP 7174 to 48 REQs (45 of them retransmissions)" in sentence


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(FIRST_DAY + 1, "closed", (3,)), "earliest safe retry 22:13:20.001 UTC"),
        (Retry(FIRST_DAY, "closed", (3,), assumed=True), "earliest safe retry about 22:13:20.000 UTC"),
        (Retry(FIRST_DAY + 7200 * SECOND, "closed", (3,)), "earliest safe retry 2023-11-15 00:13:20.000 UTC"),
        (
            Retry(FIRST_DAY, "retrying", (3,)),
            "earliest safe retry 22:13:20.000 UTC, if the DREQ on connection 3 stays unanswered to the last",
        ),
        (
            Retry(FIRST_DAY, "exhausted", (3, 4)),
            "earliest safe retry 22:13:20.000 UTC, as the DREQ on connections 3, 4 was never answered",
        ),
        (Retry(None, "no DREQ", (3,)), "earliest safe retry unknown: no DREQ on connection 3 was seen"),
        (Retry(None, "unknown"), "earliest safe retry unknown: the old connection is not in the capture"),
    ],
)
def test_the_earliest_safe_retry(retry: Retry, expected: str) -> None:
    assert attempts.retry_words(retry, UTC, FIRST_DAY) == expected


def summaries(talk: Conversation) -> tuple[Any, Any]:
    """Of the JSON document and of the JSON lines."""
    value = analysis(run(talk, until=400))
    document = json.loads(sinks.report("analyze", "json", value))
    jsonschema.Draft202012Validator(
        json.loads((files("ibcmtool.reports") / "analysis.schema.json").read_text())
    ).validate(document)
    last = json.loads(sinks.report("analyze", "jsonl", value).splitlines()[-1])
    del last["kind"]
    return document["summary"], last


def test_the_summary_of_json_has_the_groups() -> None:
    document, line = summaries(retry_loop())
    assert document == line
    assert document["attempts"] == [
        {
            "attempts": 5,
            "connections": [2, 3, 4, 5, 6],
            "clients": 1,
            "active": "10.0.0.1",
            "passive": "10.0.0.2",
            "service": {"id": "0x0000000001061c06", "name": "RDMA TCP 7174"},
            "outcome": "rejected",
            "reason": 10,
            "words": None,
            "first": "1700000060.000000000",
            "last": "1700000060.800000000",
            "requests": {"sent": 5, "retransmissions": 0},
            "earliest_safe_retry": "1700000066.647483648",
            "retry_basis": "closed",
        }
    ]


def test_a_summary_without_groups_does_not_speak_of_them() -> None:
    document, line = summaries(retry_loop(2))
    assert document == line
    assert "attempts" not in document


def test_unknown_retry_times_are_null() -> None:
    (group,) = summaries(retry_loop(dreq=False))[0]["attempts"]
    assert (group["earliest_safe_retry"], group["retry_basis"]) == (None, "no DREQ")


@pytest.mark.parametrize(
    ("begins", "outcome", "words"), [(0, "half_open", "half open"), (50, "partial", "seen only in part")]
)
def test_dreqs_into_a_dead_link(begins: float, outcome: str, words: str) -> None:
    """Whether the capture has the beginnings of the connections or not."""
    first = Conversation()
    talks = [first, first.another(), first.another()]
    for talk in talks:
        talk.establish(0)
        talk.repeat(talk.active(90, "DREQ"), every=4.6, count=15)
    first.capture[:] = [item for item in first.capture if item.time >= FIRST_DAY + begins * SECOND]
    (group,) = attempts_of(run(first, until=300).connections)
    assert attempts.sentence(group, UTC).startswith(
        f"3 connections in 69 s, all {words}: 48 DREQs (45 of them retransmissions) of the active side, none answered;"
        " first 22:14:50.000"
    )
    (written,) = summaries(first)[0]["attempts"]
    assert (written["outcome"], written["dreqs"]) == (outcome, {"sent": 48, "retransmissions": 45})
