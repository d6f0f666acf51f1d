"""H09, H10: an MRA about a message that its sender never got, or has answered already (IBA 12.6.6)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import MRA_OF_LAP, MRA_OF_REP, MRA_OF_REQ
from ibcmtool.connections.timers import response_wait
from ibcmtool.evidence import Ground, one_clock, unopposed, weakened
from ibcmtool.formatting import duration
from ibcmtool.messages import Mra
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, matches
from ibcmtool.rules.steps import ANSWERS, DISORDER, MRAED, between, fields_of, of_type, sender_of, sent_by, until
from ibcmtool.values import Duration

SENDERS: Final[dict[int | None, Role]] = {MRA_OF_REQ: "passive", MRA_OF_REP: "active"}  # of an MRA in a handshake

H09 = rule(
    "H09",
    "mra-wrong-message",
    "An MRA acknowledges a message that its sender never got",
    severity="error",
    clause="IBA 12.6.6 (Message MRAed); Linux cm_mra_handler checks the state",
    explanation="An MRA buys time for the answer to a message that was received: the passive side sends it for a REQ"
    " (0), the active side for a REP (1), either for a LAP (2); 3 is undefined. One about another message is ignored,"
    " so it buys no time and the peer goes on repeating.",
    false_positives="Not reported when the REQ was not captured and the sender's role is a guess. A LAP that the"
    " capture dropped makes an MRA for it look wrong (then probable).",
    advice="Look at the CM that sent it: the Message MRAed field does not fit its role.",
)


@H09.on_step("MRA", history=first, needs=("sender",))
def mra_wrong_message(connection: Connection, step: Step, context: Context) -> Verdicts:
    mraed, sender = fields_of(step, Mra).message_mraed, sender_of(step)
    if mraed is None:
        return
    grounds: tuple[Ground, ...] = ()
    if mraed not in MRAED:
        sentence = f"MRA with Message MRAed {mraed}, which is undefined."
    elif connection.request is None:
        return
    elif SENDERS.get(mraed) == PEER[sender]:
        sentence = (
            f"MRA from the {sender} side acknowledges a {MRAED[mraed]} ({mraed}), a message that this side sends"
            " itself."
        )
    elif mraed == MRA_OF_LAP and not of_type(connection, "LAP", sender=PEER[sender]):
        sentence = f"MRA from the {sender} side acknowledges a LAP, but no LAP from the other side was captured."
        grounds = (unopposed("complete"),)
    else:
        return
    yield Verdict(sentence, {"message_mraed": mraed, "sender": sender}, grounds)


H10 = rule(
    "H10",
    "mra-after-answer",
    "An MRA asks for time for a message that was answered already",
    severity="info",
    clause="IBA 12.6.6; Linux cm_mra_handler takes an MRA only while the answer is awaited",
    explanation="An MRA asks the other side to wait for the answer to its REQ or REP. After the answer (REP or REJ;"
    " RTU or REJ) there is nothing to wait for, and the receiver drops it. Two parts of the sender do not know of each"
    " other, or the message was held up.",
    false_positives="Within 50 ms of the answer the capture may have them in the wrong order: not reported. Nor is it"
    " reported when the other side has asked again since, because the answer may have been lost. A repetition that is"
    " missing from the capture is another innocent cause: possible only, after a REJ in particular. More than a"
    " response timeout after a REJ it is H08.",
    advice="Harmless. Look at the sender's CM if it is frequent.",
)


# An MRA after what answers it: of the passive side after its REP or REJ, of the active side after its RTU or REJ.
@H10.on_event("ENDED", history=matches("[^pj]*[pj].*m.*|[^UJ]*[UJ].*M.*"))
def mra_after_answer(connection: Connection, event: Event, context: Context) -> Verdicts:
    """At the end: a message that the capture has late may have been sent in time."""
    for mra in of_type(connection, "MRA"):
        mraed = fields_of(mra, Mra).message_mraed
        if mra.sender != SENDERS.get(mraed):
            continue
        answer = _answer_before(connection, mra, mraed)
        if answer is None:
            continue
        kind, gap = answer.message.type, between(answer, mra)
        yield Verdict(
            f"{sent_by(mra)} asks for time for the {MRAED[mraed]} {duration(gap)} after its {kind} had answered it.",
            {"gap": Duration(gap), "message_mraed": mraed, "answer": kind},
            ((weakened if kind == "REJ" else unopposed)("complete"), one_clock(answer, mra, otherwise="weakened")),
            steps=(answer, mra),
        )
        return


def _answer_before(connection: Connection, mra: Step, mraed: int | None) -> Step | None:
    """What had answered the message that this MRA asks time for; None if the other side has asked again since."""
    answers = [
        step
        for step in of_type(connection, *ANSWERS[mraed], sender=SENDERS[mraed])
        if step.message.time < mra.message.time - DISORDER
    ]
    if not answers:
        return None
    answer = answers[-1]
    if any(between(answer, step) > 0 for step in until(of_type(connection, MRAED[mraed]), mra)):
        return None
    wait = max(response_wait(connection.request, role).nominal for role in PEER)
    return None if answer.message.type == "REJ" and between(answer, mra) > wait else answer  # H08
