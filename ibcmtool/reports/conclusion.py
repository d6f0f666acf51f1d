"""The conclusion: the last line, which a reader in a hurry reads first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import SEVERITIES, InputInfo, Policy, Severity
from ibcmtool.model import Outcome
from ibcmtool.reports import nothing, style
from ibcmtool.reports.page import Page
from ibcmtool.views.tally import Totals

_ADJECTIVE: dict[Outcome, str] = {
    "connecting": "still connecting at the end",
    "established": "open at the end",
    "partial": "seen only in part",
    "resolved": "resolved by SIDR",
}
# Outcomes that are done to a connection: "2 of 4 connections were stale", but "timed out".
_PASSIVE: frozenset[Outcome] = frozenset({"stale", "rejected", "half_open"})


def lines(page: Page, policy: Policy, inputs: Sequence[InputInfo], totals: Totals, *, depends: bool) -> Iterator[Text]:
    """One sentence: how many connections ended how, and what was found.

    `depends`: whether a finding depends on the policy.
    """
    if not totals.connections:
        yield from nothing.lines(page, inputs)
        return
    outcomes = totals.outcomes - Counter({"rejected": totals.gave_way})
    severities: Counter[Severity] = Counter()
    for (_, severity, _), number in totals.findings.items():
        severities[severity] += number
    troubled = severities["error"] or severities["warning"] or any(outcomes[outcome] for outcome in formatting.FAILURES)
    mark, name = (page.glyphs.bad, style.BAD) if troubled else (page.glyphs.good, style.GOOD)
    if troubled and not severities["error"]:
        name = style.DOUBT
    reading = f" under the {policy} policy" if depends else ""
    sentence = f"{_outcomes(outcomes, totals.gave_way)}{_findings(severities, reading, outcomes, totals)}"
    yield from page.hanging(Text(f"{mark} ", name), page.text(sentence, style.HEAD))


def _outcomes(outcomes: Counter[Outcome], gave_way: int) -> str:
    """gave_way: how many more there were, each refused as the other side's came up."""
    total = sum(outcomes.values()) + gave_way
    whole = formatting.count(total, "connection")
    present = [outcome for outcome in formatting.OUTCOME_ORDER if outcomes[outcome]]
    if len(present) == 1 and not gave_way:
        return f"{whole}, {'all ' if total > 1 else ''}{_adjective(present[0])}"
    parts = []
    for at, outcome in enumerate(present):
        number = outcomes[outcome]
        if at == 0 and outcome in formatting.FAILURES:
            verb = ("was " if number == 1 else "were ") if outcome in _PASSIVE else ""
            parts.append(f"{number:,} of {whole} {verb}{_adjective(outcome)}")
        else:
            parts.append(f"{number:,} {_adjective(outcome)}")
    if gave_way:
        parts.append(f"{gave_way:,} gave way to one of the other side")
    return ", ".join(parts) if present and present[0] in formatting.FAILURES else f"{whole}: {', '.join(parts)}"


def _adjective(outcome: Outcome) -> str:
    return _ADJECTIVE.get(outcome, formatting.OUTCOMES[outcome])


def _findings(severities: Counter[Severity], reading: str, outcomes: Counter[Outcome], totals: Totals) -> str:
    if not severities:
        return ", nothing to report" if not any(outcomes[outcome] for outcome in formatting.FAILURES) else ""
    parts = [
        formatting.count(severities[severity], severity, "info" if severity == "info" else "")
        for severity in SEVERITIES
        if severities[severity]
    ]
    codes = sorted({code for code, severity, _ in totals.findings if severity != "info"})
    named = f" ({', '.join(codes)})" if 0 < len(codes) <= 6 else ""
    return f"; {formatting.listed(parts)}{reading}{named}"
