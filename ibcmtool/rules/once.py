"""Telling once what is true of many connections: a setting, a host's habit, a port that is reached another way."""

from __future__ import annotations

from collections.abc import Hashable

from ibcmtool.rules.context import Context

MOST_TOLD = 4096  # remembered for each rule, the newest


def news(view: Context, code: str, subject: Hashable) -> bool:
    """Whether rule `code` has not spoken of `subject` yet; from now on it has."""
    told = view.memory[code]
    if subject in told:
        return False
    told[subject] = True
    if len(told) > MOST_TOLD:
        del told[next(iter(told))]
    return True
