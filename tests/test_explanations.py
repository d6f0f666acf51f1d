"""What `explain` knows, against the tables that say what there is to know."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import get_args

import pytest

from dissectors.cm import AP_STATUSES, REJ_REASONS, SIDR_STATUSES
from ibcmtool import explanations
from ibcmtool.explanations import rejects, states, statuses
from ibcmtool.model import Outcome, State
from ibcmtool.rules import CATALOGUE


def titles(found: list[explanations.Explanation]) -> list[tuple[str, str]]:
    return [(entry.topic, entry.kind) for entry in found]


def test_every_code_that_the_layers_name_is_explained() -> None:
    assert rejects.REJECTS.keys() == REJ_REASONS.keys()
    assert statuses.APR.keys() == AP_STATUSES.keys()
    assert statuses.SIDR.keys() == SIDR_STATUSES.keys()


def test_every_state_and_outcome_is_explained() -> None:
    explained = [entry.topic for entry in states.EXPLANATIONS]
    assert sorted(explained) == sorted((*get_args(State), *get_args(Outcome)))


def test_states_speak_only_of_states_that_exist() -> None:
    named = {"REJ", "REP", "REQ", "RTU", "MRA", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LISTEN", "QPN", "CM", "IBA"}
    for entry in states.EXPLANATIONS:
        for _, text in entry.sections:
            spoken = {word.strip(".,:;()'`") for word in text.split()}
            assert {word for word in spoken if "_" in word and word.isupper()} <= {*get_args(State), *named}


@pytest.mark.parametrize("code", CATALOGUE)
def test_a_finding_is_explained_by_its_rule(code: str) -> None:
    rule = CATALOGUE[code]
    for topic in (code, code.lower(), rule.name):
        [entry] = [one for one in explanations.find(topic) if one.kind == "finding"]
        told = dict(entry.sections)
        assert entry.title == rule.title
        assert told["Meaning"] == rule.explanation
        assert told["What to do"] == rule.advice
        assert told["False positives"] == rule.false_positives
        assert told["Rests on"] == rule.clause
        assert told["Severity"] == rule.severity


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("rej:10", [("rej:10", "REJ reason")]),
        ("REJ 10", [("rej:10", "REJ reason")]),
        ("rej:0x0a", [("rej:10", "REJ reason")]),
        ("rej-10", [("rej:10", "REJ reason")]),
        ("apr:4", [("apr:4", "APR status")]),
        ("Sidr:1", [("sidr:1", "SIDR status")]),
        ("req-sent", [("REQ_SENT", "state")]),
        ("half open", [("S11", "finding"), ("half_open", "outcome"), ("half-open", "term")]),
        ("stale", [("stale", "outcome"), ("stale", "term")]),
        ("TimeWait", [("TIMEWAIT", "state"), ("timewait", "term")]),
        ("dmin", [("Dmin", "term")]),
        ("rej:34", []),
        ("rej:ten", []),
        ("", []),
    ],
)
def test_find(topic: str, found: list[tuple[str, str]]) -> None:
    assert titles(explanations.find(topic)) == found


def test_groups() -> None:
    assert [entry.topic for entry in explanations.group("all")] == sorted(CATALOGUE)
    assert [entry.topic for entry in explanations.group("REJ")] == [f"rej:{reason}" for reason in rejects.REJECTS]
    assert len(explanations.group("states")) == len(get_args(State))
    assert explanations.group("rej:10") == []


@pytest.mark.parametrize(
    ("topic", "meant"), [("tmewait", "timewait"), ("s2", "S02"), ("rej:100", "rej:10"), ("ESTABLISH", "established")]
)
def test_near_misses(topic: str, meant: str) -> None:
    assert explanations.find(topic) == []
    assert meant in explanations.similar(topic)


def test_nothing_is_near_nonsense() -> None:
    assert explanations.similar("xyzzy") == []


def test_every_topic_can_be_found() -> None:
    for topic in explanations.topics():
        assert explanations.find(topic), topic


def test_texts_use_the_words_of_an_engineer() -> None:
    """What is not reported is not "silent", and what is, is not "told"; nothing drops every host as a first advice."""
    for entry in [*explanations.TABLES, *explanations.group("all")]:
        for section, text in entry.sections:
            assert not re.search(r"\b[Tt]old once\b|\bis told by\b|\bare not told\b|\bSilent\b|: silent\b", text), (
                entry.topic
            )
            for sentence in text.split(". ") if section == "What to do" else ():
                if "restart" in sentence.lower():
                    assert "drops every host" in sentence, entry.topic


def test_empty_refusals_and_stale_ones_say_what_linux_does() -> None:
    """REJ 10 holds until the DREQ is answered or given up; REJ 12 is about the P_Key, too; 28 is often the kernel's."""
    texts = {
        number: " ".join(text for _, text in explanations.find(f"rej:{number}")[0].sections) for number in (10, 12, 28)
    }
    assert "not free the QPN when it is sent" in texts[10]
    assert "P_Key" in texts[12]
    assert "two ports in one subnet" in texts[28]


def test_topics_that_explanations_refer_to_exist() -> None:
    """`ibcmtool explain X` in a text, and "See S11 and S12", lead somewhere."""
    for entry in [*explanations.TABLES, *explanations.group("all")]:
        for _, text in entry.sections:
            words = text.replace("`", " ").split()
            for before, word in pairwise(words):
                if before == "explain":
                    assert explanations.find(word.strip(".,;")) or word.startswith("rej:N"), (entry.topic, word)
