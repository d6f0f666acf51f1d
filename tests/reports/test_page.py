from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from ibcmtool.reports import style
from ibcmtool.reports.page import Page


def test_a_pipe_has_no_width(screen: Any) -> None:
    assert Page(screen(None).console).width is None
    assert Page(screen(100).console).width == 100


def test_without_utf8_everything_is_ascii(screen: Any) -> None:
    page = Page(screen(80, encoding="ascii").console)
    assert page.glyphs is style.ASCII
    assert page.clean("a → b, 5 µs … caf\u00e9") == "a -> b, 5 us ... caf?"


def test_signs_of_both_sets_are_as_wide(screen: Any) -> None:
    for name in ("lifeline", "pause", "line", "lost_line", "data_line", "left_head", "right_head", "bar", "bar_end"):
        assert len(getattr(style.UNICODE, name)) == len(getattr(style.ASCII, name)) == 1
    assert all(sign.isascii() for sign in style.ASCII)


def test_nothing_from_a_capture_steers_the_terminal(screen: Any) -> None:
    page = Page(screen(80).console)
    assert page.clean("\x1b[2Jname\x07\u202e") == "\\x1b[2Jname\\x07\\u202e"
    assert page.clean("two\nlines") == "two lines"
    assert page.clean("\udc80") == "\\udc80"  # what os.fsdecode makes of a byte that is not UTF-8


@given(st.text())
def test_clean_text_is_printable_and_stable(screen: Any, text: str) -> None:
    page = Page(screen(80).console)
    once = page.clean(text)
    assert once.isprintable()
    assert page.clean(once) == once


def test_elided_text_fits_and_says_so(screen: Any) -> None:
    page = Page(screen(80).console)
    assert page.elided(Text("NVMe/RDMA 4420"), 14).plain == "NVMe/RDMA 4420"
    assert page.elided(Text("NVMe/RDMA 4420"), 10).plain == "NVMe/RDMA…"
    narrow = Page(screen(80, encoding="ascii").console)
    assert narrow.elided(Text("NVMe/RDMA 4420"), 10).plain == "NVMe/RD..."


@pytest.mark.parametrize("width", [72, 100])
def test_hanging_lines_are_indented_and_fit(screen: Any, width: int) -> None:
    page = Page(screen(width).console)
    lines = list(page.hanging(Text("  advice  "), Text("word " * 60)))
    assert all(line.cell_len <= width for line in lines)
    assert lines[0].plain.startswith("  advice  word")
    assert all(line.plain.startswith(" " * 10 + "word") for line in lines[1:])
    assert sum(line.plain.count("word") for line in lines) == 60


def test_a_pipe_gets_long_lines_whole(screen: Any) -> None:
    made = screen(None)
    page = Page(made.console)
    page.write(Text("word " * 500))
    page.flush()
    assert made.lines == [("word " * 500).rstrip()]
