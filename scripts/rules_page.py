"""Writes docs/rules.md from the catalogue of rules: the page says what `ibcmtool explain` says.

Usage: .venv/bin/python scripts/rules_page.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ibcmtool.rules import CATALOGUE, Rule

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"

FAMILIES = {
    "C": "Quality of the capture",
    "F": "Contents of fields",
    "H": "Handshake order and matching",
    "I": "Service ID resolution",
    "L": "Alternate paths",
    "R": "Retries and timing",
    "S": "Stale connections",
    "T": "Timewait and reuse",
    "X": "Across connections",
}

INTRODUCTION = """\
# Findings

<!-- Written by scripts/rules_page.py from the catalogue in ibcmtool/rules: change the texts there. -->

A code, once released, keeps its meaning. `ibcmtool explain CODE` shows the same texts.

- **error**: the protocol was broken, or a connection was lost to it.
- **warning**: trouble is likely.
- **info**: worth knowing.

The severity given here is the usual one; the explanation says when a finding is milder or worse. Each finding also
has a confidence (certain, probable, possible), which is lower where the capture starts late, shows one direction only,
has lost packets, or where a timer had to be assumed.
"""


def page() -> str:
    return "\n".join([INTRODUCTION, *_table(), *_sections()])


def _rules() -> list[Rule]:
    return sorted(CATALOGUE.values(), key=lambda rule: rule.code)


def _table() -> Iterator[str]:
    yield "| code | severity | name | finding |"
    yield "| --- | --- | --- | --- |"
    for rule in _rules():
        yield f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.severity} | {rule.name} | {rule.title} |"
    yield ""


def _sections() -> Iterator[str]:
    for letter, rules in groupby(_rules(), key=lambda rule: rule.code[0]):
        yield f"## {FAMILIES[letter]}"
        yield ""
        for rule in rules:
            yield f"### {rule.code} {rule.name}"
            yield ""
            yield f"{rule.title} ({rule.severity})."
            yield ""
            yield rule.explanation
            yield ""
            yield f"- False positives: {rule.false_positives}"
            yield f"- What to do: {rule.advice}"
            yield f"- Rests on: {rule.clause}"
            yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
