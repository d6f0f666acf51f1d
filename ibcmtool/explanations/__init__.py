"""What `explain` knows: findings from the catalogue of rules, all else from the tables in this package."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ibcmtool.explanations import rejects, states, statuses, terms
from ibcmtool.explanations.entry import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibcmtool.rules import Rule

__all__ = ["Explanation", "find", "group", "of_rule", "similar", "topics"]

TABLES = [*rejects.EXPLANATIONS, *statuses.EXPLANATIONS, *states.EXPLANATIONS, *terms.EXPLANATIONS]
NUMBERED = ("rej", "apr", "sidr")
GROUPS = {
    "rej": "REJ reason",
    "apr": "APR status",
    "sidr": "SIDR status",
    "states": "state",
    "outcomes": "outcome",
    "terms": "term",
}


def of_rule(rule: Rule) -> Explanation:
    """A finding's explanation: the rule's own texts."""
    return Explanation(
        rule.code,
        "finding",
        rule.title,
        (
            ("Severity", rule.severity),
            ("Meaning", rule.explanation),
            ("False positives", rule.false_positives),
            ("What to do", rule.advice),
            ("Rests on", rule.clause),
            ("Known as", rule.name),
        ),
    )


def find(topic: str) -> list[Explanation]:
    """All that is known under this name; case does not matter. Several where a word is a state and an outcome, say.

    A finding is found by its code and by its name.
    """
    from ibcmtool.rules import CATALOGUE

    wanted = _normal(topic)
    found = [of_rule(rule) for rule in CATALOGUE.values() if wanted in (_normal(rule.code), _normal(rule.name))]
    return found + [entry for entry in TABLES if _normal(entry.topic) == wanted]


def group(name: str) -> list[Explanation]:
    """The members of a group: `all` the findings, `rej`, `apr`, `sidr`, `states`, `outcomes`, `terms`; else nothing."""
    from ibcmtool.rules import CATALOGUE

    name = name.lower()
    if name == "all":
        return [of_rule(rule) for rule in sorted(CATALOGUE.values(), key=lambda rule: rule.code)]
    return [entry for entry in TABLES if entry.kind == GROUPS.get(name)]


def similar(topic: str) -> list[str]:
    """Topics that were perhaps meant, the best first."""
    names = {_normal(name): name for name in topics()}
    return [names[name] for name in difflib.get_close_matches(_normal(topic), names, n=3, cutoff=0.6)]


def topics() -> Iterator[str]:
    """Everything that `find` takes."""
    from ibcmtool.rules import CATALOGUE

    for rule in CATALOGUE.values():
        yield rule.code
        yield rule.name
    yield from (entry.topic for entry in TABLES)


def _normal(topic: str) -> str:
    """One spelling: REQ_SENT, req-sent and "req sent" are the same; so are rej:10, rej:0x0a and rej 10."""
    text = topic.strip().lower().replace("_", "-").replace(" ", "-")
    prefix, _, number = text.replace("-", ":", 1).partition(":")
    if prefix in NUMBERED and number:
        try:
            return f"{prefix}:{int(number, 0)}"
        except ValueError:
            pass
    return text
