"""S08, S10-S12: one side is gone, or keeps what the other has given up."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import STALE_CONNECTION
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.evidence import Ground, not_held_up, unopposed, weakened
from ibcmtool.formatting import duration, end_name, guid, qpn
from ibcmtool.messages import Rep, Req, Rtu
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, refused_as_stale, rej_reason, rejected
from ibcmtool.rules.steps import fields_of, numbered_before, of_type
from ibcmtool.values import Duration, Guid, Qpn

OVERDUE_REPEATS: Final = 3  # of a DREQ, until S12 takes them for not sent rather than not captured
NAMELESS: Final = (
    " To that side all hosts whose CA GUID is 0 are one, so it may mean a connection of another one (X12)."
)
CROSSING: Final = 100_000_000  # ns in which a message may cross a REJ on its way

S08 = rule(
    "S08",
    "stale-without-cause",
    "REJ 10 (stale connection) for a QPN that this capture knows no connection of",
    severity="info",
    clause="IBA 12.9.8.3.1",
    explanation="The receiver says that it holds a connection to the QPN of this REQ (or REP), but none that it "
    "could mean was seen, open or in timewait. Most often the capture began after that connection was opened.",
    false_positives="The capture starts late (the usual case); a CA GUID shared by two machines.",
    advice="Look on the side that sent the REJ for a connection to this QPN (rdma resource show qp; the consumer's "
    "own list) and for the DREQ that must follow the REJ.",
)


# At the end, as the DREQ that follows a refusal may yet show the connection that it means.
@S08.on_event("ENDED", history=rejected)
def stale_without_cause(connection: Connection, event: Event, context: Context) -> Verdicts:
    step = connection.reject
    if step is None or not refused_as_stale(connection, step) or step is not connection.steps[-1]:
        return  # what is known of holders is about the newest REQ or REP
    refused, end = (
        (connection.request, connection.active) if step.sender == "passive" else (connection.reply, connection.passive)
    )
    conflicts = connection.request_conflicts if step.sender == "passive" else connection.reply_conflicts
    if refused is None or any(conflict.same_peer for conflict in conflicts):
        return
    age = step.message.time - context.start
    refused_steps = of_type(connection, "REQ" if step.sender == "passive" else "REP")
    yield Verdict(
        f"{end_name(connection.peer(end.role))} refused QPN {qpn(end.qpn or 0)} of {end_name(end)} as stale, but the "
        f"capture shows no connection of that QPN (CA {guid(end.ca_guid or 0)}) in the {duration(age)} that it "
        f"covers so far.{NAMELESS if end.ca_guid == 0 else ''}",
        {"qpn": Qpn(end.qpn or 0), "ca_guid": Guid(end.ca_guid or 0), "capture_age": Duration(age)},
        (weakened("complete"),),
        steps=(refused_steps[-1], step),
    )


S10 = rule(
    "S10",
    "stale-refusal-ignored",
    "The receiver of a REJ 10 went on with the refused connection",
    severity="error",
    clause="IBA 12.9.7.1; Linux cm_rej_handler (REJ 10: to TIMEWAIT)",
    explanation="A REJ 10 ends the attempt; its receiver puts the QP into timewait. An RTU for the same exchange "
    "after it means that the REJ was disregarded. A Linux active side that itself refused a REP with REJ 10 repeats "
    "its REQ: that is allowed.",
    false_positives="An RTU that crossed the REJ (not raised within 100 ms), or messages in the wrong order in the "
    "capture. Not raised when the RTU answers a REP that was sent after the REJ or not captured before it.",
    advice="Look at the CM of the side that sent the RTU.",
)


@S10.on_step("RTU", history=rejected)
def stale_refusal_ignored(connection: Connection, step: Step, context: Context) -> Verdicts:
    reject = connection.reject
    if reject is None or step.disposition != "unexpected" or step.sender == reject.sender:
        return
    later = [s for s in of_type(connection, "REQ", "REP") if s.message.time > reject.message.time]
    reps = of_type(connection, "REP")
    if fields_of(step, Rtu).remote_comm_id not in [fields_of(rep, Rep).local_comm_id for rep in reps]:
        return  # it answers a REP that was not captured yet
    later += [rep for rep in reps if numbered_before(reject, rep)]
    gap = step.message.time - reject.message.time
    if not context.covered(connection, reject.message.time, step.message.time):
        return
    if rej_reason(reject) == STALE_CONNECTION and not later and gap > CROSSING:
        yield Verdict(
            f"{end_name(connection.active)} sent an RTU {duration(gap)} after the REJ 10 that ended this attempt.",
            {"after_reject": Duration(gap)},
            (unopposed("order"),),
            steps=(reject, step),
        )


S11 = rule(
    "S11",
    "half-open",
    "One side has let go, the other still sends on the connection",
    severity="warning",
    clause="IBA 12.4.1",
    explanation="One end gave the connection up (a REJ after the REP, or a DREQ retried to the end), yet later than "
    "one timeout after that the other end still sends on it: it does not know. Its next attempt with the same QPN "
    "will be refused as stale.",
    false_positives="The closing message was lost only in the capture. A single packet within 10 s may have been under"
    " way: then it is information.",
    advice="Close the connection on the side that still sends, or wait until its transport retries put the QP into "
    "error.",
)


# There was a REJ, or a DREQ without any DREP.
@S11.on_event("ENDED", history=matches("[^jJ]*[jJ].*|[^dDeE]*[dD][^eE]*"))
def half_open(connection: Connection, event: Event, context: Context) -> Verdicts:
    if connection.outcome not in ("rejected", "timed_out", "half_open") or connection.reply is None:
        return
    for role in ("active", "passive"):
        gone: Role = PEER[role]
        goodbye = _left(connection, gone)
        if goodbye is None:
            continue
        left = goodbye.message.time
        wait = response_wait(connection.request, role).nominal
        data = connection.last_data.get(role)
        last = [s for s in connection.steps if s.sender == role and s.message.type in ("REP", "RTU", "LAP", "APR")]
        sent = max([s.message.time for s in last] + ([data.time] if data else []), default=0)
        if sent > left + wait and context.covered(connection, left, sent):
            steps = tuple(last[-1:]) or tuple(connection.steps[-1:])
            yield Verdict(
                f"{end_name(connection.end(gone))} let go of the connection, but {end_name(connection.end(role))} "
                f"still sent on it {duration(sent - left)} later.",
                {
                    "still_sending_after": Duration(sent - left),
                    "timeout": Duration(wait),
                    "by_data": bool(data and data.time == sent),
                },
                (not_held_up(last, left, sent), context.one_clock(goodbye, steps[0])),
                steps=steps,
                advice=f"Close the connection on {end_name(connection.end(role))}, or wait until its transport "
                "retries put the QP into error.",
            )


def _left(connection: Connection, role: Role) -> Step | None:
    """How this end showed that it gave up, or None: by its own REJ, or by the last of its DREQs, sent to the end."""
    reject = connection.reject
    if reject is not None and reject.sender == role:
        again = any(request.message.time > reject.message.time for request in of_type(connection, "REQ"))
        goes_on = role == "active" and refused_as_stale(connection, reject)  # with its REQ; that REP is not the last
        return None if again or goes_on else reject
    dreqs, end = of_type(connection, "DREQ", sender=role), connection.end(role)
    given_up = end.state in CLOSED_STATES and end.restarted is None
    return dreqs[-1] if dreqs and given_up and not of_type(connection, "DREP") else None


ONE_ID: Final = Ground("meaning", "weakened", "both ends give each connection one id, so a DREP may be of any of them")

S12 = rule(
    "S12",
    "dreq-not-repeated",
    "A DREQ was sent once, not answered and not repeated",
    severity="warning",
    clause="Linux ib_destroy_cm_id: one DREQ, no wait for the DREP; IBA 12.10.8",
    explanation="A CM repeats its DREQ until the DREP comes, as long as the connection's owner waits for it. One that"
    " is sent just once means that the owner destroyed the connection right away: Linux stops the retries then. Many"
    " programs work like that in normal operation (nvme-rdma destroys its connection right after rdma_disconnect, at"
    " every disconnect, reset and error recovery); a process that ends or crashes and a module that is unloaded look"
    " the same. If that one DREQ was lost, the peer still holds the connection and will refuse the next one with this"
    " QPN as stale.",
    false_positives="The DREP or the repetitions are missing from the capture: a warning only when several of them "
    "are overdue, information if the capture ends before, if only another capture shows the peer, or if another "
    "machine has taken over the address. Max CM Retries 0 (not raised).",
    advice="Now: see on the peer whether it still holds this connection (Linux: rdma resource show qp). If it does"
    " not, all is well. If it does, it lets go when its transport retries run out or its program's keep-alive ends the"
    " connection; close it there if it is in the way. Connecting again with another QPN works at once. Then: see"
    " whether the DREQ was lost on the way. A single DREQ alone is no sign of a crash.",
)


# One DREQ from one side, and no DREP. When two cross, each side learns of the end by the other's.
@S12.on_event("DREQ_EXHAUSTED", "ENDED", history=matches("[^dDeE]*[dD][^dDeE]*"))
def dreq_not_repeated(connection: Connection, event: Event, context: Context) -> Verdicts:
    (dreq,) = of_type(connection, "DREQ")
    role = dreq.sender
    if role == "unknown" or connection.established is None or max_cm_retries(connection.request) in (None, 0):
        return
    end, peer = connection.end(role), connection.peer(role)
    if event.kind == "ENDED" and end.state != "DREQ_SENT":
        return  # reported when it gave up
    waited = context.watched(connection, dreq.message.time, event.time)
    wait = response_wait(connection.request, role).nominal
    wait += wait // SLACK
    if waited < wait:
        return
    overdue = waited > OVERDUE_REPEATS * wait
    unheard = peer.address not in context.ports.heard
    yield Verdict(
        f"{end_name(end)} sent one DREQ, saw no DREP in the {duration(waited)} that followed and did not repeat it."
        + (
            f" The capture has no CM message of {end_name(peer)} at all, so the DREP may not have been captured."
            if unheard
            else ""
        )
        + _came_back(context, connection, role, dreq),
        {"dreqs": 1, "waited": Duration(waited), "max_cm_retries": max_cm_retries(connection.request)},
        (
            context.witness.silent(peer.address, dreq.message.time, dreq.message.time + wait, dreq)
            if overdue and not unheard
            else weakened("complete"),
            *((ONE_ID,) if end.comm_id == peer.comm_id else ()),
        ),
        None if overdue else "info",
        steps=(dreq,),
        advice=f"Now: see whether {end_name(peer)} still holds this connection (Linux: rdma resource show qp). Unless "
        f"it got the DREQ it does, and refuses QPN {qpn(end.qpn or 0)} as stale until its transport retries or its "
        f"program end it; another QPN is accepted at once. Then: {end_name(end)} destroyed the connection right after "
        "its DREQ. Linux programs do so at a normal disconnect (nvme-rdma always), and so does a process that ends or "
        "crashes.",
    )


def _came_back(context: Context, connection: Connection, role: Role, dreq: Step) -> str:
    """What is known of a new attempt since the unanswered DREQ of `role`; empty if there was none."""
    request = context.restarts.next_request(connection, role, dreq.message.time)
    if request is None:
        return ""
    after = request.message.time - dreq.message.time
    number, before = fields_of(request, Req).local_qpn, connection.end(role).qpn
    if number is None or number == before:
        return ""  # with the same QPN it is a matter of S01 and S02
    return (
        f" It is back since (REQ after {duration(after)}, {context.frame(request.message)}) with QPN {qpn(number)} "
        f"instead of {qpn(before or 0)}, so that its peer has no reason to call it stale."
    )
