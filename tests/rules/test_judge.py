"""The judge: whom it asks, in what order it tells, and how little it remembers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host, Records, inputs_of

import ibcmtool.rules.judge as judge_module
from ibcmtool.analysis import Finding
from ibcmtool.engine.engine import Engine
from ibcmtool.engine.files import analyze
from ibcmtool.evidence import confidence, proved, unopposed, weakened
from ibcmtool.model import Connection, Step
from ibcmtool.rules import CATALOGUE, Judge, Rule
from ibcmtool.rules.api import Need, Once, StepJudge, Verdict
from ibcmtool.rules.conditions import again, anew, first, matches, over
from ibcmtool.rules.context import Context
from ibcmtool.rules.facts import comm_ids

CAPTURES = sorted((Path(__file__).resolve().parents[2] / "captures").glob("*/*.pcap*"))
A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
# They remember what ordinary messages say, so they are asked each time; X07 looks at the end of each connection.
ALWAYS_ASKED = {"C05", "S13", "X02", "X14", "X07", "T10"}


def judged(talk: Conversation, until: float, rules: Iterable[Rule] | None = None) -> tuple[list[Finding], Judge]:
    """What these rules find in it, and the judge that asked them."""
    records = Records()
    engine = Engine(inputs_of(talk.capture), records, rules=rules)
    for item in sorted(talk.capture, key=lambda item: item.time):
        engine.take(item)
    engine.advance(FIRST_DAY + int(until * SECOND))
    engine.finish()
    return records.findings, engine.judge


def listening(asked: set[str]) -> list[Rule]:
    """The catalogue, with a note of each rule that is asked at a message."""

    def noting(code: str, judge: StepJudge) -> StepJudge:
        def noted(connection: Connection, step: Step, context: Context) -> Iterable[Verdict]:
            asked.add(code)
            return judge(connection, step, context)

        return noted

    return [
        replace(rule, steps=[(kind, noting(rule.code, judge), conditions) for kind, judge, conditions in rule.steps])
        for rule in CATALOGUE.values()
    ]


def test_ordinary_lives_concern_few_rules() -> None:
    """Each rule that is asked at ordinary messages costs a second on some millions of them."""
    talk = Conversation(Host(A), Host(B))
    talk.establish(0)
    talk.close(1)
    for number in range(1, 10):
        life = talk.another()
        life.establish(10 * number)
        life.close(10 * number + 1, by="passive" if number % 2 else "active")
    asked: set[str] = set()
    findings, _ = judged(talk, 1000, listening(asked))
    assert findings == []
    assert asked <= ALWAYS_ASKED


def test_a_qpn_in_use_concerns_its_rules() -> None:
    talk = Conversation(Host(A), Host(B))
    talk.establish(0, qpn=0x11)
    talk.another(active_qpn=0x11).establish(1)
    asked: set[str] = set()
    judged(talk, 2, listening(asked))
    assert asked >= {"S01", "S05", "T01", "T02", "T03", "T07", "T08", "X01"}
    assert not asked & {"R01", "R02", "R03", "R08", "H08"}


def made(code: str, **of_step: Any) -> Rule:
    """A rule of that code that speaks at each REQ."""
    entry = replace(CATALOGUE[code], steps=[], events=[], ends=[])

    @entry.on_step("REQ", **of_step)
    def speak(connection: Connection, step: Step, context: Context) -> Iterable[Verdict]:
        yield Verdict("Spoken.", {"spoken": True}, subject=connection.active.qpn)

    return entry


def test_findings_of_one_event_come_in_the_order_of_their_codes() -> None:
    """Whatever test let each rule pass."""
    speakers = [made("R03", when=lambda connection, step: True), made("R01", history=first), made("R02")]
    talk = Conversation()
    talk.active(0, "REQ")
    findings, _ = judged(talk, 1, speakers)
    assert [finding.code for finding in findings] == ["R01", "R02", "R03"]


def test_rules_with_the_same_test_share_one_look() -> None:
    """And their findings stand where their codes belong, whatever else speaks."""
    looks: list[Step] = []

    def look(connection: Connection, step: Step) -> bool:
        looks.append(step)
        return True

    talk = Conversation()
    talk.active(0, "REQ")
    findings, _ = judged(talk, 1, [made("R03", when=look), made("R01", when=look), made("R02")])
    assert [finding.code for finding in findings] == ["R01", "R02", "R03"]
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("once", "told"),
    [(None, [1, 1, 2, 3]), ("connection", [1, 2, 3]), ("subject", [1, 2]), ("port", [1, 3]), ("capture", [1])],
)
def test_once(once: Once | None, told: list[int]) -> None:
    """For each sender, connection, or whatever else it speaks of."""
    talk = Conversation(Host(A), Host(B))
    talk.again(1, talk.active(0, "REQ", qpn=7))
    talk.another().active(2, "REQ", qpn=8)
    talk.another(active=Host(C)).active(3, "REQ", qpn=8)
    findings, _ = judged(talk, 4, [made("R01", once=once)])
    assert [finding.connection for finding in findings] == told


@pytest.mark.parametrize(
    ("need", "message", "asked"),
    [("intact", {}, True), ("intact", {"icrc_ok": False}, False), ("reply", {}, False), ("request", {}, True)],
)
def test_needs(need: Need, message: dict[str, Any], asked: bool) -> None:
    talk = Conversation()
    talk.active(0, "REQ", **message)
    findings, _ = judged(talk, 1, [made("R01", needs=(need,))])
    assert len(findings) == asked


def test_confidence_follows_from_the_grounds() -> None:
    assert confidence([]) == confidence([proved("order")]) == "certain"
    assert confidence([proved("order"), unopposed("complete")]) == "probable"
    assert confidence([unopposed("order"), weakened("timer")]) == "possible"


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_no_rule_depends_on_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of those that speak here, all others say what they said."""
    everything = analyze([str(path)]).findings
    for code in {finding.code for finding in everything}:
        with monkeypatch.context() as without:
            without.delitem(CATALOGUE, code)
            rest = analyze([str(path)]).findings
        assert rest == [finding for finding in everything if finding.code != code]


def test_history_tests() -> None:
    assert first("Q") and first("QpU") and not first("Q^Q")
    assert again("Q^Q") and not again("Q^Qp")
    assert anew("QQ") and anew("Q^QpQ") and not anew("Q") and not anew("Q^Q") and not anew("Qq")
    assert over("QpUDe") and over("Qj") and not over("QpUD")


def test_a_history_matches_as_a_whole() -> None:
    assert matches("Qp")("Qp") and not matches("Qp")("QpU") and not matches("Qp")("qQp")


@pytest.mark.parametrize("letters", ["Q", "^Q", "p", "^p", "U", "^U", "m", "M", "j", "J", "e", "E", "Qd"])
def test_no_endless_history_takes_long(letters: str) -> None:
    """A test that looks at it once for each letter would take minutes."""
    tests = {conditions.history for rule in CATALOGUE.values() for *_, conditions in (*rule.steps, *rule.events)}
    begin = perf_counter()
    for history in (letters * 50_000, "Q" + letters * 50_000 + "D", letters * 50_000 + "^J"):
        for test in filter(None, tests):
            test(history)
    assert perf_counter() - begin < 10


def test_endless_histories_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_module, "MOST_HISTORIES", 4)
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ"), every=6.2, count=100)
    _, judge = judged(talk, 1000)
    assert 1 <= len(judge._plans["REQ"]) <= 4
    assert max(len(history) for history in judge._plans["REQ"]) <= judge_module.LONGEST_HISTORY


def test_memory_does_not_grow_with_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bounded by the number of hosts, or by a constant."""
    monkeypatch.setattr(comm_ids, "MOST_IDS", 32)
    monkeypatch.setattr(judge_module, "MOST_SUBJECTS", 16)

    def remembered(lives: int) -> dict[str, int]:
        talk, third = Conversation(Host(A), Host(B)), Host(C)
        for number in range(lives):
            life = talk.another(active=third if number % 2 else None)
            life.establish(10 * number)
            if number % 3:
                life.close(10 * number + 1)
            else:
                life.repeat(life.active(10 * number + 1, "DREQ"), every=6.2, count=2)
        _, judge = judged(talk, lives * 10 + 1000)
        kept = {code: len(memory) for code, memory in judge.context.memory.items()}
        spoken_of = {code: len(subjects) for code, subjects in judge._subjects.items()}
        return kept | spoken_of | {"heard": len(judge.context.ports.heard), "ids": len(judge.context.comm_ids._holders)}

    few, many = remembered(60), remembered(180)
    assert few.pop("ids") <= 32
    assert many.pop("ids") <= 32
    assert few.pop("R07") == many.pop("R07") == 16
    assert few == many


@pytest.mark.parametrize("rule", CATALOGUE.values(), ids=lambda rule: rule.code)
def test_texts_are_sentences(rule: Rule) -> None:
    assert all(text.endswith(".") for text in (rule.explanation, rule.false_positives, rule.advice))
