"""H: REJs that do not fit: in a state that has none, beside a REP, with a reason or an id that means nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.codes import TIMEOUT
from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.formatting import address, comm_id, duration
from ibcmtool.model import Confidence, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.reject_message import REQ_REJECTED
from ibcmtool.rules.steps import DISORDER, before, of_type, one_capture

INVALID_COMM_ID, INVALID_COMM_INSTANCE, CONSUMER_REJECT = 6, 7, 28  # reasons
UNASSIGNED, LAST_REASON = 34, 35
# What only a side sends that takes the connection for established, or knows that it is over.
BEYOND_HANDSHAKE = ("DREQ", "DREP", "LAP", "APR")
LEAKS_KEPT = 1024  # addresses that H17 has spoken of


def _after_rtu(history: str) -> bool:
    return first(history) and "U" in history


@rule(
    "H11",
    "rej-when-established",
    "A REJ for a connection that its sender had established",
    severity="warning",
    on=("REJ",),
    history=_after_rtu,
    clause="IBA 12.9.7.1, 12.9.7.2 (no REJ is sent in Established); Linux cm_send_rej_locked",
    explanation=(
        "A REJ ends a handshake; an established connection is closed by DREQ. The active side is established once it"
        " has sent its RTU, the passive side once the RTU (or data) has arrived. Linux obeys such a REJ and goes to"
        " timewait as after a DREQ, illumos obeys it on the active side only; others stay connected."
    ),
    false_positives=(
        "A passive side that never got the RTU may still reject: accused only if it has sent data, a DREQ, DREP, LAP or"
        " APR, or if it did not repeat its REP although its wait was over. Silent within 50 ms of the RTU, after a"
        " newer REQ, for REJs about a REQ (that one may not have been captured), and for reasons 6 and 7, which say"
        " that the sender does not know the connection."
    ),
    advice="Look at the sender's CM or consumer: it rejects what it had accepted. See whether the other end let go.",
)
def rej_when_established(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.request is None or step.sender == "unknown":
        return
    fields = step.message.fields
    if fields.reason in (INVALID_COMM_ID, INVALID_COMM_INSTANCE, None):
        return
    if step.sender == "passive" and fields.message_rejected == REQ_REJECTED:
        return
    rtu = next((old for old in before(connection, step) if old.message.type in ("RTU", "REQ")), None)
    if rtu is None or rtu.message.type == "REQ":
        return
    gap = step.message.time - rtu.message.time
    proof = "" if step.sender == "active" else _rtu_arrived(connection, rtu, step)
    if gap <= DISORDER or proof is None:
        return
    confidence: Confidence = "certain" if step.sender == "active" else "probable"
    yield Verdict(
        f"REJ (reason {fields.reason}) of the {step.sender} side {duration(gap)} after "
        + ("its own RTU" if step.sender == "active" else "the RTU")
        + f"{proof}: only a DREQ ends an established connection.",
        (rtu, step),
        {"reason": fields.reason, "gap_ns": gap, "sender": step.sender},
        confidence=confidence if one_capture(rtu, step) else "possible",
    )


def _rtu_arrived(connection: Connection, rtu: Step, reject: Step) -> str | None:
    """What shows that the passive side was established before its REJ, in words; None if nothing does."""
    replies = [step.message for step in of_type(connection, "REP")]
    data = connection.first_data.get("passive")
    if data is not None and data.time < reject.message.time:
        return f" and after data of the passive side (frame {data.frame})"
    for step in of_type(connection, *BEYOND_HANDSHAKE, sender="passive"):
        if step.message.time < reject.message.time:
            return f" and after a {step.message.type} of the passive side"
    if any(reply.time > rtu.message.time for reply in replies):
        return None
    retries = max_cm_retries(connection.request)
    if retries is None or len(replies) > retries:
        return None  # it had no more REP to repeat
    wait = response_wait(connection.request, "passive").nominal
    for mra in of_type(connection, "MRA", sender="active"):
        wait = max(wait, exponent(mra.message.fields.service_timeout or 0))
    gap = reject.message.time - rtu.message.time
    return f" without repeating its REP (due after {duration(wait)})" if gap > wait + wait // SLACK else None


def _reserved(connection: Connection, step: Step) -> bool:
    """Whether the specification has no meaning for this reason."""
    reason: int | None = step.message.fields.reason
    return reason is not None and (reason in (0, UNASSIGNED) or reason > LAST_REASON)


@rule(
    "H16",
    "rej-reserved-reason",
    "A REJ with a reason that is not defined",
    severity="warning",
    on=("REJ",),
    history=first,
    when=_reserved,
    clause="IBA 12.6.7.2 (reasons 1-33 and 35)",
    explanation=(
        "The reason of a REJ is a number from a fixed table; 0, 34 and everything above 35 are not in it. The"
        " requester cannot tell what to change, and its consumer sees a number without a name. Consumers have reason 28"
        " for what they want to say, with codes of their own in the additional information or the private data."
    ),
    false_positives="A newer edition of the specification may define more reasons.",
    advice="Look at the consumer or CM that sent it: it may have put an error number of its own into the reason.",
)
def rej_reserved_reason(event: Event, view: Context) -> Iterator[Verdict]:
    step = event.step
    if step is None:
        return
    reason = step.message.fields.reason
    yield Verdict(
        f"REJ of {address(step.message.source)} with reason {reason}, which is not defined.",
        (step,),
        {"reason": reason},
    )


def _leaking(connection: Connection, step: Step) -> bool:
    """Whether this REJ has the Vendor ID of the REQ as its Local Communication ID."""
    request = connection.request
    if request is None or step.sender != "passive":
        return False
    return bool(request.ece_vendor_id) and step.message.fields.local_comm_id == request.ece_vendor_id


@rule(
    "H17",
    "rej-ece-leak",
    "The Local Communication ID of a REJ is the REQ's Vendor ID",
    severity="info",
    on=("REJ",),
    history=first,
    when=_leaking,
    clause="Linux cm_issue_rej copies bytes 4-7 of the refused message",
    explanation=(
        "A Linux CM that refuses a REQ without keeping any state of it (reason 8, 10 and others) copies four bytes of"
        " the REQ into the REJ. A REQ with enhanced connection establishment (ECE) has its Vendor ID there, so this"
        " Local Communication ID names nothing, and no later message will have it. Reported once for each address."
    ),
    false_positives="None known: a real Communication ID equals the Vendor ID once in four billion.",
    advice="Nothing to do; do not search the capture for this id.",
)
def rej_ece_leak(event: Event, view: Context) -> Iterator[Verdict]:
    step, told = event.step, view.memory["H17"]
    if step is None or step.message.source in told:
        return
    told[step.message.source] = True
    if len(told) > LEAKS_KEPT:
        del told[next(iter(told))]
    vendor = event.connection.request.ece_vendor_id
    yield Verdict(
        f"REJ of {address(step.message.source)} has Local Communication ID {comm_id(vendor)}: the Vendor ID of the REQ,"
        " not an id of its sender.",
        (step,),
        {"local_comm_id": comm_id(vendor), "reason": step.message.fields.reason},
    )


def _accepted_then_rejected(history: str) -> bool:
    return "j" in history.partition("p")[2]


@rule(
    "H21",
    "rep-and-rej",
    "A REQ was accepted, then rejected",
    severity="warning",
    on=("ENDED",),
    history=_accepted_then_rejected,
    clause="IBA 12.9.7.2 (REP sent); Linux cm_send_rej_locked",
    explanation=(
        "Each REQ gets one answer. After its REP a passive side may still end the attempt because its consumer changed"
        " its mind (reason 28) or because nobody answered the REP (reason 4); every other reason says that the REQ was"
        " not acceptable, which contradicts the REP. Two processes or CMs may be answering for one port. A REJ before"
        " the REP is told by H02."
    ),
    false_positives=(
        "A repeated REQ may be answered anew once the passive side gave up on its REP: silent when as many REQs as"
        " answers were captured. After an RTU it is H11. A repeated REQ that is missing from the capture, or a kernel"
        " consumer that rejects with a reason of its own, makes it never more than probable."
    ),
    advice="Look at the passive side: which CM or consumer sent which of the two answers, and why?",
)
def rep_and_rej(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if connection.request is None:
        return
    for reject in of_type(connection, "REJ", sender="passive"):
        reason = reject.message.fields.reason
        if reject.retransmission_of is not None or reason in (CONSUMER_REJECT, TIMEOUT, None):
            continue
        time = reject.message.time
        replies = [step for step in _sent(connection, "REP", "passive", time) if step.retransmission_of is None]
        rejects = _sent(connection, "REJ", "passive", time)
        requests = _sent(connection, "REQ", "active", time + DISORDER)
        if not replies or _sent(connection, "RTU", "active", time) or len(requests) >= len(replies) + len(rejects):
            continue
        gap = time - replies[-1].message.time
        yield Verdict(
            f"The passive side answered the REQ with a REP and {duration(gap)} later with a REJ of reason {reason};"
            f" {len(requests)} REQ captured, {len(replies)} REP and {len(rejects)} REJ.",
            (replies[-1], reject),
            {"gap_ns": gap, "reason": reason, "requests": len(requests), "rejects": len(rejects)},
            confidence="probable" if one_capture(replies[-1], reject) else "possible",
        )
        return


def _sent(connection: Connection, kind: str, sender: Role, until: int) -> list[Step]:
    """What a side had sent of one type up to a time (ns), that moment included."""
    return [step for step in of_type(connection, kind, sender=sender) if step.message.time <= until]
