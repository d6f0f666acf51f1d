"""Why an attempt was refused, in a form that can be counted."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ibcmtool import services
from ibcmtool.connections.matching import rej_reason
from ibcmtool.messages import SidrRep
from ibcmtool.model import Connection, Role


class Refusal(NamedTuple):
    """A REJ, or a SIDR_REP with a status that is not 0."""

    reason: int | None  # REJ reason, of a SIDR exchange the status; None where the capture cut it off
    words: str = ""  # what the consumer said, in the words of its protocol (reason 28)
    by: Role | Literal["unknown"] = "passive"
    sidr: bool = False


def refusal_of(connection: Connection) -> Refusal | None:
    """How a rejected connection was refused; None for all others."""
    if connection.outcome != "rejected":
        return None
    step = connection.reject
    if step is None:
        reply = connection.reply
        return Refusal(reply.status if isinstance(reply, SidrRep) else None, sidr=connection.sidr)
    pairs = services.private_data(connection, step.message) or ()
    # A label says what a number is; the consumer's reason stands without one, first.
    words = next((value for label, value in pairs if not label), "") or ", ".join(f"{one} {two}" for one, two in pairs)
    return Refusal(rej_reason(step.message), words, step.sender)
