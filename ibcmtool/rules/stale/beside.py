"""S13: connections that go down beside one that was refused as stale."""

from __future__ import annotations

from typing import Final

from ibcmtool.formatting import address, duration, end_name
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, refused_as_stale
from ibcmtool.rules.steps import between, sender_end
from ibcmtool.values import Duration

BESIDE: Final = 1_000_000_000  # ns after a stale refusal in which a connection is seen with it

S13 = rule(
    "S13",
    "closed-beside-stale",
    "A sound connection was closed right after another one was refused as stale",
    severity="info",
    clause="IBA 12.9.8.3.1 (only the connection that the stale QPN belongs to gets a DREQ)",
    explanation="After a stale refusal the CM must release the one connection that holds the QPN. Within a second a "
    "port that had refused, or its peer, sent a DREQ on another connection of the same service as well. No stale "
    "REQ or REP named a QPN of that one, so it was its consumer that closed it: for instance because it restarts "
    "all its connections when one fails. So people see sound connections go down, and blame the stale one.",
    false_positives="A connection that was to be closed at that moment anyway. It accuses nobody.",
    advice="Look at the consumer that sent this DREQ: its CM had no reason to touch the connection.",
    rests_on=(),  # the refusal itself says that the connection is held
)


@S13.on_step("REJ", history=first, when=refused_as_stale, needs=("sender",))
def stale_refusal(connection: Connection, step: Step, context: Context) -> Verdicts:
    context.memory["S13"][step.message.source] = (step, connection)  # the newest of each port
    return ()


@S13.on_step("DREQ", history=first, needs=("sender",))
def closed_beside_stale(connection: Connection, step: Step, context: Context) -> Verdicts:
    refusals, ports = context.memory["S13"], (step.message.source, step.message.destination)
    port = next((port for port in ports if port in refusals), None) if refusals else None
    if port is None or connection.stale_by is not None or connection.established is None:
        return ()
    reject, refused = refusals[port]
    return _after_refusal(connection, step, reject, refused, context)


def _after_refusal(connection: Connection, step: Step, reject: Step, refused: Connection, context: Context) -> Verdicts:
    """The verdict on a DREQ that came after a refusal for another connection."""
    gap = between(reject, step)
    if any(context.witness.two_machines(c, refused, role) for role, c in refused.conflicts()):
        return  # nothing was stale (X12)
    if gap <= BESIDE and refused.service_id == connection.service_id:
        sender = end_name(sender_end(connection, step))
        yield Verdict(
            f"{sender} closed this connection {duration(gap)} after {address(reject.message.source)} had refused"
            f" connection {refused.id} as stale. No stale REQ or REP named one of its QPNs: this DREQ is the consumer's"
            " own.",
            {"after_refusal": Duration(gap)},
            steps=(reject, step),
            related=(refused,),
            advice=f"Look at the consumer on {sender}: its CM had no reason to touch this connection.",
        )
