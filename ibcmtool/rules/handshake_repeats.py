"""H: messages of a handshake that come again although they were answered: REQ, REP and RTU (IBA 12.9.7).

Judged at the end of a connection: a message that the capture has late may have been sent in time, and only then is it
known how often it came. What the capture shows in order within DISORDER may have crossed on the wire.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ibcmtool.connections.matching import COPY_WINDOW
from ibcmtool.connections.timers import max_cm_retries
from ibcmtool.formatting import count, duration, times
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.context import Context
from ibcmtool.rules.reject_message import repeated_after, reply_before, wrong_message
from ibcmtool.rules.steps import DISORDER, of_type, one_capture, sends


def _rtu_again(history: str) -> bool:
    return "^U" in history and "p" in history


@rule(
    "H06",
    "rtu-repeated-alone",
    "An RTU was sent again although no REP had asked for it",
    severity="info",
    on=("ENDED",),
    history=_rtu_again,
    clause="IBA 12.9.7.1; Linux cm_dup_rep_handler (an RTU is repeated for a repeated REP only)",
    explanation=(
        "An RTU has no answer and so no timer: it is sent again when the REP comes again, which tells that the first"
        " one was lost. An RTU repeated on its own comes from a CM that counts time instead, or its REP is missing from"
        " the capture. The receiver drops it either way."
    ),
    false_positives=(
        "A repeated REP that the capture lost (hence never certain). REPs within 50 ms of either RTU count. Copies of"
        " one packet are not counted; where the source has no BTH PSN, RTUs less than 1 s apart are taken for copies."
    ),
    advice="Harmless. If it is frequent, check the capture for drops of the passive side's REPs.",
)
def rtu_repeated_alone(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
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
    gap = rtu.message.time - earlier.message.time
    yield Verdict(
        f"RTU sent again after {duration(gap)}, and no repeated REP that asked for it was captured in between."
        + (f" The same happened {times(len(alone) - 1)} more." if len(alone) > 1 else ""),
        (earlier, rtu),
        {"gap_ns": gap, "times": len(alone), "rtus": len(rtus)},
        confidence="probable" if one_capture(earlier, rtu) else "possible",
    )


def _may_be_a_copy(earlier: Step, later: Step) -> bool:
    """Whether two steps may be one packet that was captured twice: without a PSN nothing tells."""
    return later.message.psn is None and later.message.time - earlier.message.time < COPY_WINDOW


def until(steps: list[Step], latest: Step) -> list[Step]:
    """Those of the steps that can have been sent before `latest`, whatever order the capture has them in."""
    return [step for step in steps if step.message.time <= latest.message.time + DISORDER]


def _rep_after_rtu(history: str) -> bool:
    return "p" in history.partition("U")[2]


@rule(
    "H07",
    "rep-after-rtu",
    "A REP came again after its RTU",
    severity="info",
    on=("REP_EXHAUSTED", "ENDED"),
    history=_rep_after_rtu,
    clause="IBA 12.9.7.2 (REP sent: repeat until the RTU); Linux cm_dup_rep_handler answers with the RTU again",
    explanation=(
        "The passive side repeats its REP until the RTU, or data, reaches it. A REP behind the RTU tells that the RTU"
        " was lost on the way: the connection comes up late. A warning if every REP allowed was sent and none after"
        " the last was confirmed: the passive side has given up, while the active side takes the connection for"
        " established. A warning too if another input shows that the RTU had come further on its way."
    ),
    false_positives=(
        "A REP within 50 ms of the RTU crossed it: silent. So are REPs after a newer REQ. A passive side that was set"
        " going by data alone need not repeat, but Linux does as long as its consumer takes no notice."
    ),
    advice=(
        "Look for loss of CM packets from the active to the passive side. If the passive side gave up, close the"
        " connection on the active side, which still believes in it."
    ),
)
def rep_after_rtu(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    rtus, replies = of_type(connection, "RTU", sender="active"), of_type(connection, "REP", sender="passive")
    rtu = rtus[0]
    requests = [step.message.time for step in of_type(connection, "REQ") if step.message.time > rtu.message.time]
    renewed = min(requests, default=event.time + 1)
    late = [reply for reply in replies if rtu.message.time + DISORDER < reply.message.time < renewed]
    if not late:
        return
    retries = max_cm_retries(connection.request)
    tries = sends(connection, replies[-1])
    last = replies[-1].message.time
    gave_up = bool(retries) and len(tries) > (retries or 0) and not _confirmed(connection, last)
    if gave_up != (event.kind == "REP_EXHAUSTED"):
        return
    arrivals = [copy.time for copy in rtu.sightings if copy.file != rtu.message.file]
    arrived = any(time + DISORDER < last for time in arrivals)
    gap, span = late[0].message.time - rtu.message.time, late[-1].message.time - rtu.message.time
    yield Verdict(
        f"REP sent again {times(len(late))} after the RTU"
        + (f", {duration(gap)} later" if len(late) == 1 else f", {duration(gap)} to {duration(span)} later")
        + (": the RTU was captured on its way twice, but not taken" if arrived else ": the RTU did not get through")
        + (f" ({count(len(rtus), 'RTU')} captured)." if len(rtus) > 1 else ".")
        + (
            f" All {len(tries)} sends allowed were used: the passive side gave up, the active side takes the connection"
            " for established."
            if gave_up
            else ""
        ),
        (rtu, *late),
        {"reps_after_rtu": len(late), "rtus": len(rtus), "first_after_ns": gap, "last_after_ns": span},
        confidence="certain" if one_capture(rtu, *late) else "probable",
        severity="warning" if gave_up or arrived else None,
    )


def _confirmed(connection: Connection, time: int) -> bool:
    """Whether the active side said anything after `time`: data, or any message."""
    data = connection.last_data.get("active")
    if data is not None and data.time > time:
        return True
    return any(step.sender == "active" and step.message.time > time for step in connection.steps)


def _req_after_rej(history: str) -> bool:
    return "^Q" in history.partition("j")[2]


@rule(
    "H19",
    "req-after-rej",
    "The REQ came again after it had been rejected",
    severity="info",
    on=("ENDED",),
    history=_req_after_rej,
    clause="IBA 12.9.7.1 (a REJ ends the attempt); Linux sends a REJ once and answers a repeated REQ anew",
    explanation=(
        "A REJ ends the attempt, so the same REQ does not come again unless the REJ was lost or ignored. The receiver"
        " has forgotten the first and takes the repeated one for a new request: it is rejected again, or accepted if"
        " somebody listens now. A requester whose REP was lost cannot tell which attempt a REJ means that came after"
        " that REP: Linux drops it then."
    ),
    false_positives=(
        "Within 50 ms of the REJ the two crossed: silent. Copies of one packet are not counted. A REQ repeated after"
        " the requester's own REJ 10 (of a stale REP) is as it should be, and a REJ that names the wrong message is"
        " told by H12."
    ),
    advice="Look for loss of CM packets from the passive to the active side if it takes long until the REJ is obeyed.",
)
def req_after_rej(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    rejects = of_type(connection, "REJ", sender="passive")
    reject = rejects[0]
    again = repeated_after(connection, reject)
    if not again or wrong_message(connection, reject):
        return
    fields = reject.message.fields
    gap, span = (step.message.time - reject.message.time for step in (again[0], again[-1]))
    unfindable = bool(fields.message_rejected) and reply_before(connection, reject)
    yield Verdict(
        f"REQ sent again {times(len(again))} after the REJ (reason {fields.reason}), "
        + (f"{duration(gap)} later: " if len(again) == 1 else f"{duration(gap)} to {duration(span)} later: ")
        + (
            "the REP before it was lost, and without that Linux drops this REJ."
            if unfindable
            else "the REJ was lost on its way, or not obeyed."
        )
        + (f" {count(len(rejects), 'REJ')} captured in all." if len(rejects) > 1 else ""),
        (reject, *again),
        {"repeated": len(again), "rejects": len(rejects), "reason": fields.reason, "first_after_ns": gap},
        confidence="probable" if one_capture(reject, again[0]) else "possible",
    )
