"""Many connections at a glance: counts by outcome, by service and by pair of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import services, words
from ibcmtool.model import Connection, Finding
from ibcmtool.reports import columns, rejects, style
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page

ROWS = 8  # of services and of pairs; the others are counted together


def lines(page: Page, connections: Sequence[Connection], findings: Sequence[Finding]) -> Iterator[Text]:
    """Three or four small tables."""
    total = len(connections)
    outcomes = Counter(conn.outcome for conn in connections)
    yield from _table(
        page,
        "outcome",
        [
            (Text(words.OUTCOMES[one], style.OUTCOME[one]), outcomes[one])
            for one in words.OUTCOME_ORDER
            if outcomes[one]
        ],
        total,
    )
    refusals = Counter(rejects.short(conn) for conn in connections if conn.outcome == "rejected")
    if refusals:
        yield from _ranked(page, "reason of rejection", refusals, total)
    yield from _ranked(page, "service", Counter(services.connection_service(conn) for conn in connections), total)
    arrow = f" {page.glyphs.arrow} "
    pairs = Counter(
        words.address(conn.active.address) + arrow + words.address(conn.passive.address) for conn in connections
    )
    yield from _ranked(page, f"active{arrow}passive", pairs, total)
    if findings:
        codes = Counter((finding.code, finding.severity, finding.name) for finding in findings)
        rows = [
            (Text.assemble(Text(code, style.SEVERITY[severity]), " ", page.text(name)), number)
            for (code, severity, name), number in codes.items()
        ]
        yield from _table(page, "finding", rows, None)


def _ranked(page: Page, title: str, counts: Counter[str], total: int) -> Iterator[Text]:
    rows = [(page.text(name or words.UNKNOWN), number) for name, number in counts.most_common(ROWS)]
    others = len(counts) - len(rows)
    if others:
        rows.append((Text(f"{others:,} more", style.QUIET), counts.total() - sum(number for _, number in rows)))
    yield from _table(page, title, rows, total)


def _table(page: Page, title: str, rows: list[tuple[Text, int]], total: int | None) -> Iterator[Text]:
    name = Column(title, cells=[[text] for text, _ in rows], least=24)
    number = Column("number", "right", cells=[[Text(f"{count:,}")] for _, count in rows])
    table = [name, number]
    if total is not None:
        table.append(Column("share", "right", cells=[[Text(_share(count, total), style.QUIET)] for _, count in rows]))
    yield from (line for _, line in columns.draw(page, table))
    yield Text()


def _share(count: int, total: int) -> str:
    percent = 100 * count / total
    return "<0.1 %" if 0 < percent < 0.1 else f"{percent:.1f} %"
