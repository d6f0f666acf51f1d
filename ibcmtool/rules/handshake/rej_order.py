"""H11, H21: a REJ of a side that had accepted before, or had even established the connection (IBA 12.9.7)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import CONSUMER_REJECT, INVALID_COMM_ID, INVALID_COMM_INSTANCE, REQ_REJECTED, TIMEOUT
from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.evidence import in_order, one_clock, proved, unopposed
from ibcmtool.formatting import duration
from ibcmtool.messages import Mra, Rej
from ibcmtool.model import Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, rej_reason
from ibcmtool.rules.steps import DISORDER, before, between, fields_of, numbered_before, of_type
from ibcmtool.values import Duration

# What only a side sends that takes the connection for established, or knows that it is over.
BEYOND_HANDSHAKE: Final = ("DREQ", "DREP", "LAP", "APR")
LETS_GO: Final = (CONSUMER_REJECT, TIMEOUT, None)  # after a REP it takes that back, and answers no REQ

H11 = rule(
    "H11",
    "rej-when-established",
    "A REJ for a connection that its sender had established",
    severity="warning",
    clause="IBA 12.9.7.1, 12.9.7.2 (no REJ is sent in Established); Linux cm_send_rej_locked",
    explanation="A REJ ends a handshake; an established connection is closed by DREQ. The active side is established"
    " once it has sent its RTU, the passive side once the RTU (or data) has arrived. Linux obeys such a REJ and goes"
    " to timewait as after a DREQ, illumos obeys it on the active side only; others stay connected.",
    false_positives="A passive side that never got the RTU may still reject: accused only if it has sent data, a DREQ,"
    " DREP, LAP or APR, or if it did not repeat its REP although its wait was over. Not reported within 50 ms of the"
    " RTU, after a newer REQ, for REJs about a REQ (that one may not have been captured), and for reasons 6 and 7,"
    " which say that the sender does not know the connection.",
    advice="Look at the sender's CM or consumer: it rejects what it had accepted. See whether the other end let go.",
)


@H11.on_step("REJ", history=matches(r"[^U]*U.*(?<!\^)[Jj]"), needs=("request", "sender"))
def rej_when_established(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields, active = fields_of(step, Rej), step.sender == "active"
    if fields.reason in (INVALID_COMM_ID, INVALID_COMM_INSTANCE, None):
        return
    if not active and fields.message_rejected == REQ_REJECTED:
        return
    rtu = next((old for old in before(connection, step) if old.message.type in ("RTU", "REQ")), None)
    if rtu is None or rtu.message.type == "REQ":
        return
    gap, proof = between(rtu, step), "" if active else _rtu_arrived(connection, rtu, step, context)
    if gap <= DISORDER or proof is None:
        return
    yield Verdict(
        f"REJ (reason {fields.reason}) of the {step.sender} side {duration(gap)} after "
        f"{'its own' if active else 'the'} RTU{proof}: only a DREQ ends an established connection.",
        {"reason": fields.reason, "gap": Duration(gap), "sender": step.sender},
        (
            (proved if active else unopposed)("received"),
            one_clock(rtu, step, otherwise="weakened"),
            in_order(rtu.message, step.message),
        ),
        steps=(rtu, step),
    )


def _rtu_arrived(connection: Connection, rtu: Step, reject: Step, context: Context) -> str | None:
    """What shows that the passive side was established before its REJ, in words; None if nothing does."""
    replies = of_type(connection, "REP")
    data = connection.first_data.get("passive")
    if data is not None and data.time < reject.message.time:
        return f" and after data of the passive side ({context.frame(data)})"
    for step in of_type(connection, *BEYOND_HANDSHAKE, sender="passive"):
        if between(step, reject) > 0:
            return f" and after a {step.message.type} of the passive side"
    if any(between(rtu, reply) > 0 for reply in replies):
        return None
    retries = max_cm_retries(connection.request)
    if retries is None or len(replies) > retries:
        return None  # it had no more REP to repeat
    wait = response_wait(connection.request, "passive").nominal
    for mra in of_type(connection, "MRA", sender="active"):
        wait = max(wait, exponent(fields_of(mra, Mra).service_timeout or 0))
    overdue = between(rtu, reject) > wait + wait // SLACK
    return f" without repeating its REP (due after {duration(wait)})" if overdue else None


H21 = rule(
    "H21",
    "rep-and-rej",
    "A REQ was accepted, then rejected",
    severity="warning",
    clause="IBA 12.9.7.2 (REP sent); Linux cm_send_rej_locked",
    explanation="Each REQ gets one answer. After its REP a passive side may still end the attempt because its consumer"
    " changed its mind (reason 28) or because nobody answered the REP (reason 4); every other reason says that the REQ"
    " was not acceptable, which contradicts the REP. Two processes or CMs may be answering for one port. For a REJ"
    " before the REP see H02.",
    false_positives="A repeated REQ may be answered anew once the passive side gave up on its REP: not reported when as"
    " many REQs as answers were captured. After an RTU it is H11. A REP whose number shows that it was sent after the"
    " REJ is no answer before it. A repeated REQ that is missing from the capture, or a kernel consumer that rejects"
    " with a reason of its own, makes it never more than probable.",
    advice="Look at the passive side: which CM or consumer sent which of the two answers, and why.",
)


@H21.on_event("ENDED", history=matches("[^p]*p.*j.*"), needs=("request",))
def rep_and_rej(connection: Connection, event: Event, context: Context) -> Verdicts:
    for reject in of_type(connection, "REJ", sender="passive"):
        reason, time = rej_reason(reject), reject.message.time
        if reject.retransmission_of is not None or reason in LETS_GO:
            continue
        replies = [
            step
            for step in _sent(connection, "REP", "passive", time)
            if step.retransmission_of is None and not numbered_before(reject, step)
        ]
        rejects = [step for step in _sent(connection, "REJ", "passive", time) if rej_reason(step) not in LETS_GO]
        requests = _sent(connection, "REQ", "active", time + DISORDER)
        if not replies or _sent(connection, "RTU", "active", time) or len(requests) >= len(replies) + len(rejects):
            continue
        gap = between(replies[-1], reject)
        yield Verdict(
            f"The passive side answered the REQ with a REP and {duration(gap)} later with a REJ of reason {reason};"
            f" {len(requests)} REQ captured, {len(replies)} REP and {len(rejects)} REJ.",
            {"gap": Duration(gap), "reason": reason, "requests": len(requests), "rejects": len(rejects)},
            (unopposed("complete"), one_clock(replies[-1], reject, otherwise="weakened")),
            steps=(replies[-1], reject),
        )
        return


def _sent(connection: Connection, kind: str, sender: Role, until: int) -> list[Step]:
    """What a side had sent of one type up to a time (ns), that moment included."""
    return [step for step in of_type(connection, kind, sender=sender) if step.message.time <= until]
