"""H18, H20, H26: REQs that nobody answered, and REQs that crossed (IBA 12.9.7.1)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from ibcmtool.connections.timers import max_cm_retries, most_sends, response_wait
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import duration, end_name, frames, qpn
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.packets import Address
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import NVME_LIMIT, at_own_limit, entangled, first, matches, rejected
from ibcmtool.rules.silence import (
    HANGS,
    UNSEEN,
    answers_unseen,
    in_partition,
    last_may_be_answered,
    mra_missed,
    reported,
    vantage,
)
from ibcmtool.rules.steps import DISORDER, between, heard, of_type, role_of, unanswered
from ibcmtool.rules.symptoms import of_silence
from ibcmtool.values import Duration, Qpn, known

ADVICE: Final = (
    "On the target, read /sys/class/infiniband/DEV/ports/N/cm_rx_msgs/req before and after an attempt (as far as known,"
    " kernels before 2019 keep it below /sys/class/infiniband_cm). If it does not rise, the REQs do not get to its CM:"
    " see whether the host and its port are up, then look for the loss in the network ({}). If it rises, the CM has the"
    " REQs (cm_rx_duplicates/req counts the repeated ones among them): look at the listening program, above all at its"
    " backlog."
)
ROCE: Final = "drop counters, ACLs of switches; a firewall on the host can block soft RoCE only, as far as known"
INFINIBAND: Final = "`ibqueryerrors`; the P_Keys of both ports, as a port drops those that it does not have"

H18 = rule(
    "H18",
    "req-exhausted",
    "The requester gave up: none of its REQs was answered",
    severity="warning",
    clause="IBA 12.9.7.1 and 12.7.27 (Max CM Retries); Linux cm_process_send_error",
    explanation="The requester sent its REQ Max CM Retries + 1 times, or fewer times and then a REJ with reason 4"
    " (timeout), and got no answer: its program sees an unreachable peer. The REQs passed the capture point; what"
    " happened behind it is not in the capture. A Linux target that gets a REQ nearly always answers: without a"
    " listener it sends REJ 8, and while a program hangs before it accepts, the repeated REQ is answered with an MRA."
    " So either the REQs do not reach the target's CM (network, or host down), or a listener in user space has a full"
    " backlog (Linux drops the REQ then, without a REJ), or Linux still holds a connection with the same Communication"
    " ID, or the answers take a path that is not captured. Where all messages of an input are from or to one address"
    " it was probably captured there: at the target's side the REQs did arrive. A requester whose REQs never came by"
    " the capture point is C02. Many programs have a limit of their own, shorter than that of their REQ (nvme-rdma"
    " before Linux 6.0 waits 3 s): then a REJ 4 within the first timeout is silence, too. ICMP errors that quote the "
    "REQs tell whether the host is up without RoCE, or cannot be reached.",
    false_positives="Fewer sends than allowed (16 where Max CM Retries was not captured) without a REJ are information:"
    " the capture may have missed some, or the requester ended early. So is a REJ 4 within the first timeout, unless"
    " it is the known limit of an NVMe host or comes as long after the REQ as in the attempt before: the program may"
    " have been stopped. So is a REJ 4 after two sends where no message of the target's address, or to the"
    " requester's, was captured, or it answered the second of another attempt with an MRA: a Linux target may have"
    " done so here. If nothing of the target's address was ever captured, its direction may be missing from the"
    " capture (then probable; information where an RTU answers a REP that is missing). Information, too, if the"
    " capture ends with the last of up to seven REQs, or each of several that have the last one ends before its answer"
    " was due. Not reported when an MRA (R17), REP or REJ was seen.",
    advice=ADVICE.format(ROCE),
    rests_on=("order",),
)

LIKE: Final = 10  # two waits that differ by less than a tenth are one limit
MOST_REMEMBERED = 4096  # targets and requesters, the newest


@H18.on_event("REQ_EXHAUSTED", history=matches("Q[Q^]*(J[Q^]*)?"))
def req_exhausted(connection: Connection, event: Event, context: Context) -> Verdicts:
    return _unanswered(connection, None, event.time, context)


@H18.on_step("REJ", history=matches("Q[Q^]*(J[Q^]*)?"))
def req_given_up(connection: Connection, step: Step, context: Context) -> Verdicts:
    return _unanswered(connection, step, step.message.time, context)


@H18.on_step("RTU", history=matches("[^p]*U"))
def answered_unseen(connection: Connection, step: Step, context: Context) -> Verdicts:
    """No verdict: a target whose REP the capture lacks may have answered other REQs unseen, too."""
    _remember(context.memory["H18"], (step.message.destination, UNSEEN), step)
    return ()


@H18.on_step("MRA", history=matches("[^p]*m"))
def asked_for_time(connection: Connection, step: Step, context: Context) -> Verdicts:
    """No verdict: a target whose program hangs may have asked for time in another attempt, too."""
    _remember(context.memory["H18"], (step.message.source, HANGS), step)
    return ()


@H18.on_event("DREQ_LAPSED")
def dreq_unanswered(connection: Connection, event: Event, context: Context) -> Verdicts:
    """No verdict: a target may have been silent since before the REQs."""
    role = role_of(event)
    peer, (dreq, *_) = PEER[role], of_type(connection, "DREQ", sender=role)
    data = connection.last_data.get(peer)
    if data is None or data.time < dreq.message.time:
        _silent_since(context, connection.end(peer).address, dreq)
    return ()


def _silent_since(context: Context, target: Address, question: Step) -> Step:
    """The first message to a port that it left unanswered, without a CM message of it since: this one, or an older."""
    memory, heard_last = context.memory["H18"], context.traces.newest(target)
    first: Step | None = memory.get(target)
    known_since = (heard_last or question.message).time  # where messages have no numbers, nothing is known of before
    if first is None or not known_since <= first.message.time <= question.message.time:
        first = question
        _remember(memory, target, first)
    return first


def _remember(memory: dict[Hashable, object], key: Hashable, value: object) -> None:
    memory[key] = value
    if len(memory) > MOST_REMEMBERED:
        del memory[next(iter(memory))]


def _ending(
    context: Context, connection: Connection, first: Step, reject: Step | None, wait: int
) -> tuple[str, bool, bool]:
    """How the attempt ended, in words; whether by a limit of the program's own, or sooner than all that is known of."""
    if reject is None:
        return "", False, False
    waited = between(first, reject)
    if waited >= wait:
        return ", then the requester gave up (REJ 4)", False, False
    memory, key = context.memory["H18"], (connection.active.address, connection.passive.address, connection.service_id)
    before = memory.get(key)
    _remember(memory, key, waited)
    how = f" when the requester gave up after {duration(waited)} (REJ 4)"
    if at_own_limit(connection, waited):
        return f"{how}, the host's own limit of {duration(NVME_LIMIT)} (nvme-rdma before Linux 6.0)", True, False
    if before is not None and abs(before - waited) * LIKE <= waited:
        return f"{how}, a limit of the program's own, as in its attempt before", True, False
    return f"{how}, within its first timeout", False, True


def _unanswered(connection: Connection, reject: Step | None, now: int, context: Context) -> Verdicts:
    """The verdict on REQs that nobody had answered until `now`, when their sender gave up: with this REJ, if any."""
    tries = unanswered(connection)  # of one that was not even repeated the answer was missed, or the requester ended
    if not tries or (reject is not None and between(tries[0], reject) <= DISORDER):
        return
    span, wait = between(tries[0], tries[-1]), response_wait(connection.request, "active").nominal
    last = tries[-1].message.time
    if not context.covered(connection, last, min(now, last + wait)):
        return
    allowed = None if max_cm_retries(connection.request) is None else most_sends(connection.request)
    responsive = heard(context, connection, "passive")
    exhausted = len(tries) >= most_sends(connection.request)
    complete = reject is not None or exhausted
    ending, limited, at_will = _ending(context, connection, tries[0], reject, wait)
    where, advice = vantage(context, connection, tries)
    besides, icmp = _heard_of(context, connection, tries[0], responsive), reported(context, tries[0])
    if icmp is not None:
        besides, advice = icmp
    partition, look = in_partition(context, connection, tries[0])
    advice = advice or ADVICE.format(INFINIBAND if connection.transport == "InfiniBand" else ROCE)
    seen = of_silence(connection) if exhausted or limited else ""
    yield Verdict(
        f"{len(tries)}{'' if allowed is None else f' of {allowed}'} sends of the REQ to"
        f" {end_name(connection.passive)} unanswered"
        + (f" over {duration(span)}" if span else "")
        + (ending if complete else ", then it fell silent")
        + f". {where}; {besides}.{partition}",
        {"sends": len(tries), "allowed": allowed, "span": Duration(span), "wait": Duration(wait)},
        (
            context.witness.complete(connection.passive.address, tries[0].message.time, min(now, last + wait)),
            *(() if complete and responsive else ((unopposed if complete else weakened)("complete"),)),
            *((unopposed("timer"),) if limited else ()),
            # Of the requester, whose REQs and REJ show that it had no answer before, only an RTU may be missing.
            *(context.witness.missing(connection.active.address, last, now) if reject is None else ()),
            *answers_unseen(context, context.memory["H18"], tries, responsive=responsive),
            *(() if reject is not None else last_may_be_answered(tries, now, wait)),
            *mra_missed(context, tries, reject, wait),
            *context.no_answer_in_sight(tries[-1], min(now, last + wait), heard=False),
        ),
        steps=(tries[0], *tries[1:][-1:], *((reject,) if reject is not None else ())),
        severity=None if complete and not at_will else "info",
        advice=" ".join(filter(None, (look, advice, seen))),
    )


def _heard_of(context: Context, connection: Connection, first: Step, responsive: bool) -> str:
    """What was captured of the target besides."""
    since = _silent_since(context, connection.passive.address, first)
    if not responsive:
        return (
            "no CM message of that address was ever captured: it is down or unreachable, or only one direction was"
            " captured"
        )
    if since is first:
        return "other CM messages of that address were captured"
    question, here = since.message, first.message
    where = frames([(question.file, question.frame)], question.file != here.file)
    return (
        f"that address has answered nothing since {where}, a {question.type} {duration(between(since, first))} before"
    )


H20 = rule(
    "H20",
    "simultaneous-connect",
    "Both ends sent each other a REQ for one connection",
    severity="info",
    clause="no clause that we could check (peer-to-peer mode of the specification); Linux has no such mode",
    explanation="Two peers opened the same connection at the same time: their REQs for one service crossed, and the"
    " REP to one of them names the QPN that the other REQ had offered. One end has become the passive side, and its"
    " own REQ must go unanswered; which end that has to be, the specification settles by a comparison (of CA GUIDs,"
    " then QPNs, as far as known). Linux has no peer-to-peer mode: while it still holds the other REQ it takes the QPN"
    " for one in use, and refuses the REP as stale (REJ 10).",
    false_positives="Two REQs in opposite directions with a QP of their own each are two connections (IPoIB-CM,"
    " meshes): not reported, nor when no REP was captured. Machines with the same CA GUID may look like one peer.",
    advice="Nothing to do if the connection comes up. Else let one side listen and only the other connect.",
)

WAITING: Final = ("REQ_SENT", "MRA_REQ_RCVD")


@H20.on_step("REP", history=first, when=entangled)
def simultaneous_connect(connection: Connection, step: Step, context: Context) -> Verdicts:
    requests = of_type(connection, "REQ")
    if not requests or connection.service_id is None:
        return
    for conflict in connection.reply_conflicts:
        other = conflict.other
        opposite = conflict.owner == "active" and conflict.same_peer and other.service_id == connection.service_id
        if not opposite or conflict.owner_state not in WAITING:
            continue
        theirs, offered = of_type(other, "REQ")[0], connection.passive.qpn
        gap = abs(between(requests[0], theirs))
        yield Verdict(
            f"{end_name(connection.active)} and {end_name(connection.passive)} called each other within"
            f" {duration(gap)} for the same service, and the REP names QPN {qpn(offered)}, which the other REQ had"
            " offered: one connection, opened from both ends.",
            {"qpn": known(Qpn, offered), "gap": Duration(gap)},
            (one_clock(requests[0], theirs, step),),
            steps=(requests[0], theirs, step),
            related=(other,),
        )


H26 = rule(
    "H26",
    "crossing-attempts",
    "Two ends called each other at the same time, and one gave way",
    severity="info",
    clause="no specification clause: an agreement of the consumers (Lustre, MPI and others settle the race so)",
    explanation="Each of two hosts sent the other a REQ for the same service before its own had been answered. Two"
    " connections were under way where one is wanted, so the program on one side refused the other's attempt on purpose"
    " (REJ 28), and its own came up. The two belong together: this refusal is no failure, and is not counted as one.",
    false_positives="A refusal for another reason that happened to cross. Not reported when the refusing side's own"
    " attempt failed as well, nor when it had been answered before the other REQ was sent.",
    advice="Nothing to do.",
)


@H26.on_event("ENDED", history=rejected)
def crossing_attempts(connection: Connection, event: Event, context: Context) -> Verdicts:
    other, reject = connection.crossing, connection.reject
    if other is None or reject is None or not connection.gave_way():
        return
    ours, theirs = of_type(connection, "REQ"), of_type(other, "REQ")
    if ours and theirs:
        gap = abs(between(ours[0], theirs[0]))
        yield Verdict(
            f"{end_name(connection.active)} and {end_name(connection.passive)} called each other within {duration(gap)}"
            f" for the same service. {end_name(other.active)} refused this attempt, on purpose as it seems, and its own"
            f" came up: connection {other.id}.",
            {"gap": Duration(gap), "instead": other.id},
            (one_clock(ours[0], theirs[0]), unopposed("meaning")),
            steps=(theirs[0], ours[0], reject),
            related=(other,),
        )
