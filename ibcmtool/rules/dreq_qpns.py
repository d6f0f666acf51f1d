"""T05, T06: the QPN that a DREQ must name, and what a DREQ in timewait is answered by."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.formatting import duration, end_name, qpn, times
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, of_type


def _ignored(connection: Connection, step: Step) -> bool:
    """Whether the receiver takes no notice of this message: so it is when a DREQ does not name its QPN."""
    return step.disposition == "ignored"


@rule(
    "T05",
    "dreq-wrong-qpn",
    "A DREQ names a QPN that is not the peer's",
    severity="error",
    on=("DREQ",),
    history=first,
    when=_ignored,
    clause="IBA table of DREQ (Remote QPN); Linux cm_dreq_handler",
    explanation="The Communication IDs belong to a known connection, but the Remote QPN is not the one that the peer "
    "named in its REQ or REP. The receiver must ignore such a DREQ; so it will be repeated until its retries are "
    "exhausted.",
    false_positives="Not raised where the peer's QPN is unknown (capture starts late) or the connection is XRC, "
    "whose QPN stands in another field.",
    advice="Look at the CM or consumer of the side that sent the DREQ: it mixes up two connections.",
)
def dreq_wrong_qpn(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown" or connection.request is None:
        return
    named, right = step.message.fields.remote_qpn, connection.peer(step.sender).qpn
    if named is None or right is None or named == right or connection.request.transport_service_type == 3:
        return
    yield Verdict(
        f"DREQ of {end_name(connection.end(step.sender))} names QPN {qpn(named)}, but "
        f"{end_name(connection.peer(step.sender))} uses {qpn(right)} in this connection.",
        (step,),
        {"named_qpn": qpn(named), "qpn": qpn(right)},
    )


def _after_ignored(connection: Connection, step: Step) -> bool:
    """Whether the message before this one had no effect."""
    steps = connection.steps
    return len(steps) > 1 and steps[-2].disposition == "ignored"


@rule(
    "T06",
    "dreq-in-timewait",
    "A repeated DREQ was treated wrongly after the connection was closed",
    severity="warning",
    on=("DREQ_EXHAUSTED", "DREP"),
    when=_after_ignored,
    clause="IBA 12.9.7 (TimeWait: DREQ received)",
    explanation="A DREP may be lost; so a CM in timewait must answer a repeated DREQ again when it names the right "
    "QPN (warning if it does not), and ignore one with a wrong QPN (info if it answers: Linux does so statelessly "
    "once the connection is forgotten).",
    false_positives="The second DREP is missing from the capture: raised only when the DREQ was repeated more than "
    "once after the first DREP, until its sender gave up.",
    advice="Nothing is lost: both sides end in timewait. Look at the CM that does not answer if it happens often.",
)
def dreq_in_timewait(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if event.kind == "DREP":
        yield from _wrong_one_answered(event)
        return
    role = event.role
    dreqs = of_type(connection, "DREQ", sender=role)
    dreps = of_type(connection, "DREP", sender=None if role is None else PEER[role])
    if not dreqs or not dreps or dreqs[-1].retransmission_of is None or connection.request is None:
        return
    # One that is repeated once more was answered, in a message that is not in the capture: its sender was content.
    unanswered = [dreq for dreq in dreqs if dreq.message.time - dreps[-1].message.time >= DISORDER]
    if len(unanswered) < 2:
        return
    waited = event.time - dreqs[-1].message.time
    if not view.covered(connection, dreps[-1].message.time, event.time):
        return
    yield Verdict(
        f"DREQ repeated {times(len(unanswered))} after a DREP (which may have been lost), at last "
        f"{duration(dreqs[-1].message.time - dreps[-1].message.time)} after it, and not answered again within "
        f"{duration(waited)}.",
        (dreps[-1], dreqs[-1]),
        {"repetitions": len(unanswered), "waited_ns": waited},
        "probable",
    )


def _wrong_one_answered(event: Event) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    last = connection.steps[-2]
    right = connection.end(step.sender).qpn
    if last.message.type != "DREQ" or last.sender == step.sender or right is None:
        return
    named = last.message.fields.remote_qpn
    others = [
        s for s in of_type(connection, "DREQ") if s.sender == last.sender and s.message.fields.remote_qpn == right
    ]
    if named is not None and named != right and not others:
        yield Verdict(
            f"DREQ with the wrong QPN {qpn(named)} (right: {qpn(right)}) was answered with DREP.",
            (last, step),
            {"named_qpn": qpn(named), "qpn": qpn(right)},
            severity="info",
        )
