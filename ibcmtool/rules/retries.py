"""R: messages that are sent again: how often, how soon, and whether unchanged (IBA 12.7.27, 12.9.7).

A retransmission is the same MAD with another BTH PSN; the tracker has folded copies of one packet before.
Senders may be slower than their timers (MAD flow control, back-off) without any finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ibcmtool.connections.connection_index import TWIN_WINDOW
from ibcmtool.connections.timers import exponent, linux, max_cm_retries, response_wait
from ibcmtool.formatting import duration
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import again, anew
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, before, of_type, one_capture, role_of, sends

RETRIED = ("REQ", "REP", "DREQ")
MRAED = {"REQ": 0, "REP": 1}  # value of Message MRAed
MRAS_LOST = 7  # so many in a row may be lost on a bad way
# Timers tick and captures stamp late; anything shorter than this share of the wait is too early.
EARLY_TENTHS = 9


@rule(
    "R01",
    "too-many-sends",
    "A message was sent more often than Max CM Retries allows",
    severity="error",
    on=RETRIED,
    history=again,
    clause="IBA 12.7.27 (Max CM Retries)",
    explanation=(
        "The REQ sets Max CM Retries for both sides: a REQ, REP or DREQ is sent at most that often again. More sends"
        " of the same MAD mean that a CM does not count, or that an old message was let loose again. Reported once, at"
        " the first send beyond the limit."
    ),
    false_positives=(
        "Second captures of one packet have the same PSN and are not counted. illumos answers a repeated REQ with its"
        " REP and starts counting anew: REPs beyond the limit are a possible warning while those since the last"
        " repeated REQ keep it. Silent when the REQ was not captured."
    ),
    advice="Look at the sender's CM; its peer may have gone long ago. See whether the message ever had an answer.",
)
def too_many_sends(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None:
        return
    retries = max_cm_retries(connection.request)
    if retries is None:
        return
    allowed = retries + 1
    tries = sends(connection, step)
    if len(tries) <= allowed or tries[-1] is not step:
        return
    counted, reset = _since_repeated_request(connection, tries)
    # Told once: at the first send over the limit, and again only if it becomes certain.
    if len(tries) != allowed + 1 and not (reset and counted == allowed + 1):
        return
    certain = counted > allowed
    span = tries[-1].message.time - tries[0].message.time
    yield Verdict(
        f"{step.message.type} sent {len(tries)} times over {duration(span)}; Max CM Retries {retries} allows {allowed}"
        " sends." + ("" if certain else f" Only {counted} since the last repeated REQ: illumos counts anew there."),
        (tries[0], step),
        {"sends": len(tries), "allowed": allowed, "since_repeated_req": counted, "span_ns": span},
        confidence="certain" if certain and one_capture(*tries) else "probable" if certain else "possible",
        severity=None if certain else "warning",
    )


def _since_repeated_request(connection: Connection, tries: list[Step]) -> tuple[int, bool]:
    """How many of a REP's sends came after the last repeated REQ, and whether there was one; all for others."""
    if tries[0].message.type != "REP":
        return len(tries), False
    restart = None
    for step in connection.steps:
        if (
            step.message.type == "REQ"
            and step.retransmission_of is not None
            and step.message.time > tries[0].message.time
        ):
            restart = step.message.time
    if restart is None:
        return len(tries), False
    return sum(step.message.time >= restart for step in tries), True


@rule(
    "R02",
    "retransmit-too-early",
    "A message was sent again before its answer was due",
    severity="warning",
    on=RETRIED,
    history=again,
    clause="IBA 12.7 (Remote and Local CM Response Timeout); Linux cm_convert_to_ms",
    explanation=(
        "The REQ says how long each side may take to answer: the Remote CM Response Timeout binds the active side's"
        " REQ and DREQ, the Local CM Response Timeout the passive side's REP and DREQ. Sending again earlier loads the"
        " peer with work that it had still time for. Compared with nine tenths of what Linux makes of the field (which"
        " is 4.6 % shorter than nominal), without path time; reported once per message."
    ),
    false_positives=(
        "illumos times its DREQ by the ACK delay instead (information only while it keeps that), and repeats its REP at"
        " once when the REQ is repeated (not reported). A port event makes a stack post its MADs again. Sends captured"
        " by different inputs are possible only, since their clocks may differ."
    ),
    advice="Look at the sender's CM timers; harmless by itself, but a storm of such repeats hides the real answers.",
)
def retransmit_too_early(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or connection.request is None:
        return
    role = role_of(step)
    if role is None:
        return
    wait = response_wait(connection.request, role)
    if wait.assumed:
        return
    tries = sends(connection, step)
    if len(tries) < 2 or tries[-1] is not step:
        return
    floor = wait.minimum * EARLY_TENTHS // 10
    gap = step.message.time - tries[-2].message.time
    if gap >= floor or _excused(connection, tries[-2], step, role):
        return
    if gap < TWIN_WINDOW and not one_capture(tries[-2], step):
        return  # one message, on both sides of a proxy (X11)
    if not view.covered(connection, tries[-2].message.time, step.message.time):
        return
    earlier = pairwise(tries[:-1])
    if any(b.message.time - a.message.time < floor and not _excused(connection, a, b, role) for a, b in earlier):
        return  # told already
    delay = connection.reply.target_ack_delay if connection.reply is not None else None
    on_ack_scale = step.message.type == "DREQ" and gap * 10 >= exponent(delay or 0) * EARLY_TENTHS
    field = "Remote" if role == "active" else "Local"
    yield Verdict(
        f"{step.message.type} sent again after {duration(gap)}; the {field} CM Response Timeout gives its answer"
        f" {duration(wait.minimum)}.",
        (tries[-2], step),
        {"gap_ns": gap, "wait_ns": wait.minimum, "send": len(tries), "target_ack_delay": delay},
        confidence="possible" if on_ack_scale or not one_capture(tries[-2], step) else "certain",
        severity="info" if on_ack_scale else None,
    )


def _excused(connection: Connection, earlier: Step, later: Step, sender: Role) -> bool:
    """Whether something between two sends explains the second: an MRA (R03's business), or a REQ before a REP."""
    for step in before(connection, later):
        if step is earlier:
            return False
        if step.sender == sender:
            continue
        kind = step.message.type
        if kind == "MRA" or (kind == "REQ" and later.message.type == "REP"):
            return True
    return False


@rule(
    "R03",
    "retransmit-despite-mra",
    "A message was sent again although an MRA had asked for time",
    severity="warning",
    on=("REQ", "REP"),
    history=again,
    clause="IBA 12.6.6 (Service Timeout); Linux cm_mra_handler",
    explanation=(
        "An MRA tells the sender of a REQ or REP to wait for its Service Timeout before it sends again. A"
        " retransmission before nine tenths of that (as Linux rounds it) means that the MRA was lost or ignored. Loss"
        " is the likelier reason (information). A sender that does so after an eighth MRA, or although another input"
        " shows that the MRA came further, probably ignores them (warning)."
    ),
    false_positives=(
        "The MRA may have been lost behind the capture point (hence information). Within 50 ms of the MRA the"
        " two may have crossed: silent. Only the first gap after an MRA is judged: newer kernels apply it once."
    ),
    advice="If the requester also gives up early, it does not honour MRAs: raise its CM response timeout instead.",
)
def retransmit_despite_mra(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    mra = None
    for earlier in before(connection, step):
        if earlier.message.type == "MRA" and earlier.sender == PEER[step.sender]:
            mra = earlier
            break
        if earlier is step.retransmission_of or earlier.retransmission_of is step.retransmission_of:
            return
    if mra is None:
        return
    fields = mra.message.fields
    if fields.service_timeout is None or fields.message_mraed != MRAED[step.message.type]:
        return
    gap = step.message.time - mra.message.time
    promised = linux(fields.service_timeout)
    if gap <= DISORDER or gap * 10 >= promised * EARLY_TENTHS:
        return
    mras = of_type(connection, "MRA", sender=PEER[step.sender])
    count = sum(old.message.fields.message_mraed == fields.message_mraed for old in mras)
    arrived = any(copy.file != mra.message.file for copy in mra.sightings)
    ignores = arrived or count > MRAS_LOST
    yield Verdict(
        f"{step.message.type} sent again {duration(gap)} after an MRA that asked for"
        f" {duration(exponent(fields.service_timeout))}: "
        + ("it was captured on its way twice." if arrived else f"the MRA ({count} so far) was lost or ignored."),
        (mra, step),
        {"gap_ns": gap, "service_timeout": fields.service_timeout, "promised_ns": promised, "mras": count},
        confidence="probable" if ignores and one_capture(mra, step) else "possible",
        severity=None if ignores else "info",
    )


@rule(
    "R08",
    "changed-retransmission",
    "A message was sent again with other contents",
    severity="error",
    on=("REQ", "REP", "RTU", "DREQ"),
    history=anew,
    clause="IBA 12.9.7 (a retry repeats the message); Linux posts the same buffer again",
    explanation=(
        "A retry has the same ids and TransactionID as the message that it repeats, and so must have the same"
        " contents: the receiver takes it for a duplicate and never looks at what changed, so that the two sides may"
        " go on with different parameters."
    ),
    false_positives=(
        "Bit errors: silent when the ICRC of either packet is wrong, probable when it could not be checked. Messages"
        " that may legally differ (MRA, REJ, DREP, LAP) are not compared, and a DREQ with another Remote QPN is left to"
        " T05. Where one packet was cut, only the common part counts."
    ),
    advice="Compare the fields named; find out whether the sender or something on the path changes CM messages.",
)
def changed_retransmission(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return
    message = step.message
    for earlier in of_type(connection, message.type):
        old = earlier.message
        if earlier is step:
            return
        if earlier.sender != step.sender or old.tid != message.tid or old.icrc_ok is False:
            continue
        length = min(len(old.mad), len(message.mad))
        if old.mad[:length] == message.mad[:length]:
            continue
        changed = _changed_fields(old.fields, message.fields)
        if _other_rules_judge(message.type, changed):
            return
        checked = old.icrc_ok and message.icrc_ok
        yield Verdict(
            f"{message.type} sent again {duration(message.time - old.time)} later with the same ids and TransactionID"
            f" but other contents: {', '.join(changed) or 'MAD header'}.",
            (earlier, step),
            {
                "changed": {
                    name: [_plain(getattr(old.fields, name)), _plain(getattr(message.fields, name))] for name in changed
                },
                "tid": message.tid,
            },
            confidence="certain" if checked else "probable",
        )
        return


def _changed_fields(old: Any, new: Any) -> list[str]:
    """Names of the fields that differ; a field that the capture cut off on either side is not comparable."""
    pairs = zip(new._fields, old, new, strict=True)
    return [name for name, was, now in pairs if was != now and was is not None and now is not None]


def _other_rules_judge(kind: str, changed: list[str]) -> bool:
    if kind == "REP":
        return "local_comm_id" in changed or "remote_comm_id" in changed  # another answer, to a REQ taken as new
    return kind == "DREQ" and "remote_qpn" in changed


def _plain(value: object) -> object:
    """A value that JSON can hold."""
    return value.hex() if isinstance(value, bytes) else value
