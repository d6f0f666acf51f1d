"""The matrix of a few nodes: who connected to whom, and how many of the connections went well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import Address, Outcome
from ibcmtool.reports import columns, style
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.views.rows import Row, failures

MOST = 12  # nodes; more do not fit
LETTERS: dict[Outcome, str] = {"rejected": "R", "timed_out": "T", "stale": "S", "half_open": "H"}


def lines(page: Page, rows: Sequence[Row]) -> Iterator[Text]:
    """Rows are active, columns passive; nothing where a list says as much, there are too many nodes, or no room."""
    pairs = {(row.active.address, row.passive.address): row for row in rows if row.active and row.passive}
    active, passive = (sorted({pair[at] for pair in pairs}, key=_order) for at in (0, 1))
    if len(active) < 2 or len(passive) < 2 or len({*active, *passive}) > MOST:
        return
    table = [
        Column(f"active {page.glyphs.arrow} passive", cells=[[page.text(formatting.address(node))] for node in active])
    ]
    for node in passive:
        cells = [[_cell(page, pairs.get((other, node)))] for other in active]
        table.append(Column(formatting.address(node), "right", cells=cells))
    if not columns.fits(table, page.width):
        return
    yield from columns.draw(page, table)
    outcomes = [outcome for outcome in LETTERS if any(row.tally.outcomes[outcome] for row in rows)]
    if outcomes:
        legend = ", ".join(f"{LETTERS[outcome]} {formatting.OUTCOMES[outcome]}" for outcome in outcomes)
        yield from page.hanging(Text(), page.text(f"Connections of each pair: {legend}; the others bare.", style.QUIET))


def _cell(page: Page, row: Row | None) -> Text:
    """ "12 3R": twelve went well, three were rejected."""
    if row is None:
        return Text(page.glyphs.dot, style.QUIET)
    outcomes = row.tally.outcomes
    well = row.tally.connections - failures(outcomes)
    parts = [Text(f"{well:,}", style.OUTCOME["closed"])] if well else []
    parts += [
        Text(f"{outcomes[outcome]:,}{letter}", style.OUTCOME[outcome])
        for outcome, letter in LETTERS.items()
        if outcomes[outcome]
    ]
    return Text(" ").join(parts)


def _order(node: Address) -> tuple[bytes, int]:
    return node.gid or b"", node.lid or 0
