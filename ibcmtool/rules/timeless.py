"""What is left out where times are not real (InputInfo.timeless): no rule concludes from a clock that nobody read."""

from __future__ import annotations

from typing import Final

from ibcmtool.rules.api import Rule

FAMILIES: Final = "TR"  # timewait and reuse, retries and timing
# Of other families: whether timewait was over (S05 to S07), whether something followed in time or right after (S03,
# S12, S13, H08), or who had an address when (X09, X10).
CODES: Final = frozenset({"S03", "S05", "S06", "S07", "S12", "S13", "H08", "X09", "X10"})
DEADLINES: Final = frozenset({"REQ_EXHAUSTED", "REP_EXHAUSTED", "DREQ_LAPSED", "DREQ_EXHAUSTED"})


def rests_on_time(rule: Rule) -> bool:
    """Whether a rule is not to be asked there."""
    return rule.code[0] in FAMILIES or rule.code in CODES
