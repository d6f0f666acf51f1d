"""R11-R13: answers that come so slowly that they nearly fail, though no limit was passed (IBA 12.6.6, 12.9.7).

R04 and R05 judge the single answer that was too late; here it is a port's habit that counts, reported once for each
port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.evidence import Ground, unopposed, weakened
from ibcmtool.formatting import duration, end_name, times
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, slow
from ibcmtool.rules.steps import DISORDER, between
from ibcmtool.values import Duration

OFTEN: Final = 3  # slow answers of one port before they are a habit
REPEATED: Final = 2  # REQs in vain that are more than a coincidence
MOST_PORTS = 4096  # whose slow answers are counted, the newest


class _Slow(NamedTuple):
    """What R11 or R12 knows of a port's slow answers."""

    answers: int
    slowest: int  # ns after the REQ
    allowed: int  # ns, for that one


def _one_more(
    code: str, connection: Connection, step: Step, context: Context, allowed: int, words: str, ground: Ground
) -> Verdicts:
    """Count one more slow answer of the sender's port; the verdict when it has become a habit, and only then."""
    memory, port, answer = context.memory[code], step.message.source, step.message.time - connection.opened
    known: _Slow = memory.get(port, _Slow(0, 0, 0))
    if answer > known.slowest:
        known = _Slow(known.answers, answer, allowed)
    known = memory[port] = known._replace(answers=known.answers + 1)
    if len(memory) > MOST_PORTS:
        del memory[next(iter(memory))]
    if known.answers == OFTEN:
        slowest, limit = Duration(known.slowest), Duration(known.allowed)
        yield Verdict(
            f"{end_name(connection.passive)} has "
            + words.format(answers=known.answers, slowest=duration(slowest.ns), allowed=duration(limit.ns)),
            {"answers": known.answers, "slowest": slowest, "allowed": limit},
            (ground,),
            steps=(connection.steps[0], step),
        )


R11 = rule(
    "R11",
    "near-timeout-setup",
    "A target needs most of the time that it has to answer a REQ",
    severity="info",
    clause="IBA 12.7 (Remote CM Response Timeout)",
    explanation="In three connections this port sent its REP after more than half of the time that the REQ allows"
    " (with two packet lives of path). It works, but with a little more load the REQs will be repeated and the"
    " connections time out. Reported once for each port.",
    false_positives="Captured at the active end, the round trip is counted in. A first REQ of a capture is not"
    " counted, as earlier sends of it may be missing.",
    advice="Look at how long the accepting consumer takes (resources, backlog), before it gets worse.",
)


@R11.on_step("REP", history=matches("Qp"), when=slow)
def near_timeout_setup(connection: Connection, step: Step, context: Context) -> Verdicts:
    answer, allowed = step.message.time - connection.opened, response_wait(connection.request, "active").nominal
    if connection.opened - context.start <= DISORDER or not allowed // 2 < answer <= allowed:
        return ()
    words = "answered {answers} REQs with its REP only after more than half of the time allowed, at worst after"
    words += " {slowest} of {allowed}."
    return _one_more("R11", connection, step, context, allowed, words, unopposed("timer"))


R12 = rule(
    "R12",
    "slow-without-mra",
    "A slow target lets REQs be repeated and sends no MRA",
    severity="info",
    clause="IBA 12.6.6 (MRA); Linux sends one only for a repeated REQ",
    explanation="In three connections the REQ was repeated before the REP, no MRA came, and the REP did not directly"
    " follow the last REQ (so the REQs were not lost). A side that needs longer than the REQ allows should say so by"
    " an MRA. Linux sends one by itself when a REQ is repeated, with a Service Timeout of 24 (69 s): in 7.2 for every"
    " consumer, in older kernels for those of rdma_cm. Reported once for each port.",
    false_positives="Lost REQs of a target that always takes more than 50 ms look the same; so does an MRA that was"
    " not captured (possible only). R04 judges the single case.",
    advice="Look at the accepting consumer, or raise the requester's response timeout.",
)


@R12.on_step("REP", history=matches(r"Q(\^Q)+p"), when=slow)
def slow_without_mra(connection: Connection, step: Step, context: Context) -> Verdicts:
    allowed = response_wait(connection.request, "active").nominal
    if not DISORDER < between(connection.steps[-2], step) <= allowed:
        return ()
    words = "let {answers} REQs be repeated before its REP came, without an MRA; at worst it took {slowest}, the REQ"
    words += " allows {allowed}."
    return _one_more("R12", connection, step, context, allowed, words, weakened("complete"))


R13 = rule(
    "R13",
    "duplicate-req-unanswered",
    "A REQ was repeated in vain after the REP, and the REP was not repeated in time",
    severity="info",
    clause="IBA 12.9.7 (REP sent); Linux drops a repeated REQ then and relies on its REP timer",
    explanation="A REP was lost on its way, so the active side repeats its REQ. A passive side that has sent its REP"
    " need not answer that, as its own timer (Local CM Response Timeout) will send the REP again. Here neither"
    " happened for twice that time. Reported once for each port.",
    false_positives="A REP sent again and lost by the capture looks like none (possible only). Not reported after an"
    " MRA, an RTU or data, when every REP allowed was sent, and where no input was recording all the time.",
    advice="Look at the CM of the passive side: its REP timer is slow or stopped (MAD layer, overload).",
)


# A REQ was repeated after a REP, and the active side said nothing else.
ASKED_AFTER_REPLY: Final = matches(r"(?=[^UM]*$)[^p]*p.*\^Q.*")


@R13.on_step("REP", history=ASKED_AFTER_REPLY, once="subject")
def reply_came_late(connection: Connection, step: Step, context: Context) -> Verdicts:
    return _asked_in_vain(connection, connection.steps[:-1], step, context)


@R13.on_event("ENDED", history=ASKED_AFTER_REPLY, once="subject")
def reply_never_came(connection: Connection, event: Event, context: Context) -> Verdicts:
    return _asked_in_vain(connection, connection.steps, None, context)


def _asked_in_vain(connection: Connection, steps: Sequence[Step], reply: Step | None, context: Context) -> Verdicts:
    """The verdict on REQs among these steps, up to the repeated REP if it came."""
    replies = [step for step in steps if step.message.type == "REP"]
    wait, retries = response_wait(connection.request, "passive"), max_cm_retries(connection.request)
    if not replies or retries is None or wait.assumed or len(replies) > retries or "active" in connection.first_data:
        return
    last = replies[-1]
    later = [step for step in steps if between(last, step) > DISORDER]
    asked = [step for step in later if step.message.type == "REQ"]
    if len(asked) < REPEATED or any(step.sender == "passive" for step in later):
        return
    until = reply or asked[-1]
    silence = between(last, until)
    if silence > 2 * wait.nominal and context.covered(connection, last.message.time, until.message.time):
        yield Verdict(
            f"The REQ was sent again {times(len(asked))} after the REP; {end_name(connection.passive)} answered none of"
            f" these and did not repeat its REP for {duration(silence)}, though it may after {duration(wait.nominal)}.",
            {"requests": len(asked), "silence": Duration(silence), "wait": Duration(wait.nominal)},
            (weakened("complete"),),
            steps=(last, asked[0], until),
            subject=last.message.source,
        )
