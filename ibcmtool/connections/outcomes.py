"""What became of a connection: outcome, history, and the times of its milestones."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import INVALID_COMM_ID
from ibcmtool.connections.deadlines import OVER, Deadline, timewait_over
from ibcmtool.connections.matching import refusal, rej_reason
from ibcmtool.messages import SidrRep
from ibcmtool.model import Connection, Role, Step
from ibcmtool.packets import CmMessage, DataPacket

_LETTERS: Final = {
    "REQ": "Q",
    "MRA": "M",
    "REJ": "J",
    "REP": "P",
    "RTU": "U",
    "DREQ": "D",
    "DREP": "E",
    "LAP": "L",
    "APR": "A",
    "SIDR_REQ": "S",
    "SIDR_REP": "R",
}
HOLDING: Final = frozenset({"REP_SENT", "MRA_REP_RCVD", "ESTABLISHED", "DREQ_SENT", "DREQ_RCVD"})
# How a history writes a message: by sender and message type.
LETTERS: Final[dict[str, dict[str, str]]] = {
    "active": _LETTERS,
    "passive": {kind: letter.lower() for kind, letter in _LETTERS.items()},
}


def delayed(connection: Connection, sender: Role, message: CmMessage, first: Step | None) -> Step:
    """The step of a message that was overtaken on its way by others of its sender: it changes nothing any more."""
    states = connection.active.state, connection.passive.state
    step = Step(message, sender, "ignored", first, *states)
    connection.steps.append(step)
    record_step(connection, step)
    return step


def record_step(connection: Connection, step: Step) -> None:
    """Record a new step in history, outcome and times."""
    message = step.message
    kind, time = message.type, message.time
    letter = LETTERS[step.sender][kind]
    connection.history += letter if step.retransmission_of is None else "^" + letter
    if step.disposition in ("ignored", "duplicate"):
        return
    if kind == "RTU":
        _establish(connection, time)
    elif kind in ("DREQ", "DREP"):  # both sent a DREQ, or one a DREP: nobody holds anything, whatever was lost
        if connection.closed is None or (kind == "DREP" and "e" not in connection.history[:-1].lower()):
            connection.closed = time
        _become(connection, "closed")
    elif kind in ("REQ", "SIDR_REQ"):
        if connection.active.state in ("REQ_SENT", "SIDR_REQ_SENT"):
            _become(connection, "connecting")
            connection.closed = None
    elif kind == "REJ":
        connection.reject = step
        if rej_reason(message) == INVALID_COMM_ID and "d" in connection.history.lower():
            connection.closed = connection.closed or time
            _become(connection, "closed")  # its sender knows the connection no more
            return
        connection.closed = time
        _become(connection, refusal(message))
    elif isinstance(message.fields, SidrRep):
        connection.reply = message.fields
        connection.closed = time
        _become(connection, "rejected" if message.fields.status else "resolved")


def record_data(connection: Connection, sender: Role, packet: DataPacket) -> bool:
    """Record a data packet; True for the first of its sender. Data from the active side establishes (COMM_EST)."""
    first = sender not in connection.first_data
    if first:
        connection.first_data[sender] = packet
    connection.last_data[sender] = packet
    passive = connection.passive
    if sender == "active" and passive.state in ("REP_SENT", "MRA_REP_RCVD"):
        passive.state = "ESTABLISHED"
        _establish(connection, packet.time)
    return first


def record_deadline(connection: Connection, deadline: Deadline, in_sight: bool) -> None:
    """Record what passing time decided; not what became of it, where an answer may have come out of sight."""
    if deadline.kind in ("REQ_EXHAUSTED", "REP_EXHAUSTED"):
        connection.closed = deadline.time
    if not in_sight:
        return
    if deadline.kind == "REQ_EXHAUSTED":
        _become(connection, "timed_out")
    elif deadline.kind == "REP_EXHAUSTED":
        _become(connection, "half_open" if connection.active.state == "ESTABLISHED" else "timed_out")
    elif deadline.kind in ("DREQ_LAPSED", "DREQ_EXHAUSTED"):
        # The sender is gone or going; whether it ever reached the other end the capture does not show. Where both have
        # sent a DREQ nobody holds anything.
        peer = connection.peer(deadline.role or "active")
        both = "d" in connection.history and "D" in connection.history
        if peer.state in ("DREQ_RCVD", "ESTABLISHED") and not both:
            _become(connection, "half_open")


def record_restart(connection: Connection, message: CmMessage) -> bool:
    """Record that the port which sent a message has restarted. Returns whether an end lost anything by that."""
    lost = False
    for end in (connection.active, connection.passive):
        if end.address != message.source or (end.state in OVER and timewait_over(end, message.time)):
            continue
        # An end that has said nothing yet may belong to the new life.
        if any(step.sender == end.role for step in connection.steps):
            # A repeated REQ may yet be answered by the new life.
            waiting = end.role == "passive" and connection.established is None
            end.state, end.timewait, end.restarted = "LISTEN" if waiting else "IDLE", None, message.time
            _let_go(connection, message.time)
            lost = True
    return lost


def _let_go(connection: Connection, time: int) -> None:
    """An end has lost the connection; where the other holds it still, it is half open."""
    ends = (connection.active, connection.passive)
    if connection.outcome in ("established", "half_open") or (
        connection.outcome == "closed" and connection.closed is None
    ):
        if any(end.state in HOLDING for end in ends):
            _become(connection, "half_open")
        else:
            connection.closed = connection.closed or time
            _become(connection, "closed")


def _establish(connection: Connection, time: int) -> None:
    if connection.established is None:
        connection.established = time
    if connection.closed is None:
        _become(connection, "established")


def _become(connection: Connection, outcome: str) -> None:
    """Partial and stale stay what they are: one says what was captured, the other what was proved."""
    if connection.outcome not in ("partial", "stale"):
        connection.outcome = outcome  # type: ignore[assignment]
