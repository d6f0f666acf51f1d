"""R: answers that come so slowly that they nearly fail, though no limit was passed (IBA 12.6.6, 12.9.7).

R04 and R05 judge the single answer that was too late; here it is a port's habit that counts, told once for each port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.formatting import duration, end_name, times
from ibcmtool.model import Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import slow
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import MOST_TOLD, news
from ibcmtool.rules.steps import DISORDER

OFTEN = 3  # slow answers of one port before they are a habit
REPEATED = 2  # REQs in vain that are more than a coincidence


class _Slow(NamedTuple):
    """What R11 or R12 knows of a port's slow answers."""

    answers: int
    slowest: int  # ns after the REQ
    allowed: int  # ns, for that one


def _habit(view: Context, code: str, step: Step, answer: int, allowed: int) -> _Slow | None:
    """Count one more slow answer of the sender's port; what is known when it has become a habit, and only then."""
    memory, port = view.memory[code], step.message.source
    known: _Slow = memory.get(port, _Slow(0, 0, 0))
    if answer > known.slowest:
        known = _Slow(known.answers, answer, allowed)
    known = memory[port] = known._replace(answers=known.answers + 1)
    if len(memory) > MOST_TOLD:
        del memory[next(iter(memory))]
    return known if known.answers == OFTEN else None


def _request_alone(history: str) -> bool:
    return history == "Qp"


@rule(
    "R11",
    "near-timeout-setup",
    "A target needs most of the time that it has to answer a REQ",
    severity="info",
    on=("REP",),
    history=_request_alone,
    when=slow,
    clause="IBA 12.7 (Remote CM Response Timeout)",
    explanation=(
        "At three connections this port sent its REP after more than half of the time that the REQ allows (with two"
        " packet lives of path). It works, but with a little more load the REQs will be repeated and the connections"
        " time out. Told once for each port."
    ),
    false_positives=(
        "Captured at the active end, the round trip is counted in. A first REQ of a capture is not counted, as earlier"
        " sends of it may be missing."
    ),
    advice="Look at how long the accepting consumer takes (resources, backlog), before it gets worse.",
)
def near_timeout_setup(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.opened - view.start <= DISORDER:
        return ()
    allowed = response_wait(connection.request, "active").nominal
    answer = step.message.time - connection.opened
    habit = _habit(view, "R11", step, answer, allowed) if allowed // 2 < answer <= allowed else None
    if habit is None:
        return ()
    sentence = (
        f"{end_name(connection.passive)} has answered {habit.answers} REQs with its REP only after more than half of"
        f" the time allowed, at worst after {duration(habit.slowest)} of {duration(habit.allowed)}."
    )
    evidence = {"answers": habit.answers, "slowest_ns": habit.slowest, "allowed_ns": habit.allowed}
    return (Verdict(sentence, (connection.steps[0], step), evidence, "probable"),)


_repeated_request = re.compile(r"Q(?:\^Q)+p").fullmatch


def _no_mra(history: str) -> bool:
    return _repeated_request(history) is not None


@rule(
    "R12",
    "slow-without-mra",
    "A slow target lets REQs be repeated and sends no MRA",
    severity="info",
    on=("REP",),
    history=_no_mra,
    when=slow,
    clause="IBA 12.6.6 (MRA); Linux rdma_cm sends one only for a repeated REQ",
    explanation=(
        "At three connections the REQ had to be sent again before this port's REP came, no MRA was captured, and the"
        " REP did not follow the last REQ at once, as it would had the earlier ones been lost. A side that needs longer"
        " than the REQ allows should say so by an MRA. Told once for each port."
    ),
    false_positives=(
        "Lost REQs of a target that always takes more than 50 ms look the same; so does an MRA that was not captured"
        " (possible only). R04 judges the single case."
    ),
    advice="Look at the accepting consumer, or raise the requester's response timeout.",
)
def slow_without_mra(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return ()
    allowed = response_wait(connection.request, "active").nominal
    if not DISORDER < step.message.time - connection.steps[-2].message.time <= allowed:
        return ()
    habit = _habit(view, "R12", step, step.message.time - connection.opened, allowed)
    if habit is None:
        return ()
    sentence = (
        f"{end_name(connection.passive)} has let {habit.answers} REQs be repeated before its REP came, without an MRA;"
        f" at worst it took {duration(habit.slowest)}, the REQ allows {duration(habit.allowed)}."
    )
    evidence = {"answers": habit.answers, "slowest_ns": habit.slowest, "allowed_ns": habit.allowed}
    return (Verdict(sentence, (connection.steps[0], step), evidence, "possible"),)


def _asked_after_reply(history: str) -> bool:
    """A REQ was repeated after a REP, and the active side said nothing else."""
    reply = history.find("p")
    return reply >= 0 and "^Q" in history[reply:] and "U" not in history and "M" not in history


@rule(
    "R13",
    "duplicate-req-unanswered",
    "A REQ was repeated in vain after the REP, and the REP was not repeated in time",
    severity="info",
    on=("REP", "ENDED"),
    history=_asked_after_reply,
    clause="IBA 12.9.7 (REP sent); Linux drops a repeated REQ then and relies on its REP timer",
    explanation=(
        "A REP was lost on its way, so the active side repeats its REQ. A passive side that has sent its REP need not"
        " answer that, as its own timer (Local CM Response Timeout) will send the REP again. Here neither happened for"
        " twice that time. Told once for each port."
    ),
    false_positives=(
        "A REP sent again and lost by the capture looks like none (possible only). Silent after an MRA, an RTU or data,"
        " when every REP allowed was sent, and where no input was recording all the time."
    ),
    advice="Look at the CM of the passive side: its REP timer is slow or stopped (MAD layer, overload).",
)
def duplicate_req_unanswered(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    steps = connection.steps[:-1] if event.step is not None else connection.steps
    replies = [step for step in steps if step.message.type == "REP"]
    wait, retries = response_wait(connection.request, "passive"), max_cm_retries(connection.request)
    if not replies or retries is None or wait.assumed or len(replies) > retries or "active" in connection.first_data:
        return
    last = replies[-1]
    later = [step for step in steps if step.message.time > last.message.time + DISORDER]
    asked = [step for step in later if step.message.type == "REQ"]
    if len(asked) < REPEATED or any(step.sender == "passive" for step in later):
        return
    until = event.step or asked[-1]
    silence = until.message.time - last.message.time
    if silence <= 2 * wait.nominal or not view.covered(connection, last.message.time, until.message.time):
        return
    if news(view, "R13", last.message.source):
        yield Verdict(
            f"The REQ was sent again {times(len(asked))} after the REP; {end_name(connection.passive)} answered none of"
            f" these and did not repeat its REP for {duration(silence)}, though it may after {duration(wait.nominal)}.",
            (last, asked[0], until),
            {"requests": len(asked), "silence_ns": silence, "wait_ns": wait.nominal},
            "possible",
        )
