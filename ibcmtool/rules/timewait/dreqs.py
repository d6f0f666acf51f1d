"""T05, T06, T09: the QPN that a DREQ must name, DREQs in timewait, and a timewait that only one side knows of."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.timers import response_wait
from ibcmtool.connections.traces import DISORDER
from ibcmtool.evidence import Ground, not_held_up, unopposed, weakened
from ibcmtool.formatting import count, duration, end_name, qpn, times
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.steps import named_qpn, names_another_qpn, of_type, role_of, sender_end
from ibcmtool.values import Duration, Qpn


def _ignored(connection: Connection, step: Step) -> bool:
    """Whether the receiver takes no notice of this message: so it is when a DREQ does not name its QPN."""
    return step.disposition == "ignored"


T05 = rule(
    "T05",
    "dreq-wrong-qpn",
    "A DREQ names a QPN that is not the peer's",
    severity="error",
    clause="IBA table of DREQ (Remote QPN); Linux cm_dreq_handler",
    explanation="The Communication IDs belong to a known connection, but the Remote QPN is not the one that the "
    "peer named in its REQ or REP. The receiver must ignore such a DREQ; so it will be repeated until its retries "
    "are exhausted.",
    false_positives="Not raised where the peer's QPN is unknown (capture starts late) or the connection is XRC, "
    "whose QPN stands in another field.",
    advice="Look at the CM or consumer of the side that sent the DREQ: it mixes up two connections.",
)


@T05.on_step("DREQ", history=first, when=_ignored, needs=("sender", "request"))
def dreq_wrong_qpn(connection: Connection, step: Step, context: Context) -> Verdicts:
    return names_another_qpn(connection, step, context)


T06 = rule(
    "T06",
    "dreq-in-timewait",
    "A repeated DREQ was treated wrongly after the connection was closed",
    severity="warning",
    clause="IBA 12.9.7 (TimeWait: DREQ received)",
    explanation="A DREP may be lost; so a CM in timewait must answer a repeated DREQ again when it names the right "
    "QPN (warning if it does not), and ignore one with a wrong QPN (info if it answers: Linux does so statelessly "
    "once the connection is forgotten).",
    false_positives="The second DREP is missing from the capture: raised only when the DREQ was repeated more than "
    "once after the first DREP, until its sender gave up.",
    advice="Nothing is lost: both sides end in timewait. Look at the CM that does not answer if it happens often.",
)


@T06.on_event("DREQ_EXHAUSTED", needs=("request",))
def not_answered_again(connection: Connection, event: Event, context: Context) -> Verdicts:
    role = role_of(event)
    dreqs, dreps = of_type(connection, "DREQ", sender=role), of_type(connection, "DREP", sender=PEER[role])
    if not dreps or dreqs[-1].retransmission_of is None:
        return
    # One that is repeated once more was answered, in a message that is not in the capture: its sender was content.
    unanswered = [dreq for dreq in dreqs if dreq.message.time - dreps[-1].message.time >= DISORDER]
    timewait = connection.peer(role).timewait  # behind it not all CMs know what to answer
    bound = sum(timewait is not None and dreq.message.time < timewait.minimum for dreq in unanswered) > 1
    if len(unanswered) < 2:
        return
    waited = event.time - dreqs[-1].message.time
    if not context.covered(connection, dreps[-1].message.time, event.time):
        return
    yield Verdict(
        f"DREQ repeated {times(len(unanswered))} after a DREP (which may have been lost), at last "
        f"{duration(dreqs[-1].message.time - dreps[-1].message.time)} after it, and not answered again within "
        f"{duration(waited)}.",
        {"repetitions": len(unanswered), "waited": Duration(waited)},
        (
            context.witness.silent(connection.peer(role).address, dreps[-1].message.time, dreqs[-1].message.time),
            (unopposed if bound else weakened)("meaning"),
        ),
        steps=(dreps[-1], dreqs[-1]),
    )


def _after_ignored(connection: Connection, step: Step) -> bool:
    """Whether the message before this one had no effect."""
    steps = connection.steps
    return len(steps) > 1 and steps[-2].disposition == "ignored"


@T06.on_step("DREP", when=_after_ignored, needs=("sender",))
def wrong_one_answered(connection: Connection, step: Step, context: Context) -> Verdicts:
    last, right = connection.steps[-2], sender_end(connection, step).qpn
    named = named_qpn(last)
    if last.sender == step.sender or right is None or named is None or named == right:
        return
    if not any(named_qpn(dreq) == right for dreq in of_type(connection, "DREQ") if dreq.sender == last.sender):
        yield Verdict(
            f"DREQ with the wrong QPN {qpn(named)} (right: {qpn(right)}) was answered with DREP.",
            {"named_qpn": Qpn(named), "qpn": Qpn(right)},
            steps=(last, step),
            severity="info",
        )


T09 = rule(
    "T09",
    "one-sided-timewait",
    "One side went to timewait after unanswered DREQs, the other is still at work",
    severity="warning",
    clause="IBA 12.9.7 (DREP timeout: to TimeWait)",
    explanation="All DREQs went unanswered, so their sender put its QP into timewait and will forget the "
    "connection. The other side has sent data or CM messages on it since: it is alive and never heard of the end. "
    "Later connections with these QPNs will be refused as stale. Only possible where it was not heard behind the last "
    "DREQ, which may have reached it.",
    false_positives="DREQ or DREP missing from the capture; data that was under way.",
    advice="Close the connection on the side that still sends; find out why DREQs do not reach it (port, partition, "
    "filter).",
)


LAST_RECEIVED: Final = Ground("received", "weakened", "the last DREQ may have arrived, and its DREP been lost")


@T09.on_event("DREQ_EXHAUSTED")
def one_sided_timewait(connection: Connection, event: Event, context: Context) -> Verdicts:
    role = role_of(event)
    dreqs, peer = of_type(connection, "DREQ", sender=role), connection.peer(role)
    if (peer.state in CLOSED_STATES and peer.state != "UNKNOWN") or of_type(connection, "DREP", sender=PEER[role]):
        return  # it had heard of the end
    # What was under way for long says nothing of its sender's present.
    steps = [s for s in connection.steps if s.sender == PEER[role] and s.disposition != "ignored"]
    said = [s.message.time for s in steps]
    data = connection.last_data.get(PEER[role])
    alive = max(said + ([data.time] if data else []), default=0)
    first, last = dreqs[0].message.time, dreqs[-1].message.time
    if not context.covered(connection, first, event.time):
        return
    if alive - first > response_wait(connection.request, role).nominal:
        yield Verdict(
            f"{end_name(connection.end(role))} gave up after {count(len(dreqs), 'DREQ')} without DREP, but"
            f" {end_name(peer)} was still at work {duration(alive - first)} after the first of them.",
            {"dreqs": len(dreqs), "peer_alive_after": Duration(alive - first)},
            (
                unopposed("received") if alive > last + DISORDER else LAST_RECEIVED,
                not_held_up(steps, first, alive),
                context.witness.silent(peer.address, first, alive) if alive in said else unopposed("complete"),
            ),
            steps=(dreqs[0], dreqs[-1]),
        )
