"""What a ladder shows, in the order of time: messages, data, the limits of timewait, findings, the capture's end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from ibcmtool import formatting
from ibcmtool.analysis import Finding
from ibcmtool.connections.knowledge import arrivals
from ibcmtool.connections.timers import max_cm_retries
from ibcmtool.model import Connection, Role, State, Step

Kind = Literal["message", "data", "timewait begins", "timewait over", "findings", "capture ends"]

LOST = "C05"
_RETRIED = ("REQ", "REP", "DREQ")  # the messages that Max CM Retries limits
_EVENTS = frozenset({"message", "data", "findings"})
_ROLES: tuple[Role, ...] = ("active", "passive")
PAUSE = formatting.SECOND  # a silence this long is drawn in any case
SHORT_PAUSE = 50 * formatting.MILLISECOND  # a shorter one only when it is much longer than the others
MUCH = 20


@dataclass(slots=True)
class Entry:
    """One thing that happened; `time` in ns since the epoch."""

    time: int
    kind: Kind
    step: Step | None = None
    send: tuple[int, int | None] | None = None  # of a retransmission: which send it is, how many are allowed
    states: tuple[str, str] = ("", "")  # of both ends, where they changed; "REQ_RCVD?": if it got the message
    arrived: bool = True  # a message is open: it may not have
    roles: tuple[Role, ...] = ()  # whose timewait or data it is
    frame: tuple[int, int] | None = None  # (file, frame)
    lost: bool = False  # a message that one input saw, and another one on its way never did (C05)
    findings: list[Finding] = field(default_factory=list)


def entries(conn: Connection, findings: Sequence[Finding], capture_end: int | None) -> list[Entry]:
    """The entries of one connection; a finding goes to the last of its frames in this ladder, else to its time."""
    messages = list(_messages(conn))
    lost = {
        frame for finding in findings if finding.code == LOST and finding.evidence["lost"] for frame in finding.frames
    }
    for entry in messages:
        entry.lost = entry.frame in lost
    loose = _attach(findings, messages)
    others = [*_data(conn), *_timewait(conn), *loose]
    made = sorted([*messages, *others], key=lambda entry: entry.time)
    if capture_end is not None and any(entry.time > capture_end for entry in made):
        made.append(Entry(capture_end, "capture ends"))
        made.sort(key=lambda entry: entry.time)
    return made


def _messages(conn: Connection) -> Iterator[Entry]:
    sends: dict[int, int] = {}
    shown: tuple[State | None, State | None] = (None, None)
    allowed = max_cm_retries(conn.request)
    for step, arrival in zip(conn.steps, arrivals(conn), strict=True):
        first = step.retransmission_of or step
        sends[id(first)] = sends.get(id(first), 0) + 1
        send = None
        if step.retransmission_of is not None:
            limit = allowed + 1 if allowed is not None and step.message.type in _RETRIED else None
            send = (sends[id(first)], limit)
        now = (step.active_state, step.passive_state)
        doubt = ["?" if arrival == "open" and role != step.sender else "" for role in _ROLES]
        texts = [new + mark if new != old else "" for new, old, mark in zip(now, shown, doubt, strict=True)]
        shown = now
        frame = (step.message.file, step.message.frame)
        states, arrived = (texts[0], texts[1]), arrival != "open"
        yield Entry(step.message.time, "message", step, send, states, frame=frame, arrived=arrived)


def _attach(findings: Sequence[Finding], messages: Sequence[Entry]) -> Iterator[Entry]:
    """Put each finding to its message; yield entries of their own for those that have none here."""
    by_frame = {entry.frame: entry for entry in messages}
    loose: dict[int, Entry] = {}
    for finding in findings:
        here = [by_frame[frame] for frame in finding.frames if frame in by_frame]
        if here:
            max(here, key=lambda entry: entry.time).findings.append(finding)
        else:
            time = finding.time if finding.time is not None else messages[-1].time if messages else 0
            loose.setdefault(time, Entry(time, "findings")).findings.append(finding)
    return iter(loose.values())


def _data(conn: Connection) -> Iterator[Entry]:
    for role in _ROLES:
        first, last = conn.first_data.get(role), conn.last_data.get(role)
        for packet in [packet for packet in (first, None if last == first else last) if packet is not None]:
            yield Entry(packet.time, "data", roles=(role,), frame=(packet.file, packet.frame))


def _timewait(conn: Connection) -> Iterator[Entry]:
    seen = {step.message.time for step in conn.steps}
    for kind, at in (("timewait begins", "start"), ("timewait over", "likely")):
        roles: dict[int, list[Role]] = {}
        for role in _ROLES:
            interval = conn.end(role).timewait
            if interval is not None:
                roles.setdefault(getattr(interval, at), []).append(role)
        for time, whose in roles.items():
            if kind == "timewait over":
                yield Entry(time, "timewait over", roles=tuple(whose))
            elif time not in seen:  # else it begins with a message, which shows it
                yield Entry(time, "timewait begins", roles=tuple(whose))


def pauses(made: Sequence[Entry]) -> list[int | None]:
    """For each entry the silence before it in ns where it is worth drawing, else None."""
    gaps = [now.time - before.time for before, now in pairwise(made)]
    known = sorted(gap for gap in gaps if gap > 0)
    median = known[(len(known) - 1) // 2] if known else 0

    def drawn(gap: int) -> bool:
        return gap >= PAUSE or (gap >= SHORT_PAUSE and gap >= MUCH * median)

    # The limits of timewait say their distance themselves.
    silences = [
        gap if drawn(gap) and entry.kind in _EVENTS else None for gap, entry in zip(gaps, made[1:], strict=True)
    ]
    return [None, *silences] if made else []
