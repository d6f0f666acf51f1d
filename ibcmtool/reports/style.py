"""Colours and signs of the reports.

Only named ANSI colours that read on a dark and on a light background, those that compilers use for their messages: bold
red, bold magenta, bold cyan. No yellow (lost on white), no blue (lost on black), no white.
"""

from __future__ import annotations

from typing import NamedTuple

from ibcmtool.analysis import Severity
from ibcmtool.model import Outcome

SEVERITY: dict[Severity, str] = {"error": "bold red", "warning": "bold magenta", "info": "bold cyan"}
SEVERITY_BADGE: dict[Severity, str] = {
    "error": "bold reverse red",
    "warning": "bold reverse magenta",
    "info": "reverse cyan",
}
OUTCOME: dict[Outcome, str] = {
    "connecting": "magenta",
    "established": "green",
    "closed": "green",
    "rejected": "red",
    "timed_out": "red",
    "stale": "red",
    "half_open": "red",
    "resolved": "green",
    "partial": "dim",
}
HEAD = "bold"
QUIET = "dim"
GOOD = "bold green"
BAD = "bold red"
DOUBT = "bold magenta"


class Glyphs(NamedTuple):
    """The signs that a report is drawn with."""

    arrow: str  # from one end to the other, in running text
    ellipsis: str
    rule: str  # horizontal line under a heading
    dot: str  # between items of one line
    lifeline: str
    pause: str  # a lifeline over which time passes
    line: str  # shaft of an arrow
    lost_line: str  # shaft of an arrow whose message had no effect
    data_line: str  # shaft of an arrow that stands for data packets
    left_head: str
    right_head: str
    left_open: str  # the head of an arrow that may not have arrived
    right_open: str
    left_tail: str  # where an arrow leaves the left lifeline
    right_tail: str
    bar: str  # timewait
    bar_end: str
    corner: str  # leads a note under its row
    callout: str  # stands before each line of a finding in the ladder
    good: str
    bad: str


UNICODE = Glyphs(
    "→", "…", "─", "·", "│", "┊", "─", "╌", "·", "◀", "▶", "◁", "▷", "├", "┤", "┃", "╹", "└", "▌", "✓", "✗"
)
ASCII = Glyphs(
    "->", "...", "-", "-", "|", ":", "-", "~", ".", "<", ">", "?", "?", "+", "+", "#", "#", "`-", ">", "ok:", "!!"
)

# For texts of others (a finding's sentence, a path) where the terminal takes only ASCII.
TRANSLITERATION = str.maketrans(
    {
        "→": "->",
        "←": "<-",
        "↔": "<->",
        "…": "...",
        "µ": "u",
        "μ": "u",
        "×": "x",
        "·": "-",
        "–": "-",
        "—": "-",
        "≤": "<=",
        "≥": ">=",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "✓": "ok",
        "✗": "!",
        "±": "+/-",
        "≈": "~",
    }
)
