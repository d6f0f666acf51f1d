"""R06, R15, R17: what an MRA promised, and the time that it took (IBA 12.6.6)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from ibcmtool import services
from ibcmtool.connections.codes import MRA_OF_REQ
from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import exponent, most_sends, response_wait
from ibcmtool.evidence import one_clock, unopposed, weakened
from ibcmtool.formatting import duration, end_name, listed
from ibcmtool.messages import Mra
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, rej_reason, timed_out, with_mra
from ibcmtool.rules.silence import LOST
from ibcmtool.rules.steps import (
    ANSWERS,
    MRAED,
    before,
    between,
    fields_of,
    numbered_before,
    of_type,
    sender_of,
    sent_by,
)
from ibcmtool.values import Duration

ENDINGS: Final = ("REJ", "DREQ", "DREP")
HANGS: Final = " Its CM is alive and has the REQ; its program never answered."
ASKED_AGAIN: Final = " The other side asked again in between: an earlier answer may have been lost."

R06 = rule(
    "R06",
    "mra-promise-broken",
    "An MRA promised an answer that came too late or never",
    severity="warning",
    clause="IBA 12.6.6 (Service Timeout)",
    explanation="The sender of an MRA promises its answer (REP or REJ; RTU or REJ; APR) within the Service Timeout."
    " Later, the other side may have given up. The last MRA for a message counts.",
    false_positives="Not reported when the other side ended the attempt first, or when the capture ends before the"
    " promise is due. An answer that the capture dropped looks like none (then probable). Information where the other"
    " side repeated its REQ up to seven times after the MRA, or its REP at all, as answers to it may have been lost;"
    " and where it should have repeated it, but did not, or the message that the MRA is for was not captured.",
    advice="Look at the consumer that asked for time: it hangs, or needs a longer Service Timeout.",
)


# No retransmission, and there was an MRA.
@R06.on_step("REP", "REJ", "RTU", "APR", history=matches(r"[^mM]*[mM].*(?<!\^)\w"), needs=("sender",))
def mra_promise_late(connection: Connection, step: Step, context: Context) -> Verdicts:
    mra = _mra_before(connection, step)
    if mra is None:
        return
    fields = fields_of(mra, Mra)
    timeout = fields.service_timeout
    if timeout is None or step.message.type not in ANSWERS.get(fields.message_mraed, ()):
        return
    gap, promised = between(mra, step), exponent(timeout)
    if gap <= promised or not context.covered(connection, mra.message.time, step.message.time):
        return
    doubt = _doubt(connection, mra, sender_of(step), promised, gap)
    yield Verdict(
        f"{step.message.type} came {duration(gap)} after the MRA that promised it within {duration(promised)}.{doubt}",
        {"gap": Duration(gap), "service_timeout": timeout, "promised": Duration(promised)},
        (weakened("received") if doubt else one_clock(mra, step),),
        steps=(mra, step),
    )


def _mra_before(connection: Connection, step: Step) -> Step | None:
    """The message of the same side before this one, if it is an MRA: if not, that was answered already."""
    newest = next((earlier for earlier in before(connection, step) if earlier.sender == step.sender), None)
    return newest if newest is not None and newest.message.type == "MRA" else None


def _asked_again(connection: Connection, mra: Step, role: Role) -> int:
    """How often the side that got this MRA has sent anything after it: its message again, for want of the answer."""
    return sum(step.sender == PEER[role] and between(mra, step) > 0 for step in connection.steps)


@R06.on_event("ENDED", history=with_mra)
def mra_promise_forgotten(connection: Connection, event: Event, context: Context) -> Verdicts:
    """An MRA that nothing followed from either side, although the capture goes on beyond its promise."""
    for role in PEER:
        mra = next(reversed(of_type(connection, "MRA", sender=role)), None)
        timeout = None if mra is None else fields_of(mra, Mra).service_timeout
        if mra is None or timeout is None or role in connection.first_data:
            continue
        promised = exponent(timeout)
        waited = context.watched(connection, mra.message.time, event.time)
        if waited <= promised or _settled(connection, mra, role, promised):
            continue
        doubt = _doubt(connection, mra, role, promised, waited)
        hangs = HANGS if role == "passive" and fields_of(mra, Mra).message_mraed == MRA_OF_REQ else ""
        yield Verdict(
            f"{sent_by(mra)} promised an answer within {duration(promised)}; none was captured in the"
            f" {duration(waited)} that followed.{hangs}{doubt}",
            {"service_timeout": timeout, "promised": Duration(promised), "waited": Duration(waited)},
            ((weakened if doubt else unopposed)("complete"),),
            steps=(mra,),
        )


def _settled(connection: Connection, mra: Step, role: Role, promised: int) -> bool:
    """Whether the answer came, in time or not (that was judged when it came), or the other side ended it first."""
    return any(
        (step.sender == role and step.message.type != "MRA")
        or (step.sender == PEER[role] and step.message.type in ENDINGS and between(mra, step) <= promised)
        for step in connection.steps
        if between(mra, step) > 0 or numbered_before(mra, step)  # the capture may have them in disorder
    )


def _doubt(connection: Connection, mra: Step, role: Role, promised: int, waited: int) -> str:
    """Why the answer may have been given in time all the same; empty if that is unlikely."""
    asked_again = _asked_again(connection, mra, role)
    if asked_again:
        # One that has rejected answers a REQ that comes again anew, but not a REP.
        return ASKED_AGAIN if role == "active" or asked_again <= LOST else ""
    question = MRAED.get(fields_of(mra, Mra).message_mraed, "")
    asked = of_type(connection, question, sender=PEER[role])
    if not asked:
        return f" The capture lacks the {question}, and perhaps the answer."
    wait = response_wait(connection.request, PEER[role]).nominal
    if len(asked) >= most_sends(connection.request) or waited <= promised + wait + wait // SLACK:
        return ""
    return (
        f" Nor was the {question} sent again meanwhile: its sender ended, the capture lacks messages, or its clock was"
        " set forward."
    )


R15 = rule(
    "R15",
    "mra-stretched",
    "An MRA made the answer to a REQ take its time",
    severity="info",
    clause="IBA 12.6.6 (Service Timeout); Linux sends an MRA for a repeated REQ only (asked by rdma_cm; in 7.2 ib_cm"
    " itself)",
    explanation="The passive side asked for time with an MRA, and answered within it. Meanwhile the requester repeats"
    " its REQ only after the time asked for, so that the gaps between its REQs grow from some seconds to more than a"
    " minute: no message was lost, and no CM is to blame. Reported when the answer took longer than one response"
    " timeout.",
    false_positives="None: it accuses nobody. An answer later than promised is R06.",
    advice="Look at why the accepting consumer takes so long (backlog, resources, a blocked event loop).",
)


# The first answer to a REQ after an MRA of the passive side.
@R15.on_step("REP", "REJ", history=matches(r"[^mpj]*m[^pj]*(?<!\^)[pj]"))
def mra_stretched(connection: Connection, step: Step, context: Context) -> Verdicts:
    requests, mra = of_type(connection, "REQ"), _mra_before(connection, step)
    if step.sender != "passive" or mra is None or not requests:
        return
    fields = fields_of(mra, Mra)
    if fields.service_timeout is None or fields.message_mraed != MRA_OF_REQ:
        return
    asked, took = exponent(fields.service_timeout), between(requests[0], step)
    if between(mra, step) > asked or took <= response_wait(connection.request, "active").nominal:
        return
    passive, accepted = end_name(connection.passive), step.message.type == "REP"
    gaps = [between(earlier, later) for earlier, later in pairwise(requests)]
    again = f" The REQ came again after {listed([duration(gap) for gap in gaps])}, as timer and MRA say."
    said = "" if accepted else services.refusal_words(connection, step.message)
    refusal = f"REJ (reason {rej_reason(step)}{': ' + said if said else ''})"
    yield Verdict(
        f"{'REP' if accepted else refusal} {duration(took)} after the"
        f" {f'first of {len(requests)} REQs' if gaps else 'REQ'}: {passive} had asked for {duration(asked)} by an MRA"
        f" ({context.frame(mra.message)}), and kept to it." + (again if gaps else ""),
        {"took": Duration(took), "asked": Duration(asked), "gaps": [Duration(gap) for gap in gaps]},
        steps=(requests[0], mra, step),
        advice=f"Look at why the consumer of {passive} takes so long to {'accept' if accepted else 'refuse'} (backlog,"
        " resources, a blocked event loop).",
    )


R17 = rule(
    "R17",
    "program-never-answered",
    "A target's CM has the REQ, but its program never answered",
    severity="info",
    clause="IBA 12.6.6; Linux cm_dup_req_handler (MRA for a repeated REQ), ib_destroy_cm_id (REJ 4)",
    explanation="The REQ came again, and the target's CM asked for time with an MRA: in Linux the kernel does so by"
    " itself as long as the program has neither accepted nor refused. Then nothing more came, and the requester gave"
    " up (REJ 4) before the time asked for was over. Network, host and CM of the target are sound; its program hangs,"
    " or is slower than the requester's patience. An MRA whose time went by is R06.",
    false_positives="An answer that the capture missed (QP1 PSNs of the target tell). The requester may have been"
    " stopped: its program, not the REQ, chose when to give up.",
    advice="On the target, see what the listening program does (blocked event loop, full backlog, a debugger): it has"
    " the connection request and does not take it.",
)


@R17.on_step("REJ", history=matches(r"Q[Q^]*m[Q^m]*J"), when=timed_out)
def program_never_answered(connection: Connection, step: Step, context: Context) -> Verdicts:
    first, mra = connection.steps[0], of_type(connection, "MRA")[-1]
    fields, wait = fields_of(mra, Mra), response_wait(connection.request, "active").nominal
    if fields.message_mraed != MRA_OF_REQ or fields.service_timeout is None:
        return
    asked, waited = exponent(fields.service_timeout) + wait, between(mra, step)
    if 0 < waited <= asked and context.covered(connection, mra.message.time, step.message.time):
        yield Verdict(
            f"The CM of {end_name(connection.passive)} has the REQ and asked for time (MRA, frame {mra.message.frame});"
            f" its program never answered. The requester gave up (REJ 4) {duration(between(first, step))} after its"
            f" REQ, {duration(waited)} into the {duration(asked)} that the MRA makes it wait.",
            {"gave_up_after": Duration(between(first, step)), "waited": Duration(waited), "asked": Duration(asked)},
            (context.witness.complete(connection.passive.address, mra.message.time, step.message.time),),
            steps=(first, mra, step),
        )
