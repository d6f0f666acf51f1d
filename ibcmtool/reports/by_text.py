"""A view over many connections for people: inputs, one row a pair, target or service, verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.console import Console
from rich.text import Text

from ibcmtool import formatting
from ibcmtool.model import Analysis
from ibcmtool.reports import by_matrix, by_notes, by_table, conclusion, head, style
from ibcmtool.reports.clock import Clock
from ibcmtool.reports.page import Page
from ibcmtool.views.rows import By, View

CAP = 40  # rows without --all
NOUNS: dict[By, str] = {"pair": "pair of nodes", "target": "target", "service": "service"}
PLURALS: dict[By, str] = {"pair": "pairs of nodes"}


def render(view: View, console: Console, *, all_rows: bool, clock: Clock) -> None:
    """Write the view; `all_rows` lists every row."""
    page = Page(console)
    rows = view.rows if all_rows else view.rows[:CAP]
    sections = [
        head.lines(page, view.inputs, clock),
        by_matrix.lines(page, view.rows) if view.by == "pair" else iter(()),
        by_table.lines(page, view, rows, clock),
        _rest(page, view, len(rows)),
    ]
    for section in sections:
        written = False
        for line in section:
            page.write(line)
            written = True
        if written:
            page.write()
    analysis = Analysis(view.policy, view.inputs, [], [], view.totals)
    for line in chain(conclusion.lines(page, analysis, view.totals, depends=view.depends), _hint(page, view)):
        page.write(line)
    page.flush()


def _rest(page: Page, view: View, shown: int) -> Iterator[Text]:
    """What the columns mean, and what they leave out."""
    yield from by_notes.legend(page, view)
    if shown < len(view.rows):
        noun = formatting.count(len(view.rows), NOUNS[view.by], PLURALS.get(view.by, ""))
        yield from page.hanging(
            Text(), page.text(f"{shown:,} of {noun} shown, problems first: --all lists every one.", style.QUIET)
        )
    if view.others is not None:
        number = formatting.count(view.others.tally.connections, "connection")
        kept = f"the first {len(view.rows):,} {PLURALS.get(view.by, NOUNS[view.by] + 's')}"
        yield from page.hanging(Text(), page.text(f"{number} of others than {kept} have no row.", style.DOUBT))


def _hint(page: Page, view: View) -> Iterator[Text]:
    if view.totals.connections:
        hint = "ibcmtool analyze without --by lists the connections; --peer, --service and --outcome choose."
        yield from page.hanging(Text("  "), page.text(hint, style.QUIET))
