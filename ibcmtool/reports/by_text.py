"""A view over many connections for people: inputs, matrix, one row a pair, target or service, conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import By
from ibcmtool.model import Outcome
from ibcmtool.packets import Address
from ibcmtool.reports import by_table, columns, conclusion, head, style
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import Keeping, Settings
from ibcmtool.views.rows import Breakdown, Row, Rows, failures

CAP = 40  # rows without --all
NOUNS: dict[By, str] = {"pair": "pair of nodes", "target": "target", "service": "service"}
PLURALS: dict[By, str] = {"pair": "pairs of nodes"}
MOST = 12  # nodes of the matrix; more do not fit
LETTERS: dict[Outcome, str] = {"rejected": "R", "timed_out": "T", "stale": "S", "half_open": "H"}


class BreakdownText(Keeping):
    """Counts the records, and writes the totals at the end."""

    def __init__(self, settings: Settings) -> None:
        self._rows = Rows(settings.by, settings.policy, several_inputs=settings.several_inputs)
        super().__init__(self._rows)
        self._page = Page(settings.console(), settings.zone)
        self._everything = settings.everything

    def close(self) -> None:
        page, breakdown = self._page, self._rows.breakdown()
        rows = breakdown.rows if self._everything else breakdown.rows[:CAP]
        page.write_sections(
            head.lines(page, breakdown.inputs),
            _matrix(page, breakdown.rows) if breakdown.by == "pair" else (),
            by_table.lines(page, breakdown, rows),
            _rest(page, breakdown, len(rows)),
        )
        page.write_lines(
            conclusion.lines(page, breakdown.policy, breakdown.inputs, breakdown.totals, depends=breakdown.depends)
        )
        if breakdown.totals.connections:
            hint = "ibcmtool analyze without --by lists the connections; --peer, --service and --outcome choose."
            page.write_lines(page.remark(hint, indent="  "))
        page.flush()


def _rest(page: Page, breakdown: Breakdown, shown: int) -> Iterator[Text]:
    """What the columns mean, and what they leave out."""
    yield from by_table.legend(page, breakdown)
    if shown < len(breakdown.rows):
        noun = formatting.count(len(breakdown.rows), NOUNS[breakdown.by], PLURALS.get(breakdown.by, ""))
        yield from page.remark(f"{shown:,} of {noun} shown, problems first: --all lists every one.")
    if breakdown.others is not None:
        number = formatting.count(breakdown.others.tally.connections, "connection")
        kept = f"the first {len(breakdown.rows):,} {PLURALS.get(breakdown.by, NOUNS[breakdown.by] + 's')}"
        yield from page.remark(f"{number} of others than {kept} have no row.", style.DOUBT)


def _matrix(page: Page, rows: Sequence[Row]) -> Iterator[Text]:
    """Who connected to whom: rows are active, columns passive.

    Nothing where a list says as much, there are too many nodes, or no room.
    """
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
        yield from page.remark(f"Connections of each pair: {legend}; the others bare.")


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
