"""S09: the same QPN is refused as stale over and over."""

from __future__ import annotations

from typing import Final, NamedTuple

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.release import safe_retry
from ibcmtool.formatting import duration, end_name, qpn, times
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.packets import Address
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import refused_as_stale, rejected
from ibcmtool.rules.steps import of_type
from ibcmtool.values import Duration, Qpn, Time, Value
from ibcmtool.values import known as known_value

REPEATED_REFUSALS: Final = 3  # it speaks from the next one on
REFUSED_QPNS_KEPT: Final = 4096

S09 = rule(
    "S09",
    "stale-again-and-again",
    "The same QPN is refused as stale over and over",
    severity="warning",
    clause="IBA 12.9.8.3.1",
    explanation="More than three REQs with the same QPN from the same CA were refused with REJ 10: the receiver does"
    " not get rid of the old connection. Its DREQ is not answered (or the answer is ignored), or it sends none (S03)."
    " Reported when no further attempt is expected, with all that were counted.",
    false_positives="Two machines with the same CA GUID, where that does not show (else X12 says so).",
    advice="Stop retrying with this QPN: another QPN gets through at once. If it must be this one, wait until the"
    " receiver lets go of the old connection: its DREQ retries run out (up to about 70 s with upstream Linux, 270 s"
    ' with MLNX OFED), or its program ends the connection (nvmet logs "ctrl N keep-alive timer (N seconds)'
    " expired!\"). Restarting the receiver's service drops every host, so it comes last.",
    rests_on=(),  # the refusal itself says that the connection is held
)


class Refusals(NamedTuple):
    """What is known of one QPN that is refused as stale."""

    first: Step  # the REJ
    last: Step
    newest: int  # id of the newest connection that was refused
    refusals: int


@S09.on_step("REJ", history=rejected, when=refused_as_stale)
def refused_once_more(connection: Connection, step: Step, context: Context) -> Verdicts:
    if step.sender == "passive":
        memory, key = context.memory["S09"], _key(connection)
        known: Refusals | None = memory.pop(key, None)  # newest last
        before = known.refusals if known else 0
        memory[key] = Refusals(known.first if known else step, step, connection.id, before + 1)
        while len(memory) > REFUSED_QPNS_KEPT:
            del memory[next(iter(memory))]
    return ()


@S09.on_event("ENDED", history=rejected)
def stale_again(connection: Connection, event: Event, context: Context) -> Verdicts:
    memory, key = context.memory["S09"], _key(connection)
    known: Refusals | None = memory.get(key)
    if known is None or known.newest != connection.id:
        return
    del memory[key]
    cloned = any(context.witness.two_machines(c, connection, "active") for c in connection.request_conflicts)
    if known.refusals > REPEATED_REFUSALS and not cloned:
        yield _over_and_over(connection, known)


def _key(connection: Connection) -> tuple[Address, int | None, Address]:
    """Whose QPN is refused, and by whom."""
    return connection.active.address, connection.active.qpn, connection.passive.address


def _over_and_over(connection: Connection, known: Refusals) -> Verdict:
    """The verdict on a QPN, by the newest attempt and what has become of the old connection since."""
    end, holder = connection.active, end_name(connection.passive)
    span = known.last.message.time - known.first.message.time
    conflict = next(
        (c for c in connection.request_conflicts if c.same_peer and c.peer_state not in CLOSED_STATES), None
    )
    old = None if conflict is None else conflict.other
    number = end.qpn or 0
    evidence: dict[str, Value] = {"refusals": known.refusals, "span": Duration(span), "qpn": Qpn(number)}
    sentence = (
        f"QPN {qpn(number)} of {end_name(end)} was refused as stale {known.refusals} times within {duration(span)} "
        f"by {holder}"
    )
    if old is None or conflict is None:
        return Verdict(sentence + ".", evidence, steps=(known.first, known.last))
    sentence += f", which held it connected (connection {old.id})"
    role: Role = PEER[conflict.owner]
    dreqs = of_type(old, "DREQ", sender=role)
    dreps = of_type(old, "DREP", sender=conflict.owner)
    start = known.first.message.time
    # What becomes of it: as the row of the attempts tells it, too.
    retry = safe_retry(connection.request_conflicts, known.last.message.time)
    evidence |= {"released": known_value(Time, retry.released), "earliest_safe_retry": known_value(Time, retry.time)}
    after = "" if retry.released is None else duration(retry.released - start)
    if not dreqs:
        sentence += " and sent no DREQ on it"
    elif dreps:
        sentence += f": its DREQ was answered only {duration(dreps[0].message.time - start)} after the first refusal"
    elif retry.basis == "restarted":
        sentence += f" until its machine restarted, {after} after the first refusal"
    elif retry.basis in ("exhausted", "closed"):
        sentence += (
            f" until its DREQ, sent {times(len(dreqs))} and never answered, was given up about {after} after the first"
            " refusal"
        )
    else:
        sentence += f": its DREQ, sent {times(len(dreqs))} so far, was not answered"
    return Verdict(sentence + ".", evidence, steps=(known.first, known.last), related=(old,))
