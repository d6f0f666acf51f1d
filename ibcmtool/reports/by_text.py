"""A view over many connections for people: inputs, one row a pair, target or service, conclusion."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import By
from ibcmtool.reports import by_matrix, by_notes, by_table, conclusion, head, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.keeping import Keeping
from ibcmtool.reports.page import Page
from ibcmtool.reports.sink import Settings
from ibcmtool.views.rows import Breakdown, Rows

CAP = 40  # rows without --all
NOUNS: dict[By, str] = {"pair": "pair of nodes", "target": "target", "service": "service"}
PLURALS: dict[By, str] = {"pair": "pairs of nodes"}


class BreakdownText(Keeping):
    """Counts the records, and writes the totals at the end."""

    def __init__(self, settings: Settings) -> None:
        self._rows = Rows(settings.by, settings.policy, several_inputs=settings.several_inputs)
        super().__init__(self._rows)
        self._page = Page(settings.console())
        self._calendar = Calendar(settings.zone)
        self._everything = settings.everything

    def close(self) -> None:
        page, breakdown = self._page, self._rows.breakdown()
        rows = breakdown.rows if self._everything else breakdown.rows[:CAP]
        page.write_sections(
            head.lines(page, breakdown.inputs, self._calendar),
            by_matrix.lines(page, breakdown.rows) if breakdown.by == "pair" else (),
            by_table.lines(page, breakdown, rows, self._calendar),
            _rest(page, breakdown, len(rows)),
        )
        for line in conclusion.lines(
            page, breakdown.policy, breakdown.inputs, breakdown.totals, depends=breakdown.depends
        ):
            page.write(line)
        for line in _hint(page, breakdown):
            page.write(line)
        page.flush()


def _rest(page: Page, breakdown: Breakdown, shown: int) -> Iterator[Text]:
    """What the columns mean, and what they leave out."""
    yield from by_notes.legend(page, breakdown)
    if shown < len(breakdown.rows):
        noun = formatting.count(len(breakdown.rows), NOUNS[breakdown.by], PLURALS.get(breakdown.by, ""))
        yield from page.hanging(
            Text(), page.text(f"{shown:,} of {noun} shown, problems first: --all lists every one.", style.QUIET)
        )
    if breakdown.others is not None:
        number = formatting.count(breakdown.others.tally.connections, "connection")
        kept = f"the first {len(breakdown.rows):,} {PLURALS.get(breakdown.by, NOUNS[breakdown.by] + 's')}"
        yield from page.hanging(Text(), page.text(f"{number} of others than {kept} have no row.", style.DOUBT))


def _hint(page: Page, breakdown: Breakdown) -> Iterator[Text]:
    if breakdown.totals.connections:
        hint = "ibcmtool analyze without --by lists the connections; --peer, --service and --outcome choose."
        yield from page.hanging(Text("  "), page.text(hint, style.QUIET))
