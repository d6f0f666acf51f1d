"""Grouped attempts in words and as JSON: how many, of whom, how all of them ended, and when trying again is safe."""

from __future__ import annotations

from ibcmtool import formatting
from ibcmtool.connections.codes import CONSUMER_REJECT, INVALID_SERVICE_ID, STALE_CONNECTION
from ibcmtool.connections.release import Retry
from ibcmtool.reports import rejects
from ibcmtool.reports.calendar import Calendar
from ibcmtool.views.attempts import MOST_CLIENTS, Attempts
from ibcmtool.views.tally import Refusal


def sentence(group: Attempts, calendar: Calendar, ended: bool = False) -> str:
    """ "240 attempts of 12 clients in 3.2 s, all REJ 8 invalid service ID: nothing listens on port 4420 of ...".

    ended: the program that they went to did so.
    """
    clients = len(group.clients)
    several = (
        f"of {'over ' if clients >= MOST_CLIENTS else ''}{formatting.count(clients, 'client')} " if clients > 1 else ""
    )
    span = group.over - group.opened
    text = f"{formatting.count(group.count, group.noun)} {several}in {formatting.duration(span)}, "
    text += _all_ended(group, ended)
    retry = group.retry()
    if retry is not None:
        return f"{text}; {retry_words(retry, calendar, group.opened)}"
    first, last = calendar.time(group.opened, 3), calendar.time(group.last_opened, 3)
    return f"{text}; first {first}, last {last}"


def _all_ended(group: Attempts, program_ended: bool) -> str:
    failure = group.failure
    if failure.released_by is not None:
        how = "half open" if failure.outcome == "half_open" else "seen only in part"
        sent = dreqs(group.requests, group.repeated)
        return f"all {how}: {sent} of the {failure.released_by} side, none answered"
    if failure.refusal is not None:
        meaning = rejects.ENDED if program_ended else _meaning(group, failure.refusal)
        return f"all {refusal_words(failure.refusal)}" + (f": {meaning}" if meaning else "")
    if failure.outcome == "partial":
        return "all given up by the requester (REJ 4); none of their REQs is in the capture"
    how = "all timed out" if failure.outcome == "timed_out" else "all unfinished at the end of the capture"
    requests = formatting.count(group.requests, "REQ")
    requests += f" ({group.repeated:,} of them retransmissions)" if group.repeated else ""
    if failure.answered:
        return f"{how} although {target(group)} had answered; {requests}"
    return f"{how}: no answer of {target(group)} to {requests}"


def dreqs(number: int, repeated: int) -> str:
    """ "320 DREQs (300 of them retransmissions)"."""
    return formatting.count(number, "DREQ") + (f" ({repeated:,} of them retransmissions)" if repeated else "")


def refusal_words(refusal: Refusal) -> str:
    """ "REJ 28 consumer reject by the active side"; the passive side, who refuses as a rule, is not named."""
    if refusal.sidr:
        return rejects.status_named(refusal.reason)
    name = f"REJ {rejects.named(refusal.reason)}" if refusal.reason is not None else "REJ, reason not captured"
    return name + (" by the active side" if refusal.by == "active" else "")


def _meaning(group: Attempts, refusal: Refusal) -> str:
    if refusal.sidr:
        return refusal.words
    if refusal.reason == INVALID_SERVICE_ID:
        return f"nothing listens on {target(group)}"
    if refusal.reason == STALE_CONNECTION:
        return rejects.STALE
    if refusal.words or refusal.reason != CONSUMER_REJECT:
        return refusal.words
    return rejects.without_words(group.key.service) if refusal.by == "passive" else rejects.NO_REASON


def target(group: Attempts) -> str:
    """ "port 4420 of 10.0.0.2", where the name of the passive end has a port; else its address and the service."""
    address = formatting.address(group.key.passive)
    host, _, port = group.passive_name.rpartition(":")
    if host and port.isdecimal() and host.strip("[]") == address:
        return f"port {port} of {address}"
    return f"{address}, {group.key.service}"


def retry_words(retry: Retry, calendar: Calendar, near: int) -> str:
    """The earliest safe retry, or why it cannot be told; `near` is a time whose day the reader knows."""
    held = f"connection{'s' if len(retry.held) > 1 else ''} {formatting.numbers(retry.held)}"
    if retry.time is None:
        why = "the old connection is not in the capture" if not retry.held else f"no DREQ on {held} was seen"
        return f"earliest safe retry unknown: {why}"
    moment = -(-retry.time // formatting.MILLISECOND) * formatting.MILLISECOND
    day = f"{calendar.date(moment)} " if calendar.date(moment) != calendar.date(near) else ""
    about = "about " if retry.assumed else ""
    text = f"earliest safe retry {about}{day}{calendar.time(moment, 3)} {calendar.zone_name(moment)}"
    if retry.basis == "retrying":
        return f"{text}, if the DREQ on {held} stays unanswered to the last"
    if retry.basis == "exhausted":
        return f"{text}, as the DREQ on {held} was never answered"
    if retry.basis == "restarted":
        return f"{text}, as the machine that held {held} has restarted"
    return text
