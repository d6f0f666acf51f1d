"""What stands under a row of a breakdown: why attempts were refused, what stayed unanswered, how long it took."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.reports import attempts, style
from ibcmtool.reports.calendar import Calendar
from ibcmtool.reports.page import Page, Piece
from ibcmtool.views.rows import Breakdown, Row
from ibcmtool.views.tally import Tally
from ibcmtool.views.times import EXACT, Times

MOST_REASONS = 6  # of refusals; the others are counted together
STORM = 100  # REQs in one second that are worth a word


def notes(row: Row, calendar: Calendar, *, several_inputs: bool) -> Iterator[Piece]:
    """The notes of one row, each a sentence with its style."""
    tally = row.tally
    if tally.refusals:
        yield _refusals(tally), style.OUTCOME["rejected"]
    if tally.unanswered and (row.active is None or several_inputs):
        yield _unanswered(tally, several_inputs), style.OUTCOME["timed_out"]
    if tally.unseen:
        text = f"{formatting.count(tally.unseen, 'attempt')} given up (REJ 4) of which no REQ was seen"
        yield text, style.OUTCOME["timed_out"]
    if row.active is not None:
        return
    if tally.repeated or tally.peak.number >= STORM:
        yield _requests(row, calendar), ""
    if tally.first_to_reply.maximum > tally.last_to_reply.maximum:
        yield f"from the first REQ to the REP: {_times(tally.first_to_reply)}", ""


def _refusals(tally: Tally) -> str:
    """ "12 × REJ 8 invalid service ID, 3 × REJ 28 consumer reject: NVMe: invalid queue ID"."""
    common = tally.refusals.most_common(MOST_REASONS)
    parts = [
        f"{number:,} × {attempts.refusal_words(refusal)}" + (f": {refusal.words}" if refusal.words else "")
        for refusal, number in common
    ]
    others = tally.refusals.total() - sum(number for _, number in common)
    return ", ".join([*parts, f"{others:,} with other reasons"] if others else parts)


def _unanswered(tally: Tally, several_inputs: bool) -> str:
    """How many attempts nobody answered, and whether their REQs were seen at the target."""
    text = f"{tally.unanswered:,} of {formatting.count(tally.connections, 'attempt')} without an answer"
    seen, missing = tally.arrivals["seen"], tally.arrivals["never seen"]
    if not seen and not missing:
        who = "these captures cannot" if several_inputs else "one capture cannot"
        return f"{text}; {who} tell whether the REQs seen here reached the target"
    unknown = tally.unanswered - seen - missing
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (seen, "with a REQ seen at the target's end"),
            (missing, "with no REQ seen there: lost on the way"),
            (unknown, "of which the captures cannot tell"),
        )
        if number
    ]
    return f"{text}: {', '.join(parts)}"


def _requests(row: Row, calendar: Calendar) -> str:
    """How many REQs came, of how many clients, and how many in the busiest second."""
    tally = row.tally
    text = f"{formatting.count(tally.requests, 'REQ')} of "
    text += f"{'' if row.complete else 'at least '}{formatting.count(row.clients, 'client')}"
    if tally.repeated:
        text += f", {tally.repeated:,} of them retransmissions"
    if tally.peak.number > 1:
        text += f"; at most {tally.peak.number:,} in one second ({calendar.time(tally.peak.time, 0)})"
    return text


def _times(times: Times) -> str:
    values = (("p50", times.percentile(50)), ("p99", times.percentile(99)), ("max", times.maximum))
    return ", ".join(f"{name} {formatting.duration(value)}" for name, value in values)


def legend(page: Page, breakdown: Breakdown) -> Iterator[Text]:
    """What p50, p99 and max are."""
    if breakdown.by == "pair" or not any(row.tally.last_to_reply.count for row in breakdown.rows):
        return
    text = "p50, p99, max: from the last REQ before a REP to that REP, the target's own time as the capture saw it"
    if any(not row.tally.last_to_reply.exact for row in breakdown.rows):
        text += f"; p50 and p99 of more than {EXACT:,} are within 0.8 %"
    yield from page.hanging(Text(), page.text(f"{text}.", style.QUIET))
