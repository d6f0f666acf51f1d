"""R01-R03, R08: messages that are sent again: how often, how soon, and whether unchanged (IBA 12.7.27, 12.9.7).

A retransmission is the same MAD with another BTH PSN; the tracker has folded copies of one packet before.
Senders may be slower than their timers (MAD flow control, back-off) without any finding.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import pairwise
from typing import Final

from ibcmtool.connections.connection_index import TWIN_WINDOW
from ibcmtool.connections.timers import exponent, linux, max_cm_retries, response_wait
from ibcmtool.evidence import Ground, in_order, one_clock, unopposed, weakened
from ibcmtool.formatting import duration
from ibcmtool.messages import Fields, Mra, Rep
from ibcmtool.model import PEER, Connection, Role, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import again, anew
from ibcmtool.rules.steps import (
    DISORDER,
    MRAED,
    NEW_LIFE,
    before,
    between,
    fields_of,
    of_type,
    one_capture,
    one_life,
    sender_of,
    sends,
)
from ibcmtool.values import Duration, Tid

RETRIED: Final = ("REQ", "REP", "DREQ")
MRAS_LOST: Final = 7  # so many in a row may be lost on a bad way
# Timers tick and captures stamp late; anything shorter than this share of the wait is too early.
EARLY_TENTHS: Final = 9

R01 = rule(
    "R01",
    "too-many-sends",
    "A message was sent more often than Max CM Retries allows",
    severity="error",
    clause="IBA 12.7.27 (Max CM Retries)",
    explanation="The REQ sets Max CM Retries for both sides: a REQ, REP or DREQ is sent at most that often again. More"
    " sends of the same MAD mean that a CM does not count, or that an old message was let loose again. Reported once,"
    " at the first send beyond the limit.",
    false_positives="Second captures of one packet have the same PSN and are not counted. illumos answers a repeated"
    " REQ with its REP and starts counting anew: REPs beyond the limit are a possible warning while those since the"
    " last repeated REQ keep it. Not reported when the REQ was not captured.",
    advice="Look at the sender's CM; its peer may have gone long ago. See whether the message ever had an answer.",
)


@R01.on_step(*RETRIED, history=again)
def too_many_sends(connection: Connection, step: Step, context: Context) -> Verdicts:
    retries = max_cm_retries(connection.request)
    if retries is None:
        return
    allowed = retries + 1
    tries = sends(connection, step)
    if len(tries) <= allowed or tries[-1] is not step:
        return
    counted, reset = _since_repeated_request(connection, tries)
    # Once: at the first send over the limit, and again only if it becomes certain.
    if len(tries) != allowed + 1 and not (reset and counted == allowed + 1):
        return
    beyond = counted > allowed
    span = between(tries[0], step)
    yield Verdict(
        f"{step.message.type} sent {len(tries)} times over {duration(span)}; Max CM Retries {retries} allows {allowed}"
        " sends." + ("" if beyond else f" Only {counted} since the last repeated REQ: illumos counts anew there."),
        {"sends": len(tries), "allowed": allowed, "since_repeated_req": counted, "span": Duration(span)},
        (
            one_clock(*tries) if beyond else weakened("timer"),
            *((NEW_LIFE,) if context.comm_ids.given_since(connection, tries[0].message.time) else ()),
        ),
        steps=(tries[0], step),
        severity=None if beyond else "warning",
    )


def _since_repeated_request(connection: Connection, tries: list[Step]) -> tuple[int, bool]:
    """How many of a REP's sends came after the last repeated REQ, and whether there was one; all for others."""
    repeated = [
        step.message.time
        for step in of_type(connection, "REQ")
        if step.retransmission_of is not None and between(tries[0], step) > 0
    ]
    if tries[0].message.type != "REP" or not repeated:
        return len(tries), False
    return sum(step.message.time >= repeated[-1] for step in tries), True


R02 = rule(
    "R02",
    "retransmit-too-early",
    "A message was sent again before its answer was due",
    severity="warning",
    clause="IBA 12.7 (Remote and Local CM Response Timeout); Linux cm_convert_to_ms",
    explanation="The REQ says how long each side may take to answer: the Remote CM Response Timeout binds the active"
    " side's REQ and DREQ, the Local CM Response Timeout the passive side's REP and DREQ. Sending again earlier loads"
    " the peer with work that it had still time for. Compared with nine tenths of what Linux makes of the field (which"
    " is 4.6 % shorter than nominal), without path time; reported once per message.",
    false_positives="illumos times its DREQ by the ACK delay instead (information only while it keeps that), and"
    " repeats its REP at once when the REQ is repeated (not reported). When QP1 is flushed, Linux posts its MADs"
    " again. Sends captured by different inputs are possible only, since their clocks may differ.",
    advice="Look at the sender's CM timers; harmless by itself, but a storm of such repeats hides the real answers.",
)


@R02.on_step(*RETRIED, history=again, needs=("request", "sender"))
def retransmit_too_early(connection: Connection, step: Step, context: Context) -> Verdicts:
    role = sender_of(step)
    wait = response_wait(connection.request, role)
    tries = sends(connection, step)
    if wait.assumed or len(tries) < 2 or tries[-1] is not step:
        return
    earlier, floor = tries[-2], wait.minimum * EARLY_TENTHS // 10
    gap = between(earlier, step)
    if not _is_early(connection, earlier, step, role, floor):
        return
    if gap < TWIN_WINDOW and not one_capture(earlier, step):
        return  # one message, on both sides of a proxy (X11)
    if not context.covered(connection, earlier.message.time, step.message.time):
        return
    if any(_is_early(connection, a, b, role, floor) for a, b in pairwise(tries[:-1])):
        return  # reported already
    reply = connection.reply
    delay = reply.target_ack_delay if isinstance(reply, Rep) else None
    on_ack_scale = step.message.type == "DREQ" and gap * 10 >= exponent(delay or 0) * EARLY_TENTHS
    yield Verdict(
        f"{step.message.type} sent again after {duration(gap)}; the {'Remote' if role == 'active' else 'Local'} CM"
        f" Response Timeout gives its answer {duration(wait.minimum)}.",
        {"gap": Duration(gap), "wait": Duration(wait.minimum), "send": len(tries), "target_ack_delay": delay},
        (
            weakened("timer") if on_ack_scale else one_clock(earlier, step, otherwise="weakened"),
            Ground("order", "weakened", "the earlier one may have been held up on its way"),
        ),
        steps=(earlier, step),
        severity="info" if on_ack_scale else None,
    )


def _is_early(connection: Connection, earlier: Step, later: Step, sender: Role, floor: int) -> bool:
    """Whether less than `floor` (ns) passed between two sends, and nothing came in between that explains the second.

    That is an MRA (R03's business), or a REQ before a REP.
    """
    if between(earlier, later) >= floor:
        return False
    for step in before(connection, later):
        if step is earlier:
            break
        kind = step.message.type
        if step.sender != sender and (kind == "MRA" or (kind == "REQ" and later.message.type == "REP")):
            return False
    return True


R03 = rule(
    "R03",
    "retransmit-despite-mra",
    "A message was sent again although an MRA had asked for time",
    severity="warning",
    clause="IBA 12.6.6 (Service Timeout); Linux cm_mra_handler",
    explanation="An MRA tells the sender of a REQ or REP to wait for its Service Timeout before it sends again. A"
    " retransmission before nine tenths of that (as Linux rounds it) means that the MRA was lost or ignored. Loss is"
    " the likelier reason (information). A sender that does so after an eighth MRA, or although another input shows"
    " that the MRA came further, probably ignores them (warning).",
    false_positives="The MRA may have been lost behind the capture point (hence information; a warning only where the"
    " capture that shows the REQs was running before the first of them). Within 50 ms of the MRA"
    " the two may have crossed: not reported. Only the first gap after an MRA is judged, as a CM may apply an MRA"
    " once. Linux up to 7.2 applies it to all later repetitions; a patch posted in December 2024 that would end this"
    " is not in it.",
    advice="If the requester also gives up early, it does not honour MRAs: raise its CM response timeout instead.",
)


@R03.on_step("REQ", "REP", history=again, needs=("sender",))
def retransmit_despite_mra(connection: Connection, step: Step, context: Context) -> Verdicts:
    mra = _mra_since_last_send(connection, step)
    if mra is None:
        return
    fields = fields_of(mra, Mra)
    if fields.service_timeout is None or MRAED.get(fields.message_mraed) != step.message.type:
        return
    gap, promised = between(mra, step), linux(fields.service_timeout)
    if gap <= DISORDER or gap * 10 >= promised * EARLY_TENTHS:
        return
    mras = of_type(connection, "MRA", sender=PEER[sender_of(step)])
    count = sum(fields_of(old, Mra).message_mraed == fields.message_mraed for old in mras)
    arrived = any(copy.file != mra.message.file for copy in mra.sightings)
    # Some apply an MRA once: one longer wait, which may lie before the capture, tells that they heed them.
    tries = sends(connection, step)
    waits = [between(a, b) for a, b in pairwise(tries)]
    heeded = any(wait * 10 >= promised * EARLY_TENTHS for wait in waits)
    first_one = mras[0] is mra and between(tries[min(1, len(tries) - 1)], mra) > 0  # it answers a repetition
    # By the input that shows the first send: others may see one direction.
    opened, coverage = tries[0].message.time, context.coverage
    covers = not coverage.several or coverage.place_covers(
        coverage.places()[tries[0].message.file], opened - promised, opened
    )
    seen_whole = first_one or (opened - context.start > promised and covers)
    ignores = not heeded and seen_whole and (arrived or count > MRAS_LOST)
    yield Verdict(
        f"{step.message.type} sent again {duration(gap)} after an MRA that asked for"
        f" {duration(exponent(fields.service_timeout))}: "
        + ("it was captured on its way twice." if arrived else f"the MRA ({count} so far) was lost or ignored."),
        {
            "gap": Duration(gap),
            "service_timeout": fields.service_timeout,
            "promised": Duration(promised),
            "mras": count,
        },
        ((unopposed if ignores else weakened)("received"), one_clock(mra, step, otherwise="weakened")),
        steps=(mra, step),
        severity=None if ignores else "info",
    )


def _mra_since_last_send(connection: Connection, step: Step) -> Step | None:
    """The newest MRA of the other side between this send and the one before it."""
    original = step.retransmission_of
    for earlier in before(connection, step):
        if earlier.message.type == "MRA" and earlier.sender == PEER[sender_of(step)]:
            return earlier
        if earlier is original or earlier.retransmission_of is original:
            return None
    return None


R08 = rule(
    "R08",
    "changed-retransmission",
    "A message was sent again with other contents",
    severity="error",
    clause="IBA 12.9.7 (a retry repeats the message); Linux posts the same buffer again",
    explanation="A retry has the same ids and TransactionID as the message that it repeats, and so must have the same"
    " contents: the receiver takes it for a duplicate and never looks at what changed, so that the two sides may go on"
    " with different parameters.",
    false_positives="Bit errors: not reported when the ICRC of either packet is wrong. A new connection of a CM that"
    " gives each the same ids: only possible where the QPN or the starting PSN changed. Messages that may legally"
    " differ (MRA, REJ, DREP, LAP) are not compared, an RTU with another Remote Communication ID is left to H04, and a"
    " DREQ with another Remote QPN to T05. Where one packet was cut, only the common part counts.",
    advice="Compare the fields named; find out whether the sender or something on the path changes CM messages.",
)


NEW_EACH_TIME: Final = frozenset({"local_qpn", "local_eecn", "starting_psn"})


@R08.on_step("REQ", "REP", "RTU", "DREQ", history=anew, needs=("intact",))
def changed_retransmission(connection: Connection, step: Step, context: Context) -> Verdicts:
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
        if in_order(old, message).strength == "refuted":
            return  # the later one was held up: of an earlier life with the same ids
        changed = _changed_fields(old.fields, message.fields)
        if _other_rules_judge(message.type, changed):
            return
        yield Verdict(
            f"{message.type} sent again {duration(between(earlier, step))} later with the same ids and TransactionID"
            f" but other contents: {', '.join(changed) or 'MAD header'}.",
            {"changed": changed, "tid": Tid(message.tid)},
            (NEW_LIFE if not NEW_EACH_TIME.isdisjoint(changed) else unopposed("same use"), one_life(connection)),
            steps=(earlier, step),
        )
        return


def _changed_fields(old: Fields, new: Fields) -> dict[str, list[int | str]]:
    """The fields that differ, before and after; one that the capture cut off on either side is not comparable."""
    pairs = zip(new._fields, old, new, strict=True)
    return {
        name: [_plain(was), _plain(now)]
        for name, was, now in pairs
        if was != now and was is not None and now is not None
    }


def _plain(value: int | bytes) -> int | str:
    """A value that JSON can hold."""
    return value.hex() if isinstance(value, bytes) else value


def _other_rules_judge(kind: str, changed: Container[str]) -> bool:
    if kind in ("REP", "RTU"):  # another answer, to a REQ taken as new or to its REP
        return "local_comm_id" in changed or "remote_comm_id" in changed
    return kind == "DREQ" and "remote_qpn" in changed
