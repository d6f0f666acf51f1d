"""What is known of the two ends, read off the steps of a connection: which message arrived, and whose state is sure.

A message that was seen proves the state of its sender. Its receiver may never have got it, until something shows that
it did: an answer, or a later message or data that follow only from it. Where it was sent more than once before that,
nobody can tell which of the sends arrived.

Not everything is answered. An RTU has arrived where its receiver goes on as established. What ends an exchange (REJ,
DREP, APR, SIDR_REP) is in doubt where its receiver asks again; else its receiver likely has it: nothing can show more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ibcmtool.connections.codes import INVALID_COMM_ID
from ibcmtool.connections.matching import rej_reason
from ibcmtool.connections.traces import DISORDER
from ibcmtool.messages import Mra, Rej
from ibcmtool.model import PEER, Connection, Role, Step
from ibcmtool.packets import CmMessage

Arrival = Literal["shown", "likely", "open"]
Knowledge = Literal["known", "likely", "unknown"]
Sent = tuple[str, Role]  # message type and sender

REPEATED: Final = frozenset({"REQ", "REP", "DREQ", "LAP", "SIDR_REQ"})  # by their sender, until an answer comes
ENDING: Final = frozenset({"REJ", "DREP", "APR", "SIDR_REP"})
# What each shows to have arrived, as the answer to it.
ANSWERS: Final[dict[str, str]] = {
    "MRA 0": "REQ",
    "REP": "REQ",
    "REJ 0": "REQ",
    "MRA 1": "REP",
    "RTU": "REP",
    "REJ 1": "REP",
    "DREP": "DREQ",
    "REJ unknown": "DREQ",
    "MRA 2": "LAP",
    "APR": "LAP",
    "SIDR_REP": "SIDR_REQ",
}
# Who sends one of these has been through the handshake, as far as its role goes.
BEYOND: Final[dict[Role, frozenset[str]]] = {
    "active": frozenset({"RTU", "MRA 1", "REJ 1", "DREQ", "LAP", "APR", "MRA 2"}),
    "passive": frozenset({"DREQ", "DREP", "LAP", "APR", "MRA 2"}),
}
RTU: Final[Sent] = ("RTU", "active")
HANDSHAKE: Final[dict[Role, tuple[Sent, ...]]] = {
    "active": (("REQ", "active"), ("REP", "passive")),
    "passive": (("REQ", "active"), ("REP", "passive"), RTU),
}


def arrivals(connection: Connection) -> list[Arrival]:
    """Of each step: whether its receiver is shown to have got it, likely has, or may well not have (open)."""
    evidence = _Evidence(connection.steps)
    for data in (connection.first_data, connection.last_data):
        for role, packet in data.items():
            evidence.beyond(role, packet.time)
    return evidence.made


def knowledge(connection: Connection, role: Role) -> Knowledge:
    """How sure the state is that an end has now."""
    end, spoke = connection.end(role), role in connection.first_data
    if end.state == "UNKNOWN":
        return "unknown"
    if (end.restarted is not None and end.state in ("IDLE", "LISTEN")) or (spoke and end.state == "ESTABLISHED"):
        return "known"
    if spoke and end.state in ("REP_RCVD", "MRA_REP_SENT"):
        return "likely"  # its data follow from an RTU, which was not captured
    since = None  # the step that brought it there
    for at in range(len(connection.steps) - 1, -1, -1):
        step = connection.steps[at]
        state = step.active_state if role == "active" else step.passive_state
        if state != end.state and not (end.timewait is not None and {state, end.state} == {"TIMEWAIT", "IDLE"}):
            break
        if step.sender == role:
            return "known"
        if step.disposition == "unexpected":
            return "likely"  # something is missing that may have moved it
        since = at
    if since is not None and _can_be_shown(connection.steps[since]) and arrivals(connection)[since] == "shown":
        return "known"
    spoke = spoke or any(step.sender == role for step in connection.steps)
    return "likely" if spoke or connection.outcome != "timed_out" else "unknown"


def _can_be_shown(step: Step) -> bool:
    return step.message.type in REPEATED or (step.message.type, step.sender) == RTU


class _Evidence:
    """What the steps show of each other."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.made: list[Arrival] = []
        self._waiting: dict[Sent, list[tuple[int, int]]] = {}  # step and time of sends that nothing has shown yet
        self._shown: set[Sent] = set()
        self._answers: dict[Sent, tuple[int, Step]] = {}  # the newest to each
        self._speakers: set[Role] = set()
        for at, step in enumerate(steps):
            self.made.append("likely")
            if step.sender != "unknown" and step.disposition != "ignored":
                self._take(at, step, step.sender)

    def beyond(self, sender: Role, time: int) -> None:
        """At this time it sent what follows only from the handshake."""
        for sent in HANDSHAKE[sender]:
            if sent not in self._shown and sent in self._waiting and self._waiting[sent][0][1] < time:
                self._show(sent)

    def _take(self, at: int, step: Step, sender: Role) -> None:
        kind, sent, name = step.message.type, (step.message.type, sender), _name(step.message)
        again = step.retransmission_of is not None
        if name in ANSWERS and not (again and kind in REPEATED):
            question = (ANSWERS[name], PEER[sender])
            self._show(question)
            self._answers[question] = (at, step)
        if name in BEYOND[sender]:
            self.beyond(sender, step.message.time + 1)
        before = self._answers.get(sent)
        behind = before is not None and not again and step.message.time - before[1].message.time <= DISORDER
        if kind in REPEATED and behind and sent not in self._shown:
            self.made[at] = "shown"  # captured behind its own answer
        elif kind in REPEATED or sent == RTU:
            self.made[at] = "open"
            if kind == "REP" and not again:
                self._waiting.pop(sent, None)  # what follows names the id of the newest
            self._waiting.setdefault(sent, []).append((at, step.message.time))
            if before is not None and again and before[1].message.type in ENDING:
                self.made[before[0]] = "open"
            if kind == "REP":
                self._waiting.pop(RTU, None)  # those so far were not what its sender waits for
        elif kind == "REJ" and PEER[sender] not in self._speakers and sender == "active":
            self.made[at] = "open"  # nothing shows that there is anybody to get it
        self._speakers.add(sender)

    def _show(self, sent: Sent) -> None:
        sends = self._waiting.pop(sent, ())
        if len(sends) == 1:
            self.made[sends[0][0]] = "shown"
        if sends:
            self._shown.add(sent)


def _name(message: CmMessage) -> str:
    """The name under which ANSWERS and BEYOND know a message."""
    fields = message.fields
    if isinstance(fields, Mra):
        return f"MRA {fields.message_mraed}"
    if isinstance(fields, Rej):
        return "REJ unknown" if rej_reason(message) == INVALID_COMM_ID else f"REJ {fields.message_rejected}"
    return message.type
