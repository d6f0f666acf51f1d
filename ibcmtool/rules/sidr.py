"""I: resolving a service to a UD QP (IBA 12.11, SIDR): one request, one answer, and what they must agree on."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.timers import linux
from ibcmtool.formatting import address, comm_id, duration, end_name, qpn, service_id
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, of_type, one_capture, sends

MOST_SENDS = 16  # of rdma_cm, and of any CM that counts in the four bits of Max CM Retries
# The longest that a SIDR_REQ may have been repeated before its answer, by any default known: OFED's 16.4 s a try.
LONGEST_REQUEST_SPAN = MOST_SENDS * linux(22)


def _answer_alone(history: str) -> bool:
    """One answer is all that was seen."""
    return history == "r"


@rule(
    "I01",
    "sidr-rep-without-req",
    "A SIDR_REP answers a request that is not in the capture",
    severity="warning",
    on=("ENDED",),
    history=_answer_alone,
    clause="IBA 12.11; Linux cm_sidr_rep_handler",
    explanation=(
        "A SIDR_REP names the request that it answers by its Request ID. No SIDR_REQ with that id came from the"
        " addressee, although the capture shows other messages of it and is older than the longest time that a request"
        " is repeated. A receiver that does not know the id drops the answer."
    ),
    false_positives=(
        "The capture dropped the request (hence never more than probable). Silent while the capture is younger than"
        " 262 s, the longest retry span of known defaults, and when the addressee's direction was not captured."
    ),
    advice="Look for capture drops around the frame; else find out which CM made up the Request ID.",
)
def sidr_rep_without_req(event: Event, view: Context) -> Iterator[Verdict]:
    (step,) = event.connection.steps
    message = step.message
    age = message.time - view.start
    if age <= LONGEST_REQUEST_SPAN or message.destination not in view.ports.heard:
        return
    if not view.covered(event.connection, message.time - LONGEST_REQUEST_SPAN, message.time):
        return
    yield Verdict(
        f"SIDR_REP to {address(message.destination)} answers Request ID {comm_id(message.fields.request_id)}, but no"
        f" SIDR_REQ with that id was captured from there in the {duration(age)} before it.",
        (step,),
        {"request_id": message.fields.request_id, "tid": message.tid, "capture_age_ns": age},
        confidence="probable",
    )


def _contradictory(connection: Connection, step: Step) -> bool:
    """Whether an answer says yes without a QPN, or no with one."""
    fields = step.message.fields
    return bool(fields.qpn == 0 if fields.status == 0 else fields.status and (fields.qpn or fields.q_key))


@rule(
    "I02",
    "sidr-rep-contradictory",
    "A SIDR_REP whose status and QPN contradict each other",
    severity="warning",
    on=("SIDR_REP",),
    when=_contradictory,
    clause="IBA 12.11 (SIDR_REP: QPN and Q_Key are valid with status 0)",
    explanation=(
        "Status 0 promises a QP to send to: with QPN 0, the subnet management QP, the requester gets an address that it"
        " cannot use (warning). Any other status is a refusal: QPN and Q_Key mean nothing then, and a requester that"
        " reads them all the same sends to a QP that nobody offered (information)."
    ),
    false_positives="None known; silent where the capture cut the fields off.",
    advice="Look at the service that answered: it fills in its reply wrongly.",
)
def sidr_rep_contradictory(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.retransmission_of is not None:
        return
    fields = step.message.fields
    name, evidence = end_name(connection.passive), {"status": fields.status, "qpn": fields.qpn, "q_key": fields.q_key}
    if fields.status == 0:
        yield Verdict(f"{name} resolved the service to QPN {qpn(0)}.", (step,), evidence)
    else:
        yield Verdict(
            f"{name} refused with status {fields.status}, but fills in QPN {qpn(fields.qpn)} and Q_Key"
            f" {comm_id(fields.q_key)}.",
            (step,),
            evidence,
            severity="info",
        )


def _of_another_service(connection: Connection, step: Step) -> bool:
    """Whether an answer that resolves names another service than the request."""
    answer = step.message.fields
    if answer.status != 0 or connection.request is None:
        return False
    asked: int | None = connection.request.service_id
    return answer.service_id is not None and asked is not None and answer.service_id != asked


@rule(
    "I03",
    "sidr-other-service",
    "A SIDR_REP resolves another service than was asked for",
    severity="warning",
    on=("SIDR_REP",),
    when=_of_another_service,
    clause="IBA 12.11 (SIDR_REP: ServiceID); Linux copies it from the request",
    explanation=(
        "The answer repeats the ServiceID of the request. Another one means that the QP belongs to something else: the"
        " requester's datagrams go to a service that does not expect them."
    ),
    false_positives="A refusal may name another service (redirection): only answers with status 0 are compared.",
    advice="Look at the service that answered; a requester that checks the id drops the answer and asks again.",
)
def sidr_other_service(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.retransmission_of is not None:
        return
    answered, asked = step.message.fields.service_id, connection.request.service_id
    yield Verdict(
        f"{end_name(connection.passive)} was asked for service {service_id(asked)} and resolved"
        f" {service_id(answered)}.",
        (*of_type(connection, "SIDR_REQ")[:1], step),
        {"asked": service_id(asked), "answered": service_id(answered)},
    )


def _not_the_only_one(connection: Connection, step: Step) -> bool:
    """Whether this request's id was used before, for the same request or for another one."""
    return len(connection.steps) > 1 or connection.comm_id_conflict is not None


@rule(
    "I04",
    "sidr-request-id",
    "A Request ID stands for two requests, or for too many sends",
    severity="warning",
    on=("SIDR_REQ",),
    when=_not_the_only_one,
    clause="IBA 12.11; Linux remote_sidr_table (Request ID and source)",
    explanation=(
        "The receiver tells requests apart by Request ID and source. A request with other contents under an id that"
        " still waits for its answer is taken for a repetition and dropped, or gets the answer to the other one"
        " (warning). More than 16 sends of one request are more than CMs do by default: the requester asks without end"
        " (information)."
    ),
    false_positives=(
        "The first request's answer is missing from the capture (then its id was free again): never more than probable."
        " Packets with a wrong ICRC are left out."
    ),
    advice="Look at the requester's CM; if nobody answers, look at the service (listener, P_Key) first.",
)
def sidr_request_id(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return
    conflict = connection.comm_id_conflict
    if conflict is not None and len(connection.steps) == 1:
        first = conflict.other.steps[0]
        if conflict.owner_state == "SIDR_REQ_SENT" and view.covered(connection, first.message.time, step.message.time):
            yield _two_requests(connection, first, step, (conflict.other,))
    elif step.retransmission_of is None:
        first = of_type(connection, "SIDR_REQ")[0]
        answered = any(old.message.type == "SIDR_REP" for old in connection.steps)
        if first is not step and first.message.icrc_ok is not False and not answered and _differ(first, step):
            yield _two_requests(connection, first, step)
    elif len(sends(connection, step)) == MOST_SENDS + 1:
        span = step.message.time - step.retransmission_of.message.time
        yield Verdict(
            f"SIDR_REQ sent {MOST_SENDS + 1} times over {duration(span)} by {end_name(connection.active)}; CMs give up"
            f" after {MOST_SENDS} by default.",
            (step.retransmission_of, step),
            {"sends": MOST_SENDS + 1, "span_ns": span},
            severity="info",
        )


def _differ(first: Step, step: Step) -> bool:
    """Whether they differ in the part that was captured of both."""
    length = min(len(first.message.mad), len(step.message.mad))
    return first.message.mad[:length] != step.message.mad[:length]


def _two_requests(connection: Connection, first: Step, step: Step, related: tuple[Connection, ...] = ()) -> Verdict:
    gap = step.message.time - first.message.time
    identifier = connection.active.comm_id
    return Verdict(
        f"{end_name(connection.active)} uses Request ID {comm_id(identifier)} for another request {duration(gap)} after"
        " the first, to which no answer was captured.",
        (first, step),
        {"request_id": identifier, "gap_ns": gap},
        confidence="probable" if one_capture(first, step) else "possible",
        related=related,
    )


def _answered_anew(history: str) -> bool:
    """More than one answer that is no repetition."""
    return history.count("r") - history.count("^r") > 1


@rule(
    "I05",
    "sidr-two-answers",
    "One SIDR request got two different answers",
    severity="warning",
    on=("ENDED",),
    history=_answered_anew,
    clause="IBA 12.11; Linux forgets a request once it is answered",
    explanation=(
        "Two answers to one request name different QPs, or one of them none at all. The requester uses the first that"
        " arrives, and the QP of the other one waits for nobody. Where the request was repeated this is what happens:"
        " Linux takes the repetition for a new request, and a service may open a QP for each (information)."
    ),
    false_positives=(
        "The repetition that explains the second answer is missing from the capture, or the service restarted in"
        " between: hence never more than possible."
    ),
    advice="Let the service answer a request that it knows with the QP that it gave before.",
)
def sidr_two_answers(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    requests = of_type(connection, "SIDR_REQ")
    if not requests:
        return
    answers = [step for step in of_type(connection, "SIDR_REP") if step.retransmission_of is None]
    one = answers[0]
    other = next((step for step in answers[1:] if _answer(step) != _answer(one)), None)
    if other is None or None in (*_answer(one), *_answer(other)):
        return
    asked = sum(request.message.time <= other.message.time + DISORDER for request in requests)
    repeated = asked > 1
    yield Verdict(
        f"{end_name(connection.passive)} answered Request ID {comm_id(connection.active.comm_id)} with {_told(one)} and"
        f" {duration(other.message.time - one.message.time)} later with {_told(other)}"
        + ("; the request was repeated in between." if repeated else "; no repeated request was captured in between."),
        (one, other),
        {"requests": asked, "answers": [list(_answer(one)), list(_answer(other))]},
        confidence="certain" if repeated else "possible",
        severity="info" if repeated else None,
    )


def _answer(step: Step) -> tuple[int | None, int | None, int | None]:
    """What an answer says: status, QPN, Q_Key."""
    fields = step.message.fields
    return fields.status, fields.qpn, fields.q_key


def _told(step: Step) -> str:
    status, number, _ = _answer(step)
    return f"QPN {qpn(number)}" if status == 0 else f"status {status}"
