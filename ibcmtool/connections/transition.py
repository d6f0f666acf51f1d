"""What a message does to both ends: the joint table, and what only the connection itself can tell."""

from __future__ import annotations

from ibcmtool.connections.matching import ADDRESSED, VARIANTS, misaddressed, variant
from ibcmtool.connections.tables import JOINT
from ibcmtool.connections.traces import DISORDER
from ibcmtool.model import Connection, Disposition, Role, State, Step
from ibcmtool.packets import CmMessage

Transition = tuple[State, State, Disposition]  # active and passive end after the message


def transition(connection: Connection, sender: Role, message: CmMessage, first: Step | None) -> Transition:
    """The states after a message, and what its receiver makes of it. first: the step of which it is a repetition."""
    active, passive, kind = connection.active.state, connection.passive.state, message.type
    if kind in ADDRESSED and misaddressed(connection, sender, message):
        return active, passive, "ignored"  # the receiver does not take it for this connection
    if kind == "DREQ" and _is_answered(connection, sender, message):
        return active, passive, "accepted"
    known = JOINT.get((active, passive, sender, kind if kind not in VARIANTS else variant(message)))
    if kind == "REQ" and connection.steps and connection.steps[0].message.type != "REQ":
        # Captured behind its own answer: it shows what was missing, not that the REP was lost.
        return active, passive, "unexpected" if known is None else known[2]
    if known is None:
        return active, passive, "unexpected"
    disposition: Disposition
    active_after, passive_after, disposition = known
    if first is not None:
        unmoved = passive_after == passive if sender == "active" else active_after == active
        if unmoved and disposition != "unexpected":
            disposition = "duplicate"
    return active_after, passive_after, disposition


def _is_answered(connection: Connection, sender: Role, dreq: CmMessage) -> bool:
    """Whether the answer to this DREQ was captured right before it: the close is that pair."""
    if connection.end(sender).state != "TIMEWAIT":
        return False
    before = connection.steps[-1]
    if dreq.time - before.message.time > DISORDER:
        return False
    asked = sum(step.message.type == "DREQ" and step.sender == sender for step in connection.steps)
    answered = sum(step.message.type == "DREP" and step.sender != sender for step in connection.steps)
    return before.message.type == "DREP" and before.sender != sender and answered > asked
