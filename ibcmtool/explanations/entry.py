"""What an explanation consists of."""

from __future__ import annotations

from typing import NamedTuple


class Explanation(NamedTuple):
    """One topic in words: a heading, and sections of a name and a paragraph each."""

    topic: str  # as a user types it: S02, rej:10, REQ_SENT, timewait
    kind: str  # finding | REJ reason | APR status | SIDR status | state | outcome | term
    title: str
    sections: tuple[tuple[str, str], ...]
