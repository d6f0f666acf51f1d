"""H01-H03: a REP and the REQ that it answers (IBA 12.9.7.1, 12.9.7.2).

The captured order is the observer's: a message that was seen late may have been sent early. So these rules accuse
only where no order of sending explains what was seen, and say "not captured" where one direction is missing.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import INVALID_SERVICE_ID, REQ_REJECTED, STALE_CONNECTION
from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.evidence import Ground, one_clock, unopposed, weakened
from ibcmtool.formatting import address, comm_id, duration
from ibcmtool.messages import Rej, Rep
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import NVME_LIMIT, at_own_limit, first, late, matches, rej_reason
from ibcmtool.rules.steps import DISORDER, NEW_LIFE, before, between, fields_of, gave_up, of_type, one_capture
from ibcmtool.values import CommId, Duration, Tid, known

# The longest that a REQ may have been repeated before its REP, by any default known: 16 sends with response timeout
# 22 (OFED) over a path of packet life 18.
LONGEST_REQUEST_SPAN: Final = 16 * (exponent(22) + 2 * exponent(18))

H01 = rule(
    "H01",
    "rep-without-req",
    "A REP answers a REQ that is not in the capture",
    severity="warning",
    clause="IBA 12.9.7.2; Linux cm_rep_handler",
    explanation="A REP exists only as the answer to a REQ and names it by its Remote Communication ID. No REQ with"
    " that id came from the addressee, although the capture shows other messages of it and is older than the longest"
    " time that a REQ is repeated. A receiver that does not know the id drops the REP, and its sender repeats it in"
    " vain.",
    false_positives="The capture dropped the REQ (hence never more than probable). Not reported while the capture is"
    " younger than 309 s, the longest REQ retry span of known defaults, and when the addressee's direction was not"
    " captured.",
    advice="Look for capture drops around the frame; else find out which CM made up the Remote Communication ID.",
)


@H01.on_event("ENDED", history=matches("[^A-Zp]*p[^A-Z]*"))
def rep_without_req(connection: Connection, event: Event, context: Context) -> Verdicts:
    """At the end, as the capture may have the REQ late. Who answers the REP had asked for it."""
    if connection.request is not None:
        return
    step = of_type(connection, "REP")[0]
    message, named = step.message, fields_of(step, Rep).remote_comm_id
    age = message.time - context.start
    if age <= LONGEST_REQUEST_SPAN or message.destination not in context.ports.heard:
        return
    if context.covered(connection, message.time - LONGEST_REQUEST_SPAN, message.time):
        yield Verdict(
            f"REP to {address(message.destination)} names Remote Communication ID {comm_id(named)}, but no REQ with"
            f" that id was captured from there in the {duration(age)} before it.",
            {"remote_comm_id": known(CommId, named), "tid": Tid(message.tid), "capture_age": Duration(age)},
            (
                context.witness.silent(message.destination, message.time - LONGEST_REQUEST_SPAN, message.time),
                unopposed("complete"),
            ),
            steps=(step,),
        )


H02 = rule(
    "H02",
    "rep-after-end",
    "A REP for a REQ that was already rejected or given up",
    severity="warning",
    clause="IBA 12.9.7.1, 12.9.7.2; Linux cm_send_rej_locked, cm_process_send_error",
    explanation="A passive side that rejects a REQ is back in its initial state and has nothing to accept any more; a"
    " REP after its own REJ is an error. A requester that sent REJ 4 or whose last wait ran out has no connection for"
    " the REP to complete: then this is a warning, and the answer simply came too late.",
    false_positives="Each REQ gets an answer of its own, so a repeated REQ may be accepted after the first one was"
    " rejected (a listener that appeared in between): not reported when more REQs than REJs were seen. Clocks of"
    " several inputs may disagree (then probable). The REP may repeat one that came in time and was lost before it was"
    " captured: information, unless its sender's numbers prove the contrary. A REJ 4 and a REP that cross on the wire"
    " are not reported: the REP must come later than one timeout after it or, where the program gave up by a limit of"
    " its own, than 50 ms.",
    advice="If the answer came too late, raise the requester's CM response timeout or speed up the accepting consumer;"
    " if one side both rejected and accepted, look at its consumer and CM version.",
)


@H02.on_step("REP", history=first, when=late)
def rep_after_end(connection: Connection, step: Step, context: Context) -> Verdicts:
    if connection.reject is None and connection.history.count("Q") <= (max_cm_retries(connection.request) or 0):
        return
    earlier = list(before(connection, step))
    rejects = [old for old in earlier if old.sender == "passive" and _rejects_the_req(old)]
    if rejects:
        reject = rejects[0]
        requests = sum(1 + len(old.sightings) for old in earlier if old.message.type == "REQ")
        if requests <= len(rejects) and context.covered(connection, reject.message.time, step.message.time):
            gap = between(reject, step)
            yield Verdict(
                f"The passive side rejected the REQ (reason {rej_reason(reject)}) and answered it with a REP"
                f" {duration(gap)} later; {requests} REQ captured, {len(rejects)} REJ and this REP.",
                {"gap": Duration(gap), "requests": requests, "rejects": len(rejects)},
                (one_clock(reject, step), *_asked_once(connection, reject, step, context)),
                steps=(reject, step),
                severity="error",
            )
        return
    end = gave_up(connection, step)
    if end is None or not context.covered(connection, end.message.time, step.message.time):
        return
    gap, wait = between(end, step), response_wait(connection.request, "active").nominal
    if end.message.type == "REJ":
        limited = at_own_limit(connection, end.message.time - connection.opened)
        if gap <= (DISORDER if limited else wait):
            return
        how = f"{duration(gap)} after the active side gave up with REJ 4"
        how += f", as nvme-rdma before Linux 6.0 does after {duration(NVME_LIMIT)}" if limited else ""
    else:
        how = f"{duration(gap)} after the last REQ; the active side waits {duration(wait)} for it"
    yield Verdict(
        f"REP came {how}: the attempt was over.",
        {"gap": Duration(gap), "wait": Duration(wait), "request_sends": connection.history.count("Q")},
        (unopposed("timer"), *_sent_once(connection, step, context)),
        steps=(end, step),
    )


def _sent_once(connection: Connection, step: Step, context: Context) -> list[Ground]:
    """What it rests on that this is the REP's first send: one in time may have been lost before it was captured."""
    start, end = connection.opened, step.message.time
    if (end - start) * 10 < response_wait(connection.request, "passive").minimum * 9:
        return []
    return [context.witness.silent(connection.passive.address, start, end)]


def _asked_once(connection: Connection, reject: Step, reply: Step, context: Context) -> list[Ground]:
    """What it rests on that the REQ did not come again in between, neither repeated nor doubled by the network."""
    passing = rej_reason(reject) in (INVALID_SERVICE_ID, STALE_CONNECTION)  # it may be accepted a moment later
    grounds = [(weakened if passing else unopposed)("not a copy")]
    start, end = reject.message.time, reply.message.time
    if (end - start) * 10 >= response_wait(connection.request, "active").minimum * 9:
        grounds.append(context.witness.silent(connection.active.address, start, end))
    return grounds


def _rejects_the_req(step: Step) -> bool:
    fields = step.message.fields
    return isinstance(fields, Rej) and fields.message_rejected == REQ_REJECTED


H03 = rule(
    "H03",
    "rep-tid-mismatch",
    "A REP carries another TransactionID than its REQ",
    severity="warning",
    clause="Linux and illumos answer with the TransactionID of the REQ (cm.c, ibcm)",
    explanation="The answers of a handshake carry the TransactionID of the REQ. Linux matches by Communication IDs and"
    " accepts the REP all the same; proxies that route MADs by TransactionID (SR-IOV) may not.",
    false_positives="A proxy between REQ and REP may rewrite ids (mlx4 SR-IOV): possible when several inputs are read."
    " A CM that gives each connection the same ids may have sent another REQ meanwhile: possible where the REP comes"
    " later than the REQ allows or has the upper half (the agent) of its TransactionID, never certain.",
    advice="Harmless between Linux hosts. Otherwise look at what sits between the CMs: a proxy, an SR-IOV driver.",
)


def _tid_of_another(connection: Connection, step: Step) -> bool:
    """Whether this REP has another TransactionID than the first message of its connection."""
    return connection.steps[0].message.tid != step.message.tid


@H03.on_step("REP", history=first, when=_tid_of_another, needs=("request",))
def rep_tid_mismatch(connection: Connection, step: Step, context: Context) -> Verdicts:
    tid = step.message.tid
    requests = of_type(connection, "REQ")
    if not requests or "U" in connection.history or any(request.message.tid == tid for request in requests):
        return  # behind an RTU it answers another REQ, which was not captured
    request = requests[0]
    late = between(request, step) > response_wait(connection.request, "active").nominal
    yield Verdict(
        f"REP has TransactionID 0x{tid:016x}, its REQ 0x{request.message.tid:016x}.",
        {"tid": Tid(tid), "request_tid": Tid(request.message.tid)},
        (
            # The agent in the upper half is the requester's: so it is copied from a REQ of its own.
            NEW_LIFE if late or tid >> 32 == request.message.tid >> 32 else unopposed("same use"),
            *(() if one_capture(request, step) else (weakened("same machine"),)),
        ),
        steps=(request, step),
    )
