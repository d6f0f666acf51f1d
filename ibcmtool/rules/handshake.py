"""H: the order of a handshake, and what belongs to what (IBA 12.9.7.1, 12.9.7.2).

The captured order is the observer's: a message that was seen late may have been sent early. So these rules accuse
only where no order of sending explains what was seen, and say "not captured" where one direction is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.formatting import address, comm_id, duration, end_name
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first, late, slow
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, before, gave_up, heard, of_type, one_capture

# The longest that a REQ may have been repeated before its REP, by any default known: 16 sends with response timeout
# 22 (OFED) over a path of packet life 18.
LONGEST_REQUEST_SPAN = 16 * (exponent(22) + 2 * exponent(18))


def _rep_alone(history: str) -> bool:
    """A REP is all that was seen."""
    return history == "p"


@rule(
    "H01",
    "rep-without-req",
    "A REP answers a REQ that is not in the capture",
    severity="warning",
    on=("REP",),
    history=_rep_alone,
    clause="IBA 12.9.7.2; Linux cm_rep_handler",
    explanation=(
        "A REP exists only as the answer to a REQ and names it by its Remote Communication ID. No REQ with that id came"
        " from the addressee, although the capture shows other messages of it and is older than the longest time that"
        " a REQ is repeated. A receiver that does not know the id drops the REP, and its sender repeats it in vain."
    ),
    false_positives=(
        "The capture dropped the REQ (hence never more than probable). Silent while the capture is younger than"
        " 309 s, the longest REQ retry span of known defaults, and when the addressee's direction was not captured."
    ),
    advice="Look for capture drops around the frame; else find out which CM made up the Remote Communication ID.",
)
def rep_without_req(event: Event, view: Context) -> Iterator[Verdict]:
    step = event.step
    if step is None:
        return
    message = step.message
    age = message.time - view.start
    if age <= LONGEST_REQUEST_SPAN or message.destination not in view.ports.heard:
        return
    if not view.covered(event.connection, message.time - LONGEST_REQUEST_SPAN, message.time):
        return
    yield Verdict(
        f"REP to {address(message.destination)} names Remote Communication ID {comm_id(message.fields.remote_comm_id)},"
        f" but no REQ with that id was captured from there in the {duration(age)} before it.",
        (step,),
        {"remote_comm_id": message.fields.remote_comm_id, "tid": message.tid, "capture_age_ns": age},
        confidence="probable",
    )


@rule(
    "H02",
    "rep-after-end",
    "A REP for a REQ that was already rejected or given up",
    severity="warning",
    on=("REP",),
    history=first,
    when=slow,
    clause="IBA 12.9.7.1, 12.9.7.2; Linux cm_send_rej_locked, cm_process_send_error",
    explanation=(
        "A passive side that rejects a REQ is back in its initial state and has nothing to accept any more; a REP after"
        " its own REJ is an error. A requester that sent REJ 4 or whose last wait ran out has no connection for the"
        " REP to complete: then this is a warning, and the answer simply came too late."
    ),
    false_positives=(
        "Each REQ gets an answer of its own, so a repeated REQ may be accepted after the first one was rejected (a"
        " listener that appeared in between): silent when more REQs than REJs were seen. Clocks of several inputs may"
        " disagree (then probable). A REJ 4 and a REP that cross on the wire are not reported."
    ),
    advice=(
        "If the answer came too late, raise the requester's CM response timeout or speed up the accepting consumer;"
        " if one side both rejected and accepted, look at its consumer and CM version."
    ),
)
def rep_after_end(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or not late(connection, step):
        return
    if connection.reject is None and connection.history.count("Q") <= (max_cm_retries(connection.request) or 0):
        return
    earlier = list(before(connection, step))
    rejects = [
        old
        for old in earlier
        if old.sender == "passive" and old.message.type == "REJ" and old.message.fields.message_rejected == 0
    ]
    if rejects:
        requests = [old for old in earlier if old.message.type == "REQ"]
        reject = rejects[0]
        if len(requests) <= len(rejects) and view.covered(connection, reject.message.time, step.message.time):
            gap = step.message.time - reject.message.time
            yield Verdict(
                f"The passive side rejected the REQ (reason {reject.message.fields.reason}) and answered it with a REP"
                f" {duration(gap)} later; {len(requests)} REQ captured, {len(rejects)} REJ and this REP.",
                (reject, step),
                {"gap_ns": gap, "requests": len(requests), "rejects": len(rejects)},
                confidence="certain" if one_capture(reject, step) else "probable",
                severity="error",
            )
        return
    end = gave_up(connection, step)
    if end is None or not view.covered(connection, end.message.time, step.message.time):
        return
    gap = step.message.time - end.message.time
    wait = response_wait(connection.request, "active").nominal
    if end.message.type == "REJ":
        if gap <= wait:
            return
        how = f"{duration(gap)} after the active side gave up with REJ 4"
    else:
        how = f"{duration(gap)} after the last REQ; the active side waits {duration(wait)} for it"
    yield Verdict(
        f"REP came {how}: the attempt was over.",
        (end, step),
        {"gap_ns": gap, "wait_ns": wait, "request_sends": connection.history.count("Q")},
        confidence="probable",
    )


def _tid_of_another(connection: Connection, step: Step) -> bool:
    """Whether this REP has another TransactionID than the first message of its connection."""
    return connection.steps[0].message.tid != step.message.tid


@rule(
    "H03",
    "rep-tid-mismatch",
    "A REP carries another TransactionID than its REQ",
    severity="warning",
    on=("REP",),
    history=first,
    when=_tid_of_another,
    clause="Linux and illumos answer with the TransactionID of the REQ (cm.c, ibcm)",
    explanation=(
        "The answers of a handshake carry the TransactionID of the REQ. Linux matches by Communication IDs and"
        " accepts the REP all the same; proxies that route MADs by TransactionID (SR-IOV) may not."
    ),
    false_positives="A proxy between REQ and REP may rewrite ids (mlx4 SR-IOV): possible when several inputs are read.",
    advice="Harmless between Linux hosts. Otherwise look at what sits between the CMs: a proxy, an SR-IOV driver.",
)
def rep_tid_mismatch(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.request is None:
        return
    tid = step.message.tid
    requests = of_type(connection, "REQ")
    if not requests or any(request.message.tid == tid for request in requests):
        return
    request = requests[0]
    yield Verdict(
        f"REP has TransactionID 0x{tid:016x}, its REQ 0x{request.message.tid:016x}.",
        (request, step),
        {"tid": tid, "request_tid": request.message.tid},
        confidence="certain" if one_capture(request, step) else "possible",
    )


def _rtu_first(history: str) -> bool:
    """This is an RTU, or (at the end) there was one with no REP before it."""
    return history[-1:] in ("U", "u") or "U" in history.partition("p")[0]


def _unmatched(connection: Connection, step: Step) -> bool:
    """Whether this RTU names another id than the REP gave."""
    reply = connection.reply
    return reply is not None and reply.local_comm_id != step.message.fields.remote_comm_id


@rule(
    "H04",
    "rtu-unmatched",
    "An RTU that fits no REP",
    severity="error",
    on=("RTU", "ENDED"),
    history=_rtu_first,
    when=_unmatched,
    clause="IBA 12.9.7.1; Linux cm_rtu_handler looks up both Communication IDs",
    explanation=(
        "An RTU completes a handshake and names both ends by their Communication IDs. One with a Remote Communication"
        " ID that no REP of this exchange gave is ignored by the receiver, which repeats its REP until it gives up."
        " With no REP captured at all it is information: the RTU itself shows that there was one."
    ),
    false_positives=(
        "The capture dropped the REP: then only information, and silent when nothing from the passive side's address"
        " was ever captured."
    ),
    advice="Compare the RTU's Remote with the REP's Local Communication ID; check the capture for drops.",
)
def rtu_unmatched(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if connection.request is None:
        return
    if step is not None:
        yield from _wrong_pair(connection, step, view)
    elif connection.reply is None and "U" in connection.history and heard(view, connection, "passive"):
        # Judged at the end: a REP may be captured after its RTU.
        rtu = of_type(connection, "RTU")[0]
        if event.time - rtu.message.time <= DISORDER:
            return
        named = rtu.message.fields.remote_comm_id
        yield Verdict(
            f"RTU names Remote Communication ID {comm_id(named)}, but no REP to this REQ was captured from"
            f" {end_name(connection.passive)}: the capture missed it.",
            (connection.steps[0], rtu),
            {"remote_comm_id": named},
            confidence="possible",
            severity="info",
        )


def _wrong_pair(connection: Connection, step: Step, view: Context) -> Iterator[Verdict]:
    named = step.message.fields.remote_comm_id
    replies = of_type(connection, "REP")
    given = [reply.message.fields.local_comm_id for reply in replies]
    if step.retransmission_of is not None or named in given or not given:
        return
    if not view.covered(connection, replies[-1].message.time, step.message.time):
        return  # another REP may have come meanwhile
    yield Verdict(
        f"RTU names Remote Communication ID {comm_id(named)}; the REP gave {comm_id(given[-1])}.",
        (replies[-1], step),
        {"remote_comm_id": named, "reply_comm_id": given[-1]},
    )
