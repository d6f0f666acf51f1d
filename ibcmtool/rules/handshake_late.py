"""H: messages of a handshake that come too late or too early: MRA, DREP and DREQ (IBA 12.6.6, 12.10.8).

Judged at the end of a connection: a message that the capture has late may have been sent in time, and only then is it
known how often it came. What the capture shows in order within DISORDER may have crossed on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibcmtool.connections.timers import response_wait
from ibcmtool.formatting import duration, times
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import with_mra
from ibcmtool.rules.context import Context
from ibcmtool.rules.handshake_repeats import until
from ibcmtool.rules.steps import DISORDER, heard, of_type, one_capture


def _mra_after_answer(history: str) -> bool:
    return with_mra(history) and (_follows(history, "m", "pj") or _follows(history, "M", "UJ"))


def _follows(history: str, letter: str, earlier: str) -> bool:
    """Whether the last `letter` comes after one of the `earlier` ones."""
    head = history.rpartition(letter)[0]
    return any(one in head for one in earlier)


ASKED = {0: "REQ", 1: "REP"}  # by Message MRAed
MRA_SENDERS: dict[int, Role] = {0: "passive", 1: "active"}
ANSWERS = {0: ("REP", "REJ"), 1: ("RTU", "REJ")}


@rule(
    "H10",
    "mra-after-answer",
    "An MRA asks for time for a message that was answered already",
    severity="info",
    on=("ENDED",),
    history=_mra_after_answer,
    clause="IBA 12.6.6; Linux cm_mra_handler takes an MRA only while the answer is awaited",
    explanation=(
        "An MRA asks the other side to wait for the answer to its REQ or REP. After the answer (REP or REJ; RTU or REJ)"
        " there is nothing to wait for, and the receiver drops it. Two parts of the sender do not know of each other,"
        " or the message was held up."
    ),
    false_positives=(
        "Within 50 ms of the answer the capture may have them in the wrong order: silent. So it is when the other side"
        " has asked again since, because the answer may have been lost. A repetition that is missing from the capture"
        " is another innocent cause: possible only, after a REJ in particular. More than a response timeout after a REJ"
        " it is H08."
    ),
    advice="Harmless. Look at the sender's CM if it is frequent.",
)
def mra_after_answer(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    wait = max(response_wait(connection.request, role).nominal for role in PEER)
    for mra in of_type(connection, "MRA"):
        mraed, time = mra.message.fields.message_mraed, mra.message.time
        if mraed not in ASKED or mra.sender != MRA_SENDERS[mraed]:
            continue
        answers = [
            step
            for step in of_type(connection, *ANSWERS[mraed], sender=MRA_SENDERS[mraed])
            if step.message.time < time - DISORDER
        ]
        if not answers:
            continue
        answer = answers[-1]
        gap = time - answer.message.time
        asked = until(of_type(connection, ASKED[mraed]), mra)
        if any(step.message.time > answer.message.time for step in asked):
            continue
        if answer.message.type == "REJ" and gap > wait:
            continue
        yield Verdict(
            f"MRA of the {mra.sender} side asks for time for the {ASKED[mraed]} {duration(gap)} after its"
            f" {answer.message.type} had answered it.",
            (answer, mra),
            {"gap_ns": gap, "message_mraed": mraed, "answer": answer.message.type},
            confidence="possible" if answer.message.type == "REJ" or not one_capture(answer, mra) else "probable",
        )
        return


def _drep_alone(history: str) -> bool:
    """One side sent a DREP, the other no DREQ."""
    return "Q" in history and (("e" in history and "D" not in history) or ("E" in history and "d" not in history))


@rule(
    "H22",
    "drep-for-nothing",
    "A DREP answers a DREQ that is not in the capture",
    severity="info",
    on=("ENDED",),
    history=_drep_alone,
    clause="IBA 12.10.8 (communication release); Linux cm_issue_drep",
    explanation=(
        "A DREP is sent for a DREQ only. Mostly the capture has lost that DREQ, so that it does not show who closed the"
        " connection, and when. Otherwise the sender made the DREP up, and its end of the connection is gone."
    ),
    false_positives=(
        "None: it states what is missing. Silent if the connection's beginning was not captured (C02), if nothing of"
        " the DREQ's sender was, and if the capture ends with the DREP."
    ),
    advice="Check the capture for drops before asking which side closed.",
)
def drep_for_nothing(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if connection.request is None:
        return
    for role in PEER:
        dreps = of_type(connection, "DREP", sender=role)
        if not dreps or of_type(connection, "DREQ", sender=PEER[role]):
            continue
        if not heard(view, connection, PEER[role]) or event.time - dreps[0].message.time <= DISORDER:
            continue
        yield Verdict(
            f"DREP of the {role} side, but no DREQ of the {PEER[role]} side was captured.",
            (dreps[0],),
            {"dreps": len(dreps), "sender": role},
            confidence="possible",
        )


def _dreq_before_rep(history: str) -> bool:
    head, dreq, _ = history.replace("d", "D").partition("D")
    return bool(dreq) and "Q" in head and not any(letter in head for letter in "pPuUeE")


@rule(
    "H23",
    "dreq-before-established",
    "A DREQ for a connection that was not established",
    severity="warning",
    on=("ENDED",),
    history=_dreq_before_rep,
    clause="IBA 12.9.7 (a handshake is ended by REJ); Linux cm_dreq_handler ignores it before REP sent",
    explanation=(
        "Before the REP there is no connection to close: a requester that gives up sends REJ 4, a passive side REJ 28."
        " A DREQ is ignored then, so that the other side goes on with the handshake, and its sender repeats it in vain."
        " Certain if it names Remote Communication ID 0, as one who has had no answer must."
    ),
    false_positives=(
        "If the DREQ names both ids there most likely was a REP that is missing from the capture: information only, and"
        " silent when nothing of the other side was ever captured. A REP up to 50 ms later counts."
    ),
    advice="Look at the CM or consumer that sent the DREQ; its peer keeps its half of the attempt until a timeout.",
)
def dreq_before_established(event: Event, view: Context) -> Iterable[Verdict]:
    connection = event.connection
    dreq = of_type(connection, "DREQ")[0]
    replies = until(of_type(connection, "REP", "RTU"), dreq)
    if dreq.sender == "unknown" or connection.request is None or connection.late_duplicate_of or replies:
        return ()
    nameless = dreq.sender == "active" and dreq.message.fields.remote_comm_id == 0
    if not nameless and not heard(view, connection, PEER[dreq.sender]):
        return ()
    return (_early_dreq(connection, dreq, dreq.sender, nameless),)


def _early_dreq(connection: Connection, dreq: Step, sender: Role, nameless: bool) -> Verdict:
    request = of_type(connection, "REQ")[0]
    dreqs, dreps = of_type(connection, "DREQ", sender=sender), of_type(connection, "DREP", sender=PEER[sender])
    gap = dreq.message.time - request.message.time
    return Verdict(
        f"DREQ of the {sender} side {duration(gap)} after the REQ, before any REP: "
        + (
            "it names Remote Communication ID 0, so its sender had no answer yet."
            if nameless
            else "none was captured, though the DREQ names both Communication IDs."
        )
        + (" It was answered with a DREP." if dreps else f" Sent {times(len(dreqs))}, and no DREP was captured."),
        (request, dreq),
        {"gap_ns": gap, "dreqs": len(dreqs), "dreps": len(dreps)},
        confidence="certain" if nameless and one_capture(request, dreq) else "probable" if nameless else "possible",
        severity=None if nameless else "info",
    )
