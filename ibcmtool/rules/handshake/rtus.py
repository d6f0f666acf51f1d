"""H05-H07: whether an RTU confirms the REP: one that is missing, or that was lost (IBA 12.9.7).

What has to be known in full is judged at the end of a connection: a message that the capture has late may have been
sent in time. What the capture shows in order within DISORDER may have crossed on the wire.
"""

from __future__ import annotations

from itertools import pairwise

from ibcmtool.connections.matching import COPY_WINDOW
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.evidence import Ground, one_clock, unopposed, weakened
from ibcmtool.formatting import count, duration, end_name, times
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.rules.steps import DISORDER, between, how_much_later, of_type, sends, sent_by, until
from ibcmtool.values import Duration, FrameNumber

H05 = rule(
    "H05",
    "rtu-missing",
    "A REP that no RTU followed",
    severity="error",
    clause="IBA 12.9.7.1, 12.9.7.2; Linux rdma_notify (COMM_EST) makes the RTU dispensable once data arrives",
    explanation="The active side confirms a REP with an RTU. If every REP allowed was sent and neither RTU, MRA nor"
    " REJ came, the passive side drops the connection, and its consumer sees a failed accept: a warning, which accuses"
    " nobody, as the REPs or the RTU may have been lost on the way. If the connection worked without a captured RTU"
    " (data or a DREQ followed, or the REP was not repeated) that is information: the first data packet can establish"
    " the passive side as well. On Linux only if its consumer then calls rdma_notify: isert, rds and rtrs do, the"
    " NFS/RDMA server does not, and a program in user space has to do it itself.",
    false_positives="An RTU lost before the capture point looks the same as one never sent; the sentence says not"
    " captured. Information if the capture ends before the last REP had its time, or the active side sends data. Not"
    " reported when the REQ was not captured (the active side's direction may be missing) and after an MRA (R06).",
    advice="See whether the REPs reach the active side (is its REQ still repeated?): if not, the path from passive to"
    " active is broken for CM MADs; if so, its consumer hangs between REP and RTU or its RTU is lost on the way.",
)


@H05.on_event("REP_EXHAUSTED", history=matches("[^U]*"), needs=("request", "reply"))
def rep_unconfirmed(connection: Connection, event: Event, context: Context) -> Verdicts:
    """A REP that was repeated to exhaustion."""
    tries = _unconfirmed(connection)
    if not _were_all(connection, tries) or "active" in connection.first_data:
        return  # or its data show that it has a REP, and the connection
    last, wait = tries[-1].message.time, response_wait(connection.request, "passive").nominal
    if not context.covered(connection, last, min(event.time, last + wait)):
        return
    span, allowed = between(tries[0], tries[-1]), 1 + (max_cm_retries(connection.request) or 0)
    repeated = sum(
        step.retransmission_of is not None and step.message.time > tries[0].message.time
        for step in of_type(connection, "REQ")
    )
    silent = context.witness.complete(connection.active.address, tries[0].message.time, event.time)
    refused = silent.strength == "proved" and not repeated
    yield Verdict(
        f"{len(tries)} of {allowed} sends of the {sent_by(tries[0])} over {duration(span)}, and no RTU, MRA or REJ from"
        f" {end_name(connection.active)} was captured."
        + (f" Its REQ was repeated {times(repeated)} meanwhile: the REPs did not get through." if repeated else ""),
        {"sends": len(tries), "allowed": allowed, "span": Duration(span), "requests_repeated": repeated},
        (silent, _waited_out(tries[-1], wait, event)),
        "info" if _is_phantom(connection, tries[0]) else None if refused else "warning",
        steps=(tries[0], tries[-1]),
    )


@H05.on_event("ENDED", history=matches("[^U]*"), needs=("request", "reply"))
def rtu_unseen(connection: Connection, event: Event, context: Context) -> Verdicts:
    """A REP that was not repeated to the end, so that its RTU (or data) must have arrived."""
    tries = _unconfirmed(connection)
    dreqs, data = of_type(connection, "DREQ"), connection.first_data.get("active")
    if not tries or (_were_all(connection, tries) and data is None) or connection.reject is not None:
        return
    silence = context.watched(connection, tries[-1].message.time, event.time)
    wait = response_wait(connection.request, "passive").nominal
    if dreqs:
        proof = "a DREQ shows that the connection worked"
    elif silence <= wait + wait // 4:
        return  # the capture ends before the RTU had to be there
    elif data is not None:
        proof = f"data ({context.frame(data)}) shows that the connection works"
    else:
        proof = (
            f"the REP was not repeated in the {duration(silence)} that followed: it arrived, or the passive side ended"
        )
    yield Verdict(
        f"No RTU was captured, but {proof}.",
        {
            "sends": len(tries),
            "dreqs": len(dreqs),
            "data_frame": FrameNumber(data.file, data.frame) if data is not None else None,
        },
        () if dreqs or data is not None else (weakened("complete"),),
        steps=(tries[0], *dreqs[:1]),
        severity="info",
    )


def _is_phantom(connection: Connection, reply: Step) -> bool:
    """Whether this REP answers but a late copy of the REQ (T07), after the end or after the REQ had been refused."""
    if connection.late_duplicate_of is not None:
        return True
    refusals = [step for step in of_type(connection, "REJ", sender="passive") if between(step, reply) > 0]
    asked = of_type(connection, "REQ")
    return bool(refusals) and not any(
        0 < between(refusals[-1], request) <= between(refusals[-1], reply) for request in asked
    )


def _waited_out(last: Step, wait: int, event: Event) -> Ground:
    """The capture goes on for as long as the sender of the last REP waits for its RTU."""
    over = event.time >= last.message.time + wait
    return unopposed("received") if over else Ground("received", "weakened", "the capture ends within the last wait")


def _unconfirmed(connection: Connection) -> list[Step]:
    """The sends of the REP; none if the active side asked for time, for a promise that was not kept is R06."""
    replies = of_type(connection, "REP")
    return sends(connection, replies[-1]) if replies and not of_type(connection, "MRA", sender="active") else []


def _were_all(connection: Connection, tries: list[Step]) -> bool:
    """Whether these are all sends that Max CM Retries allows, and more than one."""
    retries = max_cm_retries(connection.request)
    return bool(retries) and len(tries) > (retries or 0)


H06 = rule(
    "H06",
    "rtu-repeated-alone",
    "An RTU was sent again although no REP had asked for it",
    severity="info",
    clause="IBA 12.9.7.1; Linux cm_dup_rep_handler (an RTU is repeated for a repeated REP only)",
    explanation="An RTU has no answer and so no timer: it is sent again when the REP comes again, which tells that the"
    " first one was lost. An RTU repeated on its own comes from a CM that counts time instead, or its REP is missing"
    " from the capture. The receiver drops it either way.",
    false_positives="A repeated REP that the capture lost (hence never certain). REPs within 50 ms of either RTU"
    " count. Copies of one packet are not counted; where the source has no BTH PSN, RTUs less than 1 s apart are taken"
    " for copies.",
    advice="Harmless. If it is frequent, check the capture for drops of the passive side's REPs.",
)


@H06.on_event("ENDED", history=matches(r"(?=.*p).*\^U.*"))
def rtu_repeated_alone(connection: Connection, event: Event, context: Context) -> Verdicts:
    rtus, replies = of_type(connection, "RTU", sender="active"), of_type(connection, "REP", sender="passive")
    repeated = [reply for reply in replies if reply is not replies[0] or reply.message.time > rtus[0].message.time]
    alone = [
        (earlier, rtu)
        for earlier, rtu in pairwise(rtus)
        if rtu.retransmission_of is not None
        and not _may_be_a_copy(earlier, rtu)
        and not any(reply.message.time >= earlier.message.time - DISORDER for reply in until(repeated, rtu))
    ]
    if not alone:
        return
    earlier, rtu = alone[0]
    gap = between(earlier, rtu)
    yield Verdict(
        f"RTU sent again after {duration(gap)}, and no repeated REP that asked for it was captured in between."
        + (f" The same happened {times(len(alone) - 1)} more." if len(alone) > 1 else ""),
        {"gap": Duration(gap), "times": len(alone), "rtus": len(rtus)},
        (unopposed("complete"), one_clock(earlier, rtu, otherwise="weakened")),
        steps=(earlier, rtu),
    )


def _may_be_a_copy(earlier: Step, later: Step) -> bool:
    """Whether two steps may be one packet that was captured twice: without a PSN nothing tells."""
    return later.message.psn is None and between(earlier, later) < COPY_WINDOW


H07 = rule(
    "H07",
    "rep-after-rtu",
    "A REP came again after its RTU",
    severity="info",
    clause="IBA 12.9.7.2 (REP sent: repeat until the RTU); Linux cm_dup_rep_handler answers with the RTU again",
    explanation="The passive side repeats its REP until the RTU, or data, reaches it. A REP behind the RTU tells that"
    " the RTU was lost on the way: the connection comes up late. A warning if every REP allowed was sent and none"
    " after the last was confirmed: the passive side has given up, while the active side takes the connection for"
    " established. A warning too if another input shows that the RTU had come further on its way.",
    false_positives="A REP within 50 ms of the RTU crossed it and is not reported, nor are REPs after a newer REQ. A"
    " passive side that was set going by data alone need not repeat, but Linux does as long as its consumer takes no"
    " notice.",
    advice="Look for loss of CM packets from the active to the passive side. If the passive side gave up, close the"
    " connection on the active side, which still believes in it.",
)


@H07.on_event("REP_EXHAUSTED", "ENDED", history=matches("[^U]*U.*p.*"), once="connection")
def rep_after_rtu(connection: Connection, event: Event, context: Context) -> Verdicts:
    rtus, replies = of_type(connection, "RTU", sender="active"), of_type(connection, "REP", sender="passive")
    rtu, last = rtus[0], replies[-1].message.time
    requests = [step.message.time for step in of_type(connection, "REQ") if step.message.time > rtu.message.time]
    renewed = min(requests, default=event.time + 1)
    # What comes after the passive side itself took part in the end was delayed on its way.
    renewed = min([renewed, *(step.message.time for step in of_type(connection, "DREQ", "DREP", sender="passive"))])
    late = [reply for reply in replies if rtu.message.time + DISORDER < reply.message.time < renewed]
    late = [reply for reply in late if reply.disposition != "ignored"]  # held up on their way
    tries = sends(connection, replies[-1])
    gave_up = _were_all(connection, tries) and not _confirmed(connection, last)
    if not late or (event.kind == "REP_EXHAUSTED" and not gave_up):
        return
    arrived = _came_further(rtu, replies[-1])
    gaps = [between(rtu, reply) for reply in late]
    yield Verdict(
        f"{sent_by(late[0])} was sent again {times(len(late))} after the RTU, {how_much_later(gaps)}"
        + (": the RTU was captured on its way twice, but not taken" if arrived else ": the RTU did not get through")
        + (f" ({count(len(rtus), 'RTU')} captured)." if len(rtus) > 1 else ".")
        + (
            f" All {len(tries)} sends allowed were used: the passive side gave up, the active side takes the connection"
            " for established."
            if gave_up
            else ""
        ),
        {
            "reps_after_rtu": len(late),
            "rtus": len(rtus),
            "first_after": Duration(gaps[0]),
            "last_after": Duration(gaps[-1]),
        },
        (
            one_clock(rtu, *late),
            *((unopposed("timer"),) if gave_up else ()),
            *((unopposed("received"),) if arrived else ()),
        ),
        steps=(rtu, *late),
        severity="warning" if gave_up or arrived else None,
    )


def _came_further(rtu: Step, reply: Step) -> bool:
    """Whether several inputs have an RTU, and each of them has it before this REP: their clocks may disagree."""
    seen, known = _times(rtu), _times(reply)
    return len(seen) > 1 and all(time + DISORDER < known.get(file, 0) for file, time in seen.items())


def _times(step: Step) -> dict[int, int]:
    """When each input has it."""
    return {step.message.file: step.message.time} | {copy.file: copy.time for copy in step.sightings}


def _confirmed(connection: Connection, time: int) -> bool:
    """Whether the last REP, of `time`, had its answer: data or any message of the active side, or what answers a DREQ.

    The capture may have the answer a moment before its question.
    """
    data = connection.last_data.get("active")
    if data is not None and data.time > time:
        return True
    return any(
        (step.sender == "active" or step.message.type == "DREP") and step.message.time > time - DISORDER
        for step in connection.steps
    )
