"""The judge: whom it asks, in what order it tells, and how little it remembers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from conversation import FIRST_DAY, SECOND, Conversation, Host

from ibcmtool import rules
from ibcmtool.connections.tracker import Tracker
from ibcmtool.model import CmMessage, Event, Finding
from ibcmtool.rules import CATALOGUE, Judge, Rule, cross, drep
from ibcmtool.rules.catalogue import RuleFunction, StepTest, Verdict
from ibcmtool.rules.occasions import again, anew, first, over
from ibcmtool.rules.view import View

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
# They remember what ordinary messages say, so they are asked each time; X07 looks at the end of each connection.
ALWAYS_ASKED = {"C05", "S13", "X02", "X03", "X07", "T10"}


def tell(judge: Judge, talk: Conversation, until: float) -> list[Finding]:
    findings: list[Finding] = []
    tracker = Tracker(lambda event: findings.extend(judge.judge(event)))
    for item in sorted(talk.capture, key=lambda item: item.time):
        if isinstance(item, CmMessage):
            tracker.feed(item)
        else:
            tracker.feed_data(item)
    tracker.advance(FIRST_DAY + int(until * SECOND))
    tracker.finish()
    return findings


def listening(asked: set[str]) -> list[Rule]:
    """The catalogue, with a note of each rule that is asked."""

    def noting(rule: Rule) -> RuleFunction:
        def judge(event: Event, view: View) -> Iterable[Verdict]:
            asked.add(rule.code)
            return rule.judge(event, view)

        return judge

    return [replace(rule, judge=noting(rule)) for rule in CATALOGUE.values()]


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
    assert tell(Judge(rules=listening(asked)), talk, until=1000) == []
    assert asked <= ALWAYS_ASKED


def test_a_qpn_in_use_concerns_its_rules() -> None:
    talk = Conversation(Host(A), Host(B))
    talk.establish(0, qpn=0x11)
    talk.another(active_qpn=0x11).establish(1)
    asked: set[str] = set()
    tell(Judge(rules=listening(asked)), talk, until=2)
    assert asked >= {"S01", "S05", "T01", "T02", "T03", "T07", "T08", "X01"}
    assert not asked & {"R01", "R02", "R03", "R08", "H08"}


def test_findings_of_one_event_come_in_the_order_of_the_catalogue() -> None:
    """Whatever test let each rule pass."""

    def speak(event: Event, view: View) -> Iterable[Verdict]:
        yield Verdict("Spoken.", (event.connection.steps[-1],), {"spoken": True})

    def true(connection: object, step: object) -> bool:
        return True

    def speaking(code: str, when: StepTest | None) -> Rule:
        return replace(CATALOGUE[code], judge=speak, on=("REQ",), history=None, when=when)

    judge = Judge(rules=[speaking("R01", true), speaking("R02", None), speaking("R03", true)])
    talk = Conversation()
    talk.active(0, "REQ")
    assert [finding.code for finding in tell(judge, talk, until=1)] == ["R01", "R02", "R03"]


def test_history_tests() -> None:
    assert first("Q") and first("QpU") and not first("Q^Q")
    assert again("Q^Q") and not again("Q^Qp")
    assert anew("QQ") and anew("Q^QpQ") and not anew("Q") and not anew("Q^Q") and not anew("Qq")
    assert over("QpUDe") and over("Qj") and not over("QpUD")


def test_endless_histories_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_HISTORIES", 4)
    judge = Judge()
    talk = Conversation()
    talk.repeat(talk.active(0, "REQ"), every=6.2, count=100)
    tell(judge, talk, until=1000)
    assert 1 <= len(judge._agendas["REQ"]) <= 4
    assert max(len(history) for history in judge._agendas["REQ"]) <= rules.LONGEST_HISTORY


def test_memory_does_not_grow_with_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bounded by the number of hosts, or by a constant."""
    monkeypatch.setattr(cross, "MOST_IDS", 32)
    monkeypatch.setattr(drep, "TOLD_KEPT", 16)

    def remembered(lives: int) -> dict[str, int]:
        judge, talk = Judge(), Conversation(Host(A), Host(B))
        for number in range(lives):
            life = talk.another(active=Host(C) if number % 2 else None)
            life.establish(10 * number)
            if number % 3:
                life.close(10 * number + 1)
            else:
                life.repeat(life.active(10 * number + 1, "DREQ"), every=6.2, count=2)
        tell(judge, talk, until=lives * 10 + 1000)
        return {code: len(memory) for code, memory in judge.view.memory.items()} | {"heard": len(judge.view.heard)}

    few, many = remembered(60), remembered(180)
    assert few.pop("X02") <= 32
    assert many.pop("X02") <= 32
    assert few.pop("R07") == many.pop("R07") == 16
    assert few == many
