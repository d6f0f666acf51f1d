"""Colours must read on a dark and on a light background."""

from __future__ import annotations

from rich.style import Style

from ibcmtool.reports import ladder_rows, style

ALLOWED = {None, "red", "magenta", "cyan", "green"}


def test_only_colours_that_read_on_both_backgrounds() -> None:
    used = [*style.SEVERITY.values(), *style.SEVERITY_BADGE.values(), *style.OUTCOME.values()]
    used += [style.HEAD, style.QUIET, style.GOOD, style.BAD, style.DOUBT, ladder_rows._TIMEWAIT]
    for name in used:
        parsed = Style.parse(name)
        assert (parsed.color.name if parsed.color else None) in ALLOWED, name
        assert parsed.bgcolor is None, name
