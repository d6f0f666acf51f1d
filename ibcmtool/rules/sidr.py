"""I: resolving a service to a UD QP (IBA 12.11, SIDR): one request, one answer, and what they must agree on."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.timers import linux, response_wait
from ibcmtool.evidence import proved, unopposed, weakened
from ibcmtool.formatting import address, comm_id, duration, end_name, qpn, service_id
from ibcmtool.messages import SidrRep
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, matches
from ibcmtool.rules.silence import in_partition, reported
from ibcmtool.rules.steps import DISORDER, fields_of, heard, of_type, one_capture, sends
from ibcmtool.values import CommId, Duration, Qpn, ServiceId, Tid

MOST_SENDS = 16  # of rdma_cm, and of any CM that counts in the four bits of Max CM Retries
# The longest that a SIDR_REQ may have been repeated before its answer, by any default known: OFED's 16.4 s a try.
LONGEST_REQUEST_SPAN: Final = MOST_SENDS * linux(22)

I01 = rule(
    "I01",
    "sidr-rep-without-req",
    "A SIDR_REP answers a request that is not in the capture",
    severity="warning",
    clause="IBA 12.11; Linux cm_sidr_rep_handler",
    explanation="A SIDR_REP names the request that it answers by its Request ID. No SIDR_REQ with that id came from"
    " the addressee, although the capture shows other messages of it and is older than the longest time that a request"
    " is repeated. A receiver that does not know the id drops the answer.",
    false_positives="The capture dropped the request: information, unless the numbers of the addressee's QP1 run on"
    " over all that time. Not reported while the capture is younger than 262 s, the longest retry span of known"
    " defaults, and when the addressee's direction was not captured.",
    advice="Look for capture drops around the frame; else find out which CM made up the Request ID.",
)


@I01.on_event("ENDED", history=matches("r"))
def sidr_rep_without_req(connection: Connection, event: Event, context: Context) -> Verdicts:
    (step,) = connection.steps
    message, number = step.message, fields_of(step, SidrRep).request_id or 0
    age = message.time - context.start
    if age <= LONGEST_REQUEST_SPAN or message.destination not in context.ports.heard:
        return
    if context.covered(connection, message.time - LONGEST_REQUEST_SPAN, message.time):
        yield Verdict(
            f"SIDR_REP to {address(message.destination)} answers Request ID {comm_id(number)}, but no SIDR_REQ with"
            f" that id was captured from there in the {duration(age)} before it.",
            {"request_id": CommId(number), "tid": Tid(message.tid), "capture_age": Duration(age)},
            (
                unopposed("timer"),
                context.witness.silent(message.destination, message.time - LONGEST_REQUEST_SPAN, message.time),
            ),
            steps=(step,),
        )


I02 = rule(
    "I02",
    "sidr-rep-contradictory",
    "A SIDR_REP whose status and QPN contradict each other",
    severity="warning",
    clause="IBA 12.11 (SIDR_REP: QPN and Q_Key are valid with status 0)",
    explanation="Status 0 promises a QP to send to: with QPN 0, the subnet management QP, the requester gets an"
    " address that it cannot use (warning). Any other status is a refusal: QPN and Q_Key mean nothing then, and a"
    " requester that reads them all the same sends to a QP that nobody offered (information).",
    false_positives="None known; not reported where the capture cut the fields off.",
    advice="Look at the service that answered: it fills in its reply wrongly.",
)


def _contradictory(connection: Connection, step: Step) -> bool:
    """Whether an answer says yes without a QPN, or no with one."""
    fields = step.message.fields
    if not isinstance(fields, SidrRep) or fields.status is None:
        return False
    return bool(fields.qpn or fields.q_key) if fields.status else fields.qpn == 0


@I02.on_step("SIDR_REP", history=first, when=_contradictory)
def sidr_rep_contradictory(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields, name = fields_of(step, SidrRep), end_name(connection.passive)
    if fields.status == 0:
        sentence = f"{name} resolved the service to QPN {qpn(0)}."
    else:
        sentence = (
            f"{name} refused with status {fields.status}, but fills in QPN {qpn(fields.qpn)} and Q_Key"
            f" {comm_id(fields.q_key)}."
        )
    number = None if fields.qpn is None else Qpn(fields.qpn)
    yield Verdict(
        sentence,
        {"status": fields.status, "qpn": number, "q_key": fields.q_key},
        severity="info" if fields.status else None,
    )


I03 = rule(
    "I03",
    "sidr-other-service",
    "A SIDR_REP resolves another service than was asked for",
    severity="warning",
    clause="IBA 12.11 (SIDR_REP: ServiceID); Linux copies it from the request",
    explanation="The answer repeats the ServiceID of the request. Another one means that the QP belongs to something"
    " else: the requester's datagrams go to a service that does not expect them.",
    false_positives="A refusal may name another service (redirection): only answers with status 0 are compared.",
    advice="Look at the service that answered; a requester that checks the id drops the answer and asks again.",
)


def _other_service(connection: Connection, step: Step) -> tuple[int, int] | None:
    """The service that was asked for, and the other one that an answer resolves."""
    request, answer = connection.request, step.message.fields
    if request is None or not isinstance(answer, SidrRep) or answer.status != 0:
        return None
    asked, answered = request.service_id, answer.service_id
    return None if asked is None or answered is None or asked == answered else (asked, answered)


@I03.on_step("SIDR_REP", history=first, when=_other_service)
def sidr_other_service(connection: Connection, step: Step, context: Context) -> Verdicts:
    asked, answered = _other_service(connection, step) or (0, 0)
    yield Verdict(
        f"{end_name(connection.passive)} was asked for service {service_id(asked)} and resolved"
        f" {service_id(answered)}.",
        {"asked": ServiceId(asked), "answered": ServiceId(answered)},
        steps=(*of_type(connection, "SIDR_REQ")[:1], step),
    )


I04 = rule(
    "I04",
    "sidr-request-id",
    "A Request ID stands for two requests, or for too many sends",
    severity="warning",
    clause="IBA 12.11; Linux remote_sidr_table (Request ID and source)",
    explanation="The receiver tells requests apart by Request ID and source. A request with other contents under an id"
    " that still waits for its answer is taken for a repetition and dropped, or gets the answer to the other one"
    " (warning). More than 16 sends of one request are more than CMs do by default: the requester asks without end"
    " (information).",
    false_positives="The first request's answer is missing from the capture (then its id was free again): never more"
    " than probable. Packets with a wrong ICRC are left out.",
    advice="Look at the requester's CM; if nobody answers, look at the service (listener, P_Key) first.",
)


def _not_the_only_one(connection: Connection, step: Step) -> bool:
    """Whether this request's id was used before, for the same request or for another one."""
    return len(connection.steps) > 1 or connection.comm_id_conflict is not None


@I04.on_step("SIDR_REQ", when=_not_the_only_one, needs=("intact",))
def sidr_request_id(connection: Connection, step: Step, context: Context) -> Verdicts:
    conflict, original = connection.comm_id_conflict, step.retransmission_of
    if conflict is not None and len(connection.steps) == 1:
        known = conflict.other.steps[0]
        if conflict.owner_state == "SIDR_REQ_SENT" and context.covered(
            connection, known.message.time, step.message.time
        ):
            yield _two_requests(connection, known, step, (conflict.other,))
    elif original is None:
        known = of_type(connection, "SIDR_REQ")[0]
        if known.message.icrc_ok is not False and not of_type(connection, "SIDR_REP") and _differ(known, step):
            yield _two_requests(connection, known, step)
    elif len(sends(connection, step)) == MOST_SENDS + 1:
        span = step.message.time - original.message.time
        yield Verdict(
            f"SIDR_REQ sent {MOST_SENDS + 1} times over {duration(span)} by {end_name(connection.active)}; CMs give up"
            f" after {MOST_SENDS} by default.",
            {"sends": MOST_SENDS + 1, "span": Duration(span)},
            steps=(original, step),
            severity="info",
        )


def _differ(known: Step, step: Step) -> bool:
    """Whether they differ in the part that was captured of both."""
    length = min(len(known.message.mad), len(step.message.mad))
    return known.message.mad[:length] != step.message.mad[:length]


def _two_requests(connection: Connection, known: Step, step: Step, related: tuple[Connection, ...] = ()) -> Verdict:
    gap, identifier = step.message.time - known.message.time, connection.active.comm_id or 0
    return Verdict(
        f"{end_name(connection.active)} uses Request ID {comm_id(identifier)} for another request {duration(gap)} after"
        " the first, to which no answer was captured.",
        {"request_id": CommId(identifier), "gap": Duration(gap)},
        (unopposed("complete") if one_capture(known, step) else weakened("complete"),),
        steps=(known, step),
        related=related,
    )


I05 = rule(
    "I05",
    "sidr-two-answers",
    "One SIDR request got two different answers",
    severity="warning",
    clause="IBA 12.11; Linux forgets a request once it is answered",
    explanation="Two answers to one request name different QPs, or one of them none at all. The requester uses the"
    " first that arrives, and the QP of the other one waits for nobody. Where the request was repeated this is what"
    " happens: Linux takes the repetition for a new request, and a service may open a QP for each (information).",
    false_positives="The repetition that explains the second answer is missing from the capture, or the service"
    " restarted in between: hence never more than possible.",
    advice="Let the service answer a request that it knows with the QP that it gave before.",
)


def _answered_anew(history: str) -> bool:
    """More than one answer that is no repetition."""
    return history.count("r") - history.count("^r") > 1


@I05.on_event("ENDED", history=_answered_anew)
def sidr_two_answers(connection: Connection, event: Event, context: Context) -> Verdicts:
    requests = of_type(connection, "SIDR_REQ")
    answers = [step for step in of_type(connection, "SIDR_REP") if step.retransmission_of is None]
    one = answers[0]
    other = next((step for step in answers[1:] if _answer(step) != _answer(one)), None)
    if not requests or other is None or None in _answer(one) + _answer(other):
        return
    asked = sum(request.message.time <= other.message.time + DISORDER for request in requests)
    repeated = asked > 1
    yield Verdict(
        f"{end_name(connection.passive)} answered Request ID {comm_id(connection.active.comm_id)} with {_words(one)}"
        f" and {duration(other.message.time - one.message.time)} later with {_words(other)}"
        + ("; the request was repeated in between." if repeated else "; no repeated request was captured in between."),
        {"requests": asked, "answers": [list(_answer(one)), list(_answer(other))]},
        (proved("complete") if repeated else weakened("complete"),),
        steps=(one, other),
        severity="info" if repeated else None,
    )


def _answer(step: Step) -> tuple[int | None, int | None, int | None]:
    """What an answer says: status, QPN, Q_Key."""
    fields = fields_of(step, SidrRep)
    return fields.status, fields.qpn, fields.q_key


def _words(step: Step) -> str:
    status, number, _ = _answer(step)
    return f"QPN {qpn(number)}" if status == 0 else f"status {status}"


I06 = rule(
    "I06",
    "sidr-exhausted",
    "The requester gave up: none of its SIDR_REQs was answered",
    severity="warning",
    clause="IBA 12.11; Linux cma_resolve_ib_udp (15 retries), cm_sidr_req_handler",
    explanation="A SIDR_REQ was sent 16 times, as often as CMs do by default, and no SIDR_REP came: its program sees an"
    " unreachable peer. A Linux target that gets the request answers it, without a listener with status 1. So the"
    " requests do not reach the target's CM, or the answers take a path that is not captured.",
    false_positives="Fewer sends are information: the capture may have missed some, or the requester ended early. If"
    " nothing of the target's address was ever captured, its direction may be missing (then probable). A request that"
    " was not even repeated is not reported.",
    advice="On the target, read /sys/class/infiniband/DEV/ports/N/cm_rx_msgs/sidr_req before and after an attempt. If"
    " it does not rise, see whether the host and its port are up, then look for the loss in the network. If it rises,"
    " look at the program that listens.",
    rests_on=(),  # of the requester's own messages none is needed that was not captured
)


@I06.on_event("REQ_EXHAUSTED", history=matches(r"S[S^]*"))
def sidr_exhausted(connection: Connection, event: Event, context: Context) -> Verdicts:
    tries = sends(connection, connection.steps[-1])
    first, last = tries[0].message, tries[-1].message
    wait = response_wait(connection.request, "active").nominal
    if len(tries) < 2 or not context.covered(connection, last.time, min(event.time, last.time + wait)):
        return
    if not context.traces.in_one_stretch(connection.steps):
        return
    exhausted, responsive = len(tries) >= MOST_SENDS, heard(context, connection, "passive")
    icmp, (partition, look) = reported(context, tries[0]), in_partition(context, connection, tries[0])
    besides = "other" if responsive else "no"
    yield Verdict(
        f"{len(tries)} sends of the SIDR_REQ to {end_name(connection.passive)} unanswered over"
        f" {duration(last.time - first.time)}{'' if exhausted else ', then it fell silent'};"
        f" {icmp[0] if icmp else f'{besides} CM messages of that address were captured'}.{partition}",
        {"sends": len(tries), "span": Duration(last.time - first.time)},
        (
            context.witness.complete(connection.passive.address, first.time, last.time + wait),
            *(() if exhausted and responsive else ((unopposed if exhausted else weakened)("complete"),)),
        ),
        steps=(tries[0], tries[-1]),
        severity=None if exhausted else "info",
        advice=f"{look} {icmp[1] if icmp else I06.advice}".strip(),
    )
