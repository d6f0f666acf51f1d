"""R07, R16: DREQs whose DREP never came, or came late (IBA 12.9.7)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.evidence import unopposed, weakened
from ibcmtool.formatting import address, duration, end_name, qpn
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.rules.silence import reported
from ibcmtool.rules.steps import DISORDER, between, heard, of_type, role_of, sender_of, sends, sent_by
from ibcmtool.values import Duration

NOTABLE: Final = 1_000_000_000  # ns; what is answered sooner is not late by any timer in use

R07 = rule(
    "R07",
    "drep-missing",
    "A DREQ got no DREP",
    severity="warning",
    clause="IBA 12.9.7 (DREQ sent: to TimeWait when the retries are used up); Linux cm_process_send_error",
    explanation="A DREQ is repeated until its DREP comes. Without one, the sender waits through every retry (66 to 98"
    " s with upstream Linux on RoCE, minutes with OFED's defaults) before its timewait begins, and the other side may"
    " hold the connection still. There are three causes: the peer is dead or cut off; DREQs or DREPs are lost; or,"
    " common, the peer got the DREQ and its program has not disconnected yet. Linux sends the DREP only when it does,"
    " and drops repeated DREQs meanwhile. Warning when every send allowed was captured, information when the sender"
    " stopped earlier. For a DREQ sent exactly once see S12.",
    false_positives="If nothing was captured from the other side's address, its direction is probably missing (possible"
    " only); a DREP lost before the capture point looks like none. Of several inputs, one that has the last DREQ and"
    " shows the peer's direction must go on until the answer was due, else it is information. Linux ignores a DREQ"
    " whose Remote QPN is wrong (T05).",
    advice="On the peer, if it is alive, read /sys/class/infiniband/DEV/ports/N/cm_rx_duplicates/dreq twice while"
    " DREQs are repeated. If it rises, they arrive: the program there has not called rdma_disconnect, so look at why"
    " it hangs. If not, DREQs or DREPs are lost on the way. Until the peer lets go, a REQ with the same QPN is refused"
    " there as stale; another QPN is accepted.",
)


@R07.on_event("DREQ_EXHAUSTED")
def dreqs_exhausted(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = _unanswered(connection, role_of(event))
    if tries and _were_all(connection, tries):
        yield from _drep_missing(connection, event, context, tries, exhausted=True)


@R07.on_event("DREQ_LAPSED", once="connection")
def dreqs_stopped(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = _unanswered(connection, role_of(event))
    # A single one is S12's; and one that is sent again after all is not the last.
    if len(tries) > 1 and not _were_all(connection, tries) and tries[-1].message.time <= event.time:
        yield from _drep_missing(connection, event, context, tries, exhausted=False)


def _unanswered(connection: Connection, role: Role) -> list[Step]:
    """The sends of the newest DREQ of this end; none if a DREP was captured, perhaps before it."""
    tries = sends(connection, of_type(connection, "DREQ", sender=role)[-1])
    dreps = of_type(connection, "DREP", sender=PEER[role])
    return [] if any(between(tries[0], drep) >= -DISORDER for drep in dreps) else tries


def _were_all(connection: Connection, tries: list[Step]) -> bool:
    """Whether these are all sends that Max CM Retries allows."""
    retries = max_cm_retries(connection.request)
    return retries is not None and len(tries) > retries


def _drep_missing(
    connection: Connection, event: Event, context: Context, tries: list[Step], *, exhausted: bool
) -> Verdicts:
    role = role_of(event)
    last, wait = tries[-1].message.time, response_wait(connection.request, role).nominal
    if not context.covered(connection, last, min(event.time, last + wait)):
        return
    span, retries = between(tries[0], tries[-1]), max_cm_retries(connection.request)
    allowed = None if retries is None else retries + 1
    responsive = heard(context, connection, PEER[role])
    icmp = reported(context, tries[0])
    sent = f"{len(tries)}" if allowed is None else f"{len(tries)} of {allowed}"
    yield Verdict(
        f"{sent} sends of the {sent_by(tries[0])} over {duration(span)}, and no DREP from"
        f" {end_name(connection.peer(role))} was captured."
        + ("" if responsive else " Nothing of that address was: perhaps only one direction is captured.")
        + (f" {icmp[0][:1].upper()}{icmp[0][1:]}." if icmp else "")
        + _asked_again_at_last(context, connection, role, tries),
        {"sends": len(tries), "allowed": allowed, "span": Duration(span)},
        (
            context.witness.complete(connection.peer(role).address, tries[0].message.time, last + wait)
            if responsive
            else weakened("complete"),
            *(() if exhausted else (unopposed("complete"),)),
            *context.no_answer_in_sight(tries[-1], min(event.time, last + wait), heard=responsive),
        ),
        steps=(tries[0], tries[-1]) if len(tries) > 1 else (tries[0],),
        severity="warning" if exhausted and responsive else "info",
        advice=_released(connection, role) if exhausted else None,
    )


def _asked_again_at_last(context: Context, connection: Connection, role: Role, dreqs: list[Step]) -> str:
    """Whether the sender of the DREQs has asked its peer for a new connection since, and had waited for the retries."""
    request = context.restarts.next_request(connection, role, dreqs[-1].message.time)
    if request is None:
        return ""
    after, rest = between(dreqs[0], request), between(dreqs[-1], request)
    waited = rest * 10 >= response_wait(connection.request, role).minimum * 9
    text = f" The next REQ of {address(request.message.source)} came {duration(after)} after the first DREQ"
    return f"{text} ({context.frame(request.message)})" + (": so long it had waited for the DREP." if waited else ".")


def _released(connection: Connection, role: Role) -> str:
    """What holds once all DREQs of `role` went unanswered."""
    name, peer = end_name(connection.end(role)), connection.peer(role)
    if connection.stale_by is not None and connection.stale_by.active.ca_guid == peer.ca_guid:
        return (
            f"{name} has let go: it takes QPN {qpn(peer.qpn)} again. Find out why no DREQ was answered: they went to"
            f" {address(peer.address)}."
        )
    return (
        f"{name} has let go and begins its timewait. {end_name(peer)} may hold its half still: until its consumer or"
        f" its transport retries end it, a REQ with QPN {qpn(connection.end(role).qpn)} will be refused there as stale."
        " Another QPN is accepted. See whether it is alive: if cm_rx_duplicates/dreq of its port (below"
        " /sys/class/infiniband/DEV/ports/N) has risen, it got the DREQs, and its program has yet to disconnect."
    )


R16 = rule(
    "R16",
    "drep-late",
    "A DREP came late, and its DREQ had not been repeated",
    severity="info",
    clause="Linux ib_destroy_cm_id (one DREQ, no wait for the DREP); IBA 12.10.8",
    explanation="The DREP came later than the timeout of the DREQ, which its sender would have repeated by then had"
    " the connection's owner still waited for it. An owner that destroys the connection right after rdma_disconnect"
    " leaves a single DREQ (nvme-rdma always does), and so does a process that ends or crashes. The peer got it and"
    " let go in the end, so nothing stays behind. Until then its program had not disconnected: Linux sends the DREP"
    " only when it does.",
    false_positives="Repetitions of the DREQ that are missing from the capture (never more than probable).",
    advice="Nothing to do on the side that sent the DREQ. If the wait hurts, look at why the peer's program took so"
    " long to disconnect.",
)


def _late(connection: Connection, step: Step) -> bool:
    """Whether this DREP comes long after what was said before it."""
    steps = connection.steps
    return len(steps) > 1 and between(steps[-2], step) > NOTABLE


# The only DREP, to the only DREQ.
@R16.on_step("DREP", history=matches(r"[^dDeE]*[dD][^dDeE]*(?<!\^)[eE]"), when=_late, needs=("request", "sender"))
def drep_late(connection: Connection, step: Step, context: Context) -> Verdicts:
    sender = sender_of(step)
    (dreq,) = of_type(connection, "DREQ")
    wait, gap = response_wait(connection.request, PEER[sender]).nominal, between(dreq, step)
    if connection.established is None or dreq.sender != PEER[sender] or gap <= wait + wait // SLACK:
        return
    if context.covered(connection, dreq.message.time, step.message.time):
        gapless = context.witness.complete(dreq.message.source, dreq.message.time, step.message.time)
        name = end_name(connection.peer(sender))
        again = (
            f"Messages of {name} are missing in between: it repeated the DREQ, it seems, and that was lost on its way."
            if gapless.strength == "weakened"
            else f"{name} did not repeat it after {duration(wait)}: its owner had destroyed the connection by then, it"
            " seems."
        )
        yield Verdict(
            f"DREP {duration(gap)} after the only DREQ captured. {again} Until the DREP"
            f" {end_name(connection.end(sender))} held its half of the connection, or the DREP was under way.",
            {"gap": Duration(gap), "timeout": Duration(wait)},
            (unopposed("complete"),),
            steps=(dreq, step),
        )
