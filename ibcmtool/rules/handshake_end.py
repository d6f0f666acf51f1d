"""H: how a handshake ends when it does not end well: unanswered, unconfirmed, or talked about after its end."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.history import before, heard, of_type, one_capture, sends
from ibcmtool.rules.occasions import TIMEOUT, over
from ibcmtool.rules.view import View
from ibcmtool.words import duration, end_name, times

AFTER_END = ("RTU", "MRA", "LAP", "APR", "REP")


def _no_rtu(history: str) -> bool:
    return "U" not in history


@rule(
    "H05",
    "rtu-missing",
    "A REP that no RTU followed",
    severity="error",
    on=("REP_EXHAUSTED", "ENDED"),
    history=_no_rtu,
    clause="IBA 12.9.7.1, 12.9.7.2; COMM_EST makes the RTU dispensable once data arrives",
    explanation=(
        "The active side confirms a REP with an RTU. If every REP allowed was sent and neither RTU, MRA nor REJ came,"
        " the passive side drops the connection: an error, and the consumer sees a failed accept. If the connection"
        " worked without a captured RTU (data or a DREQ followed, or the REP was not repeated) that is information: the"
        " first data packet establishes the passive side as well."
    ),
    false_positives=(
        "An RTU lost before the capture point looks the same as one never sent; the sentence says not captured. Silent"
        " when the REQ was not captured (the active side's direction may be missing) and after an MRA (R06)."
    ),
    advice=(
        "See whether the REPs reach the active side (is its REQ still repeated?): if not, the path from passive to"
        " active is broken for CM MADs; if so, its consumer hangs between REP and RTU or its RTU is lost on the way."
    ),
)
def rtu_missing(event: Event, view: View) -> Iterator[Verdict]:
    connection = event.connection
    if connection.request is None or connection.reply is None:
        return  # without the REQ there is no telling that the active side's direction was captured
    replies = of_type(connection, "REP")
    if not replies or of_type(connection, "MRA", sender="active"):
        return  # a promise that was not kept is R06
    tries = sends(connection, replies[-1])
    retries = max_cm_retries(connection.request)
    if retries and len(tries) > retries:
        if event.kind == "REP_EXHAUSTED":
            yield _unconfirmed(connection, tries, retries + 1)
    elif event.kind == "ENDED" and connection.reject is None:
        yield from _unseen(event, connection, tries)


def _unconfirmed(connection: Connection, tries: list[Step], allowed: int) -> Verdict:
    """The verdict on a REP repeated to exhaustion."""
    first, last = tries[0], tries[-1]
    span = last.message.time - first.message.time
    repeated = [
        step
        for step in of_type(connection, "REQ")
        if step.retransmission_of is not None and step.message.time > first.message.time
    ]
    return Verdict(
        f"{len(tries)} of {allowed} sends of the REP over {duration(span)}, and no RTU, MRA or REJ from"
        f" {end_name(connection.active)} was captured."
        + (
            f" Its REQ was repeated {times(len(repeated))} meanwhile: the REPs did not get through." if repeated else ""
        ),
        (first, last),
        {"sends": len(tries), "allowed": allowed, "span_ns": span, "requests_repeated": len(repeated)},
    )


def _unseen(event: Event, connection: Connection, tries: list[Step]) -> Iterator[Verdict]:
    """The verdict on a REP that was not repeated to the end, so that its RTU (or data) must have arrived."""
    dreqs = of_type(connection, "DREQ")
    data = connection.first_data.get("active")
    wait = response_wait(connection.request, "passive").nominal
    silence = event.time - tries[-1].message.time
    if dreqs:
        proof = "a DREQ shows that the connection worked"
    elif silence <= wait + wait // 4:
        return  # the capture ends before the RTU had to be there
    elif data is not None:
        proof = f"data (frame {data.frame}) shows that the connection works"
    else:
        proof = (
            f"the REP was not repeated in the {duration(silence)} that followed: it arrived, or the passive side ended"
        )
    yield Verdict(
        f"No RTU was captured, but {proof}.",
        (tries[0], *dreqs[:1]),
        {"sends": len(tries), "dreqs": len(dreqs), "data_frame": data.frame if data is not None else None},
        confidence="certain" if dreqs or data is not None else "possible",
        severity="info",
    )


@rule(
    "H08",
    "message-after-end",
    "A handshake message long after both sides had left",
    severity="warning",
    on=AFTER_END,
    history=over,
    clause="IBA 12.9.7; no state after the end accepts these messages (Linux cm.c handlers)",
    explanation=(
        "After DREP, or after a REJ, the exchange is over for both sides. An RTU, MRA, LAP, APR or REP for it more than"
        " one response timeout later is dropped by every CM known: its sender holds a state that its peer has given up."
        " When the late message only repeats an earlier one, its sender probably never got the REJ: information."
    ),
    false_positives=(
        "Messages that cross the end on the wire (within one response timeout) are not reported, nor an MRA after a REJ"
        " that may answer a repeated REQ. Clocks of several"
        " inputs may disagree (then possible). Delayed duplicates from the network look the same."
    ),
    advice="Check the sender of the late message: it holds the connection still. Expect S02 when it returns.",
)
def message_after_end(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    late: list[Step] = []
    end = None
    for earlier in before(connection, step):
        if earlier.message.type in ("REQ", "SIDR_REQ"):
            return  # a new attempt since
        if earlier.message.type in ("DREP", "REJ"):
            end = earlier
            break
        if earlier.message.type in AFTER_END:
            late.append(earlier)
    if end is None or (step.message.type == "REP" and _left_to_h02(end)):
        return
    if step.message.type == "MRA" and step.sender == "passive" and end.message.type == "REJ":
        return  # the REJ was lost, and a REQ came again that the capture has late or not at all
    wait = max(response_wait(connection.request, role).nominal for role in ("active", "passive"))
    gap = step.message.time - end.message.time
    if gap <= wait or any(old.message.time - end.message.time > wait for old in late):
        return
    unaware = step.retransmission_of is not None and end.message.type == "REJ" and step.sender != end.sender
    yield Verdict(
        f"{step.message.type} {duration(gap)} after the {end.message.type} that ended the exchange (one response"
        f" timeout: {duration(wait)})."
        + (" It repeats an earlier one: the REJ probably did not arrive." if unaware else ""),
        (end, step),
        {"gap_ns": gap, "wait_ns": wait},
        confidence="probable" if one_capture(end, step) else "possible",
        severity="info" if unaware else None,
    )


def _left_to_h02(end: Step) -> bool:
    return end.message.type == "REJ" and (end.sender == "passive" or end.message.fields.reason == TIMEOUT)


@rule(
    "H18",
    "req-exhausted",
    "Every REQ allowed was sent and none was answered",
    severity="warning",
    on=("REQ_EXHAUSTED",),
    clause="IBA 12.9.7.1 and 12.7.27 (Max CM Retries); Linux cm_process_send_error",
    explanation=(
        "The requester sent its REQ Max CM Retries + 1 times and gave up; its consumer sees an unreachable peer. The"
        " REQs passed the capture point. What happened behind it is not in the capture: the target is down, filters or"
        " drops CM MADs, ignores the REQ (Linux does so while it holds a connection with the same Communication ID),"
        " or its answers take a path that is not captured."
    ),
    false_positives=(
        "Fewer sends than allowed are information: the capture may have missed some, or the requester ended early."
        " If nothing of the target's address was ever captured, its direction may be missing from the capture"
        " (then probable). Silent when an MRA, REP or REJ was seen."
    ),
    advice=(
        "If captured at the target's port, the network delivered the REQs: look at the target (link state, listener,"
        " firewall for UDP 4791, CM drops in sysfs cm_rx_msgs). If captured at the requester's, capture at the target"
        " too."
    ),
)
def req_exhausted(event: Event, view: View) -> Iterator[Verdict]:
    connection = event.connection
    requests = of_type(connection, "REQ")
    if not requests or of_type(connection, "REP", "REJ", "MRA", sender="passive"):
        return
    tries = sends(connection, requests[-1])
    span = tries[-1].message.time - tries[0].message.time
    retries = max_cm_retries(connection.request)
    allowed = len(tries) if retries is None else retries + 1
    if len(tries) < min(allowed, 2):
        return  # not even repeated: its answer was missed, or the requester ended
    target = end_name(connection.passive)
    known = heard(view, connection, "passive")
    complete = len(tries) >= allowed
    yield Verdict(
        f"{len(tries)} of {allowed} sends of the REQ to {target} unanswered over {duration(span)}"
        + (". " if complete else ", then it fell silent. ")
        + "The capture saw them at its capture point; "
        + (
            "other CM messages of that address were captured."
            if known
            else "no CM message of that address was ever captured: it is down or unreachable, or only one direction was"
            " captured."
        ),
        (tries[0], tries[-1]),
        {
            "sends": len(tries),
            "allowed": allowed,
            "span_ns": span,
            "wait_ns": response_wait(connection.request, "active").nominal,
        },
        confidence="possible" if not complete else "certain" if known else "probable",
        severity=None if complete else "info",
    )
