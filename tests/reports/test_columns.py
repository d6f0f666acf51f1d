from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from ibcmtool.reports import columns
from ibcmtool.reports.columns import Column
from ibcmtool.reports.page import Page


def column(title: str, *cells: str, **more: Any) -> Column:
    return Column(title, cells=[[Text(line) for line in cell.split("\n")] for cell in cells], **more)


def drawn(page: Page, *table: Column) -> list[str]:
    return [line.plain.rstrip() for line in columns.draw(page, table)]


def test_columns_are_aligned(screen: Any) -> None:
    page = Page(screen(None).console)
    table = (
        column("id", "1", "20", justify="right"),
        column("service", "NVMe", "x"),
        column("n", "5", "", justify="right"),
    )
    assert drawn(page, *table) == [
        "id  service  n",
        "──────────────",
        " 1  NVMe     5",
        "20  x",
    ]


def test_cells_of_two_lines_and_notes(screen: Any) -> None:
    page = Page(screen(None).console)
    table = [column("a", "x\ny", "z"), column("b", "1", "2")]
    assert drawn(page, *table)[2:] == ["x  1", "y", "z  2"]
    noted = columns.draw(page, table, [[("first", ""), ("second", "red")], []])
    assert [line.plain for line in noted][2:] == ["x  1", "y", "     └ first", "     └ second", "z  2"]


def test_the_widest_column_gives_way_first(screen: Any) -> None:
    wide, narrow = column("service", "s" * 40, least=10), column("history", "h" * 20, least=10)
    assert columns.widths([wide, narrow], 80) == [40, 20]
    assert columns.widths([wide, narrow], 52) == [30, 20]
    assert columns.widths([wide, narrow], 22) == [10, 10]
    assert not columns.fits([wide, narrow], 52)
    assert columns.fits([wide, narrow], 52, cut=True)
    assert not columns.fits([wide, narrow], 21, cut=True)
    assert columns.fits([column("service", "s" * 40, least=10, enough=12), narrow], 34)


@given(
    st.lists(st.tuples(st.text("abc", max_size=30), st.text("xyz", max_size=30)), min_size=1, max_size=5),
    st.integers(min_value=26, max_value=80),
)
def test_no_line_is_wider_than_the_page(screen: Any, cells: list[tuple[str, str]], width: int) -> None:
    page = Page(screen(80).console)
    page.width = width
    left, right = zip(*cells, strict=True)
    table = [column("left", *left, least=8), column("right", *right, least=8, justify="right")]
    assert all(line.cell_len <= width for line in columns.draw(page, table))
