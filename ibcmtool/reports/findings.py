"""The findings, worst first: code, severity, name, frames, the sentence, the numbers, the advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import Finding, Policy
from ibcmtool.reports import style, values
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.page import Page
from ibcmtool.values import Duration, FrameNumber, InputNumber, Psn, Time
from ibcmtool.views.attempts import Attempts
from ibcmtool.views.tally import Totals

INFO_SHOWN = 3  # more info findings of one code are folded into one line
SUMMARY_SHOWN = 3  # in a summarised report, of every code
MOST_LISTED = 12  # numbers in a list on a terminal
MOST_IN_A_LINE = 60  # elsewhere, where a line may be long, but not without end
_LABEL_WIDTH = 10
_UPPER_CASE = frozenset(
    (
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
        "mac",
    )
)


def lines(
    page: Page,
    findings: Sequence[Finding],
    totals: Totals,
    *,
    policy: Policy,
    several_files: bool,
    groups: Mapping[int, Attempts] | None = None,
    summarised: bool = False,
    everything: bool = False,
) -> Iterator[Text]:
    """All findings; of a code that comes often only the first few, the others in one line.

    What was found in several attempts of a group (`groups`, by connection) is shown once.
    """
    distinct, alike = _by_group(findings, groups or {})
    shown: Counter[str] = Counter()
    folded: dict[str, list[Finding]] = {}
    explained: set[str] = set()
    for finding in distinct:
        limit = SUMMARY_SHOWN if summarised else INFO_SHOWN if finding.severity == "info" else None
        others = alike.get(id(finding), ())
        if not everything and limit is not None and shown[finding.code] >= limit:
            folded.setdefault(finding.code, []).extend((finding, *others))
            continue
        shown[finding.code] += 1
        # The same advice for the tenth time is noise.
        advice = finding.code + finding.advice not in explained
        explained.add(finding.code + finding.advice)
        group = (groups or {}).get(finding.connection or 0)
        also = _alike(others, group.noun if group is not None else "", several_files, page.width is not None)
        yield from _block(page, finding, policy, several_files, advice=advice, also=also)
        yield Text()
    # By code: how many findings were counted but not kept.
    left_out = totals.by_code() - Counter(finding.code for finding in findings)
    for code in dict.fromkeys([*folded, *left_out]):
        others = folded.get(code, [])
        sample = others[0] if others else next(finding for finding in findings if finding.code == code)
        yield from _folded(page, sample, others, len(others) + left_out[code])
    if folded or left_out:
        yield Text()


def _by_group(
    findings: Sequence[Finding], groups: Mapping[int, Attempts]
) -> tuple[list[Finding], dict[int, list[Finding]]]:
    """The findings to be shown, and by their id() those that say the same of another attempt of the same group."""
    distinct: list[Finding] = []
    alike: dict[int, list[Finding]] = {}
    first: dict[tuple[str, str, int], Finding] = {}
    for finding in findings:
        group = groups.get(finding.connection or 0)
        if group is not None:
            other = first.setdefault((finding.code, finding.severity, id(group)), finding)
            if other is not finding:
                alike.setdefault(id(other), []).append(finding)
                continue
        distinct.append(finding)
    return distinct, alike


def _block(
    page: Page, finding: Finding, policy: Policy, several_files: bool, *, advice: bool, also: str
) -> Iterator[Text]:
    name = style.SEVERITY[finding.severity]
    certainty = "" if finding.confidence == "certain" else f"({finding.confidence})"
    where = ", ".join(filter(None, (_connections(finding), formatting.frames(finding.frames, several_files))))
    title = Text(" ").join(
        [
            Text(f" {finding.severity} ", style.SEVERITY_BADGE[finding.severity]),
            Text(finding.code, name),
            page.text(finding.name, name),
            *([Text(certainty, style.QUIET)] if certainty else []),
        ]
    )
    yield from _side_by_side(page, title, page.text(where, style.HEAD))
    yield from page.hanging(Text("  "), page.text(finding.message))
    yield from page.listing(_label("numbers"), list(_numbers(finding.evidence, page.calendar, several_files)))
    for label, text in (
        ("also", also),
        ("advice", finding.advice if advice else ""),
        ("policy", _policy_note(finding, policy)),
    ):
        if text:
            yield from page.hanging(_label(label), page.text(text))


def _alike(findings: Sequence[Finding], noun: str, several_files: bool, short: bool) -> str:
    """ "4 more attempts alike: connections 4-7, frames 9-16"; many frames are left out."""
    if not findings:
        return ""
    parts = [
        _numbered("connection", [finding.connection for finding in findings if finding.connection is not None], short)
    ]
    frames = [frame for finding in findings for frame in finding.frames]
    if len(frames) <= MOST_LISTED:
        parts.append(formatting.frames(frames, several_files))
    return f"{formatting.count(len(findings), f'more {noun}')} alike: {', '.join(filter(None, parts))}"


def _numbered(noun: str, numbers: Sequence[int], short: bool) -> str:
    """ "connections 4-7, 9"; of a long list the beginning and the last one."""
    listed = formatting.numbers(numbers).split(", ")
    most = MOST_LISTED if short else MOST_IN_A_LINE
    if len(listed) > most:
        listed = [*listed[:most], f"... {max(numbers)}"]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(listed)}"


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
    return own + (f" (with {formatting.numbers(related)})" if related else "")


def _policy_note(finding: Finding, policy: Policy) -> str:
    if finding.policy == "both":
        return ""
    other = "strict" if policy == "relaxed" else "relaxed"
    return f"judged by the {policy} reading of the specification; --policy {other} sees it differently"


def _numbers(evidence: Mapping[str, Any], calendar: Calendar, several_files: bool) -> Iterator[str]:
    for key, value in evidence.items():
        if value is not None:
            label = " ".join(word.upper() if word in _UPPER_CASE else word for word in key.split("_"))
            yield f"{label} {_number(value, calendar, several_files)}"


def _number(value: Any, calendar: Calendar, several_files: bool) -> str:
    match value:
        case Time():
            return calendar.full(value.ns)
        case Duration():
            return formatting.duration(value.ns)
        case Psn():
            return formatting.psn(value.number)
        case bool():
            return "yes" if value else "no"
        case FrameNumber():
            return formatting.frame(value, several_files)
        case InputNumber():
            return f"[{value.file + 1}]"
        case [Duration() | Time() | FrameNumber() | InputNumber(), *_]:
            return " ".join(_number(one, calendar, several_files) for one in value)
    made = values.evidence(value)
    return " ".join(map(str, made)) if isinstance(made, list) else str(made)


def _folded(page: Page, sample: Finding, others: Sequence[Finding], number: int) -> Iterator[Text]:
    connections = sorted({finding.connection for finding in others if finding.connection is not None})
    where = f", {_numbered('connection', connections, page.width is not None)}" if connections else ""
    severity = sample.severity
    head = Text.assemble(
        Text(f" {severity} ", style.SEVERITY_BADGE[severity]), " ", Text(sample.code, style.SEVERITY[severity]), " "
    )
    yield from page.hanging(head, page.text(f"{number:,} more of {sample.name}{where}"), indent=2)
