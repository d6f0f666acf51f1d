"""The findings, worst first: code, severity, name, frames, the sentence, the numbers, the advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from ibcmtool import words
from ibcmtool.model import Finding, Policy, Totals
from ibcmtool.reports import style, values
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page

INFO_SHOWN = 3  # more info findings of one code are folded into one line
SUMMARY_SHOWN = 3  # in a summarised report, of every code
_LABEL_WIDTH = 10
_ABSOLUTE = 10**17  # ns; no duration is this long (3 years), every time since 1973 is later


def lines(
    page: Page,
    findings: Sequence[Finding],
    totals: Totals,
    *,
    policy: Policy,
    clock: Clock,
    several_files: bool,
    summarised: bool = False,
    everything: bool = False,
) -> Iterator[Text]:
    """All findings; of a code that comes often only the first few, the others in one line."""
    shown: Counter[str] = Counter()
    folded: dict[str, list[Finding]] = {}
    explained: set[str] = set()
    for finding in findings:
        limit = SUMMARY_SHOWN if summarised else INFO_SHOWN if finding.severity == "info" else None
        if not everything and limit is not None and shown[finding.code] >= limit:
            folded.setdefault(finding.code, []).append(finding)
            continue
        shown[finding.code] += 1
        # The same advice for the tenth time is noise.
        advice = finding.code + finding.advice not in explained
        explained.add(finding.code + finding.advice)
        yield from _block(page, finding, policy, clock, several_files, advice=advice)
        yield Text()
    for code, others in folded.items():
        # Of a code that comes very often not all are kept.
        number = sum(count for (one, _, _), count in totals.findings.items() if one == code) - shown[code]
        yield from _folded(page, code, others, number)
    if folded:
        yield Text()


def _block(
    page: Page, finding: Finding, policy: Policy, clock: Clock, several_files: bool, *, advice: bool
) -> Iterator[Text]:
    name = style.SEVERITY[finding.severity]
    certainty = "" if finding.confidence == "certain" else f"({finding.confidence})"
    where = page.join([_connections(finding), words.frames(finding.frames, several_files)], ", ")
    where.stylize(style.HEAD)
    title = Text(" ").join(
        [
            Text(f" {finding.severity} ", style.SEVERITY_BADGE[finding.severity]),
            Text(finding.code, name),
            page.text(finding.name, name),
            *([Text(certainty, style.QUIET)] if certainty else []),
        ]
    )
    yield from _side_by_side(page, title, where)
    yield from page.hanging(Text("  "), page.text(finding.message))
    yield from page.listing(_label("numbers"), list(_numbers(finding.evidence, clock)))
    for label, text in (("advice", finding.advice if advice else ""), ("policy", _policy_note(finding, policy))):
        if text:
            yield from page.hanging(_label(label), page.text(text))


def _label(text: str) -> Text:
    return Text(f"  {text:<{_LABEL_WIDTH - 2}}", style.QUIET)


def _side_by_side(page: Page, left: Text, right: Text) -> Iterator[Text]:
    if page.width is None or left.cell_len + 2 + right.cell_len <= page.width:
        yield Text.assemble(left, "  ", right)
    else:
        yield left
        yield from page.hanging(Text("  "), right)


def _connections(finding: Finding) -> str:
    if finding.connection is None:
        return ""
    own = f"connection {finding.connection}"
    related = sorted(set(finding.related) - {finding.connection})
    return own + (f" (with {words.numbers(related)})" if related else "")


def _policy_note(finding: Finding, policy: Policy) -> str:
    if finding.policy == "both":
        return ""
    other = "strict" if policy == "relaxed" else "relaxed"
    return f"judged by the {policy} reading of the specification; --policy {other} sees it differently"


def _numbers(evidence: Mapping[str, Any], clock: Clock) -> Iterator[str]:
    for key, value in evidence.items():
        if value is None:
            continue
        label, text = _number(key, value, clock)
        yield f"{label} {text}"


def _number(key: str, value: Any, clock: Clock) -> tuple[str, str]:
    """Key and value in words: `_ns` values are durations or times, QPNs and ids are hexadecimal."""
    if key.endswith("_ns"):
        texts = [_moment(one, clock) for one in (value if isinstance(value, (list, tuple)) else [value])]
        return _words(key.removesuffix("_ns")), " ".join(texts)
    made = values.plain(key, value)
    if isinstance(made, bool):
        return _words(key), "yes" if made else "no"
    if isinstance(made, list):
        return _words(key), " ".join(map(str, made))
    return _words(key), words.psn(made) if isinstance(made, int) and key.endswith("psn") else str(made)


def _moment(ns: int, clock: Clock) -> str:
    return clock.full(ns) if abs(ns) >= _ABSOLUTE else words.duration(ns)


def _words(key: str) -> str:
    spaced = f" {key.replace('_', ' ')} "
    for word in (
        "ca",
        "qpn",
        "psn",
        "guid",
        "gid",
        "cm",
        "req",
        "rep",
        "rej",
        "rtu",
        "dreq",
        "drep",
        "mra",
        "tid",
        "ack",
        "lid",
    ):
        spaced = spaced.replace(f" {word} ", f" {word.upper()} ")
    return spaced.strip()


def _folded(page: Page, code: str, others: Sequence[Finding], number: int) -> Iterator[Text]:
    connections = sorted({finding.connection for finding in others if finding.connection is not None})
    where = ""
    if connections:
        listed = words.numbers(connections).split(", ")
        if page.width is not None and len(listed) > 12:
            listed = [*listed[:12], "..."]
        where = f", connection{'s' if len(connections) > 1 else ''} {', '.join(listed)}"
    severity = others[0].severity
    head = Text.assemble(
        Text(f" {severity} ", style.SEVERITY_BADGE[severity]), " ", Text(code, style.SEVERITY[severity]), " "
    )
    yield from page.hanging(head, page.text(f"{number:,} more of {others[0].name}{where}"), indent=2)
