"""R09, R10, R14: what a REQ allows in time (IBA 12.7.27, CM Response Timeouts), and where that is not known.

These are hints about settings, given once for each setting, not for every connection that has it.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.timers import (
    DEFAULT_ACK_TIMEOUT,
    DEFAULT_MAX_CM_RETRIES,
    DEFAULT_RESPONSE_TIMEOUT,
    MILLISECOND,
    SECOND,
    exponent,
    linux,
    response_wait,
)
from ibcmtool.formatting import count, duration, listed
from ibcmtool.formatting import exponent as exponent_text
from ibcmtool.messages import Req
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import again, entangled, first
from ibcmtool.rules.steps import conflicts_at, fields_of, of_type, request_of, role_of, sender_of, sends
from ibcmtool.values import Duration

LONGEST_BUDGET: Final = 120 * SECOND
SHORTEST_BUDGET: Final = 10 * MILLISECOND
UNUSUAL_RATIO: Final = 4  # steps of the 5-bit scale: a factor of 16
REPEATED: Final = 2  # sends of a DREQ that show its timer

# By Max CM Retries: the response timeouts that make no extreme budget, whatever the path adds.
_MODEST: Final = {
    retries: frozenset(
        timeout
        for timeout in range(32)
        if exponent(timeout) * (retries + 1) >= SHORTEST_BUDGET and linux(timeout) * (retries + 1) <= LONGEST_BUDGET
    )
    for retries in range(16)
}
_FIRST: Final[dict[Role, str]] = {"active": "REQ or DREQ", "passive": "REP or DREQ"}

R09 = rule(
    "R09",
    "retry-budget-extreme",
    "The time until a sender gives up is extremely long or short",
    severity="info",
    clause="IBA 12.7.27 (Max CM Retries), 12.7 (Remote and Local CM Response Timeout)",
    explanation="The sender of a REQ, REP or DREQ gives up after Max CM Retries + 1 sends, each with its response"
    " timeout. More than 120 s is reported when a message is in fact repeated: whoever waits for the connection waits"
    " that long. MLNX OFED asks for 16 times 17 s. With upstream Linux on RoCE a REQ takes 16 times 4.6 s (73.7 s)"
    " since 6.2 and 16 times 6.1 s (98 s) before. Less than 10 ms is reported at once: one lost packet or a busy CM"
    " ends the attempt. Reported once for each setting.",
    false_positives="None: it states what the REQ says. A long budget is counted without, a short one with the time of"
    " the path.",
    advice="Choose the response timeout in the consumer, or be patient for that long before calling it hung.",
)


def _extreme(connection: Connection, step: Step) -> bool:
    request = connection.request
    if not isinstance(request, Req) or request.max_cm_retries is None:
        return False
    modest = _MODEST[request.max_cm_retries]
    return request.remote_cm_response_timeout not in modest or request.local_cm_response_timeout not in modest


@R09.on_step("REQ", "REP", "DREQ", history=again, when=_extreme, needs=("sender",), once="subject")
def retry_budget_long(connection: Connection, step: Step, context: Context) -> Verdicts:
    retries, kind = request_of(connection).max_cm_retries or 0, step.message.type
    wait, allowed = response_wait(connection.request, sender_of(step)), retries + 1
    budget = allowed * wait.minimum
    if not wait.assumed and budget > LONGEST_BUDGET:
        yield Verdict(
            f"Unanswered, this {kind} is sent {count(allowed, 'time')} over {duration(budget)} before its sender gives"
            f" up: Max CM Retries {retries}, and at least {duration(wait.minimum)} for each.",
            {"budget": Duration(budget), "sends": allowed, "wait": Duration(wait.minimum)},
            subject=(kind, wait.minimum, retries),
        )


@R09.on_step("REQ", history=first, when=_extreme, once="subject")
def retry_budget_short(connection: Connection, step: Step, context: Context) -> Verdicts:
    request, short = request_of(connection), []
    remote, local = request.remote_cm_response_timeout, request.local_cm_response_timeout
    retries = request.max_cm_retries or 0
    for role in PEER:
        wait = response_wait(request, role)
        budget = (retries + 1) * wait.nominal
        if not wait.assumed and budget < SHORTEST_BUDGET:
            short.append(f"the {role} side {duration(budget)} after its first {_FIRST[role]}")
    if short:
        yield Verdict(
            f"Unanswered, {listed(short)} has given up.",
            {"remote_cm_response_timeout": remote, "local_cm_response_timeout": local, "max_cm_retries": retries},
            subject=(remote, local, retries),
        )


R10 = rule(
    "R10",
    "response-timeouts-uneven",
    "A response timeout is zero, or the two are far apart",
    severity="info",
    clause="IBA 12.7 (Remote and Local CM Response Timeout)",
    explanation="The REQ says how long the passive side may take to answer (Remote CM Response Timeout) and how long"
    " the active side may take (Local CM Response Timeout). Zero means 4.1 us, which no CM can keep (Linux waits 1"
    " ms); a factor above 16 between the two mostly means that one was forgotten. Reported once for each pair of"
    " values.",
    false_positives="None: it states what the REQ says. Some consumers choose different times on purpose.",
    advice="Look at what the connecting consumer asks for; both are usually the same.",
)


def _uneven(connection: Connection, step: Step) -> tuple[int, int] | None:
    """The two response timeouts of a REQ, if they are odd."""
    fields = fields_of(step, Req)
    remote, local = fields.remote_cm_response_timeout, fields.local_cm_response_timeout
    if remote is None or local is None:
        return None
    return (remote, local) if 0 in (remote, local) or abs(remote - local) > UNUSUAL_RATIO else None


@R10.on_step("REQ", history=first, when=_uneven, needs=("intact",), once="subject")
def response_timeouts_uneven(connection: Connection, step: Step, context: Context) -> Verdicts:
    remote, local = _uneven(connection, step) or (0, 0)
    yield Verdict(
        f"The REQ gives the passive side {exponent_text(remote)} to answer (Remote CM Response Timeout {remote})"
        f" and the active side {exponent_text(local)} (Local CM Response Timeout {local}).",
        {"remote_cm_response_timeout": remote, "local_cm_response_timeout": local},
        subject=(remote, local),
    )


R14 = rule(
    "R14",
    "timers-assumed",
    "A timer was judged with default values",
    severity="info",
    clause="no specification clause: a limit of the capture",
    explanation="Response timeouts, Max CM Retries and the Local ACK Timeout stand in the REQ. Where its fields were"
    " not captured, the values of upstream Linux stand in, and a timewait of 4.3 s to 8.6 s. What rests on them is"
    " never certain. Reported once, at the first message that was judged so.",
    false_positives="None: it states what is missing.",
    advice="Start the capture before the connections, without a snap length.",
)


@R14.on_step("REQ", "REP", when=entangled, once="capture")
def timewait_assumed(connection: Connection, step: Step, context: Context) -> Verdicts:
    doubtful = _assumed_timewait(connection, step)
    if doubtful is not None:
        yield Verdict(
            f"The Local ACK Timeout of connection {doubtful.id} was not captured; {DEFAULT_ACK_TIMEOUT}"
            f" ({duration(exponent(DEFAULT_ACK_TIMEOUT))}) stands in for it, here and wherever it is unknown.",
            {"local_ack_timeout": DEFAULT_ACK_TIMEOUT},
            related=(doubtful,),
        )


def _assumed_timewait(connection: Connection, step: Step) -> Connection | None:
    """The earlier connection whose timewait, of unknown length, this reuse of its QPN falls into."""
    for conflict in conflicts_at(connection, step):
        timewait = conflict.other.end(conflict.owner).timewait
        if timewait is not None and timewait.assumed and timewait.start <= step.message.time < timewait.maximum:
            return conflict.other
    return None


@R14.on_event("DREQ_LAPSED", once="capture")
def waits_assumed(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = sends(connection, of_type(connection, "DREQ", sender=event.role)[-1])
    if response_wait(connection.request, role_of(event)).assumed and len(tries) >= REPEATED:
        yield Verdict(
            f"The timers of this connection were not captured; the response timeout is taken for"
            f" {DEFAULT_RESPONSE_TIMEOUT} ({duration(exponent(DEFAULT_RESPONSE_TIMEOUT))}) and Max CM Retries for"
            f" {count(DEFAULT_MAX_CM_RETRIES, 'retry', 'retries')}, here and wherever they are unknown.",
            {"response_timeout": DEFAULT_RESPONSE_TIMEOUT, "max_cm_retries": DEFAULT_MAX_CM_RETRIES},
            steps=(tries[-1],),
        )
