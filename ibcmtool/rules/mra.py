"""R06, R15: what an MRA promised, and the time that it took (IBA 12.6.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import exponent, max_cm_retries, response_wait
from ibcmtool.formatting import duration, end_name, listed
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first, with_mra
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import before, of_type, one_capture

MRA_OF_REQ, MRA_OF_REP, MRA_OF_LAP = 0, 1, 2
QUESTIONS = {MRA_OF_REQ: "REQ", MRA_OF_REP: "REP", MRA_OF_LAP: "LAP"}
ANSWERS_LOST = 7  # so many in a row may be lost on the way
ASKED_AGAIN = " The other side asked again in between: an earlier answer may have been lost."
# What answers the message that an MRA acknowledged.
ANSWERS = {MRA_OF_REQ: ("REP", "REJ"), MRA_OF_REP: ("RTU", "REJ"), MRA_OF_LAP: ("APR", "REJ")}


@rule(
    "R06",
    "mra-promise-broken",
    "An MRA promised an answer that came too late or never",
    severity="warning",
    on=("REP", "REJ", "RTU", "APR", "ENDED"),
    history=with_mra,
    clause="IBA 12.6.6 (Service Timeout)",
    explanation=(
        "The sender of an MRA promises its answer (REP or REJ; RTU or REJ; APR) within the Service Timeout. Later, the"
        " other side may have given up. The last MRA for a message counts."
    ),
    false_positives=(
        "Silent when the other side ended the attempt first, or when the capture ends before the promise is due. An"
        " answer that the capture dropped looks like none (then probable). Information where the other side repeated"
        " its message up to seven times after the MRA, as answers to it may have been lost; and where it should have"
        " repeated it, but did not."
    ),
    advice="Look at the consumer that asked for time: it hangs, or needs a longer Service Timeout.",
)
def mra_promise_broken(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is not None:
        if step.retransmission_of is None and step.sender != "unknown":
            yield from _late_promise(connection, step, step.sender, view)
        return
    for role in PEER:
        yield from _forgotten_promise(event, connection, role, view)


def _late_promise(connection: Connection, step: Step, role: Role, view: Context) -> Iterator[Verdict]:
    mra = _newest_mra(connection, step)
    if mra is None:
        return
    fields = mra.message.fields
    if fields.service_timeout is None or step.message.type not in ANSWERS.get(fields.message_mraed, ()):
        return
    gap, promised = step.message.time - mra.message.time, exponent(fields.service_timeout)
    if gap <= promised or not view.covered(connection, mra.message.time, step.message.time):
        return
    asked_again = 1 <= _asked_again(connection, mra, role) <= ANSWERS_LOST
    yield Verdict(
        f"{step.message.type} came {duration(gap)} after the MRA that promised it within {duration(promised)}."
        + (ASKED_AGAIN if asked_again else ""),
        (mra, step),
        {"gap_ns": gap, "service_timeout": fields.service_timeout, "promised_ns": promised},
        confidence="possible" if asked_again else "certain" if one_capture(mra, step) else "probable",
        severity="info" if asked_again else None,
    )


def _asked_again(connection: Connection, mra: Step, role: Role) -> int:
    """How often the side that got this MRA has sent anything after it: its message again, for want of the answer."""
    return sum(step.sender == PEER[role] for step in connection.steps if step.message.time > mra.message.time)


def _newest_mra(connection: Connection, step: Step) -> Step | None:
    """The MRA of the same side whose promise `step` keeps; None if it was answered already."""
    for earlier in before(connection, step):
        if earlier.sender == step.sender:
            return earlier if earlier.message.type == "MRA" else None
    return None


def _forgotten_promise(event: Event, connection: Connection, role: Role, view: Context) -> Iterator[Verdict]:
    """An MRA that nothing followed from either side, although the capture goes on beyond its promise."""
    mras = of_type(connection, "MRA", sender=role)
    if not mras:
        return
    mra = mras[-1]
    fields = mra.message.fields
    if fields.service_timeout is None:
        return
    promised = exponent(fields.service_timeout)
    due = mra.message.time + promised
    for step in connection.steps:
        if step.message.time <= mra.message.time:
            continue
        if step.sender == role and step.message.type != "MRA":
            return  # answered, in time or not: told when it came
        if step.sender == PEER[role] and step.message.type in ("REJ", "DREQ", "DREP") and step.message.time <= due:
            return  # the other side ended it first
    waited = view.watched(connection, mra.message.time, event.time)
    if waited <= promised or role in connection.first_data:
        return
    doubt = _doubt(connection, mra, role, promised, waited)
    yield Verdict(
        f"The {role} side's MRA promised an answer within {duration(promised)}; none was captured in the"
        f" {duration(waited)} that followed.{doubt}",
        (mra,),
        {
            "service_timeout": fields.service_timeout,
            "promised_ns": promised,
            "waited_ns": waited,
        },
        confidence="possible" if doubt else "probable",
        severity="info" if doubt else None,
    )


def _doubt(connection: Connection, mra: Step, role: Role, promised: int, waited: int) -> str:
    """Why the answer that is missing may have been given all the same; empty if that is unlikely."""
    asked_again = _asked_again(connection, mra, role)
    if asked_again:
        return ASKED_AGAIN if asked_again <= ANSWERS_LOST else ""
    question = QUESTIONS.get(mra.message.fields.message_mraed, "")
    sends, retries = len(of_type(connection, question, sender=PEER[role])), max_cm_retries(connection.request)
    wait = response_wait(connection.request, PEER[role]).nominal
    if sends > (retries or 0) or waited <= promised + wait + wait // SLACK:
        return ""
    return f" Nor was the {question} sent again: its sender ended, or the capture lacks messages."


def _answered_after_mra(history: str) -> bool:
    """The first answer to a REQ after an MRA of the passive side."""
    return first(history) and "m" in history and "p" not in history[:-1] and "j" not in history[:-1]


@rule(
    "R15",
    "mra-stretched",
    "An MRA made the answer to a REQ take its time",
    severity="info",
    on=("REP", "REJ"),
    history=_answered_after_mra,
    clause="IBA 12.6.6 (Service Timeout); Linux rdma_cm sends an MRA for a repeated REQ, cm_mra_handler",
    explanation="The passive side asked for time with an MRA, and answered within it. Meanwhile the requester repeats "
    "its REQ only after the time asked for, so that the gaps between its REQs grow from some seconds to more than a "
    "minute: no message was lost, and no CM is to blame. Told when the answer took longer than one response timeout.",
    false_positives="None: it accuses nobody. An answer later than promised is R06.",
    advice="Look at why the accepting consumer takes so long (backlog, resources, a blocked event loop).",
)
def mra_stretched(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender != "passive":
        return ()
    mra = next((s for s in before(connection, step) if s.sender == "passive"), None)
    requests = of_type(connection, "REQ")
    if mra is None or mra.message.type != "MRA" or not requests or mra.message.fields.message_mraed != MRA_OF_REQ:
        return ()
    asked = mra.message.fields.service_timeout
    since_mra = step.message.time - mra.message.time
    took = step.message.time - requests[0].message.time
    if asked is None or since_mra > exponent(asked) or took <= response_wait(connection.request, "active").nominal:
        return ()
    return (_stretched(connection, step, mra, requests, took),)


def _stretched(connection: Connection, step: Step, mra: Step, requests: list[Step], took: int) -> Verdict:
    kind, asked = step.message.type, exponent(mra.message.fields.service_timeout)
    gaps = [later.message.time - earlier.message.time for earlier, later in pairwise(requests)]
    passive = end_name(connection.passive)
    answer = kind if kind == "REP" else f"REJ (reason {step.message.fields.reason})"
    question = f"first of {len(requests)} REQs" if gaps else "REQ"
    again = f" The REQ came again after {listed([duration(gap) for gap in gaps])}, as timer and MRA say."
    return Verdict(
        f"{answer} {duration(took)} after the {question}: {passive} had asked for {duration(asked)} by an MRA "
        f"(frame {mra.message.frame}), and kept to it." + (again if gaps else ""),
        (requests[0], mra, step),
        {"took_ns": took, "asked_ns": asked, "gaps_ns": gaps},
        advice=f"Look at why the consumer of {passive} takes so long to {'accept' if kind == 'REP' else 'refuse'} "
        "(backlog, resources, a blocked event loop).",
    )
