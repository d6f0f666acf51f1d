"""Many connections at a glance: counts by outcome, by service and by pair of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import SEVERITIES, Severity
from ibcmtool.reports import columns, rejects, style
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.views.tally import Totals

ROWS = 8  # of services and of pairs; the others are counted together


def lines(page: Page, totals: Totals) -> Iterator[Text]:
    """Three to five small tables."""
    total = totals.connections
    yield from _table(
        page,
        "outcome",
        [
            (Text(formatting.OUTCOMES[one], style.OUTCOME[one]), totals.outcomes[one])
            for one in formatting.OUTCOME_ORDER
            if totals.outcomes[one]
        ],
        total,
    )
    refusals = Counter({rejects.named(reason): number for reason, number in totals.reject_reasons.items()})
    if refusals:
        yield from _ranked(page, "reason of rejection", refusals, total)
    yield from _ranked(page, "service", totals.services, total)
    arrow = f" {page.glyphs.arrow} "
    pairs = Counter(
        {
            formatting.address(active) + arrow + formatting.address(passive): number
            for (active, passive), number in totals.pairs.most_common(ROWS)
        }
    )
    others = len(totals.pairs) - len(pairs), totals.pairs.total() - pairs.total()
    yield from _ranked(page, f"active{arrow}passive", pairs, total, others)
    if totals.findings:
        rows = [
            (Text.assemble(Text(code, style.SEVERITY[severity]), " ", page.text(name)), number)
            for (code, severity, name), number in sorted(totals.findings.items(), key=_worst_first)
        ]
        yield from _table(page, "finding", rows, None)


def _worst_first(counted: tuple[tuple[str, Severity, str], int]) -> tuple[int, str]:
    (code, severity, _), _ = counted
    return SEVERITIES.index(severity), code


def _ranked(
    page: Page, title: str, counts: Counter[str], total: int, left_out: tuple[int, int] = (0, 0)
) -> Iterator[Text]:
    """The most frequent names; `left_out` are how many names, and how many connections, stand for more."""
    rows = [(page.text(name or formatting.UNKNOWN), number) for name, number in counts.most_common(ROWS)]
    others = len(counts) - len(rows) + left_out[0]
    if others:
        number = counts.total() - sum(number for _, number in rows) + left_out[1]
        rows.append((Text(f"{others:,} more", style.QUIET), number))
    yield from _table(page, title, rows, total)


def _table(page: Page, title: str, rows: list[tuple[Text, int]], total: int | None) -> Iterator[Text]:
    name = Column(title, cells=[[text] for text, _ in rows], least=24)
    number = Column("number", "right", cells=[[Text(f"{count:,}")] for _, count in rows])
    table = [name, number]
    if total is not None:
        table.append(Column("share", "right", cells=[[Text(_share(count, total), style.QUIET)] for _, count in rows]))
    yield from columns.draw(page, table)
    yield Text()


def _share(count: int, total: int) -> str:
    percent = 100 * count / total
    return "<0.1 %" if 0 < percent < 0.1 else f"{percent:.1f} %"
