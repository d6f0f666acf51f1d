"""T01-T08, T10: reuse of QPNs and Communication IDs, and what a DREQ must name.

Timewait keeps a QPN out of use until every packet sent to it has died (IBA 12.4). How long that is depends on fields
of REQ and REP and on the implementation; connections/timers.py gives the shortest, the likely and the longest time, and
the findings follow these three: before the shortest is certain, before the likely one probable, before the longest
possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibcmtool.connections.book import CLOSED_STATES
from ibcmtool.model import PEER, Conflict, Connection, Event, Step, Timewait
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.history import DISORDER, of_type
from ibcmtool.rules.occasions import entangled, first
from ibcmtool.rules.view import View
from ibcmtool.words import TIMEWAIT_MODELS, comm_id, duration, end_name, qpn, times

DUPLICATE_COMM_ID = 30  # REJ reason
ENOUGH_REUSES = 3  # T08 is a statistic, not a single case


def _early_reuse(event: Event, view: View) -> Iterator[tuple[Conflict, Timewait, Step]]:
    """Connections whose owner gives this QPN to a new connection before its own timewait is surely over."""
    connection, step = event.connection, event.step
    if step is None or connection.ghost_of is not None:
        return
    conflicts = connection.request_conflicts if event.kind == "REQ" else connection.reply_conflicts
    for conflict in conflicts:
        timewait = conflict.other.end(conflict.owner).timewait
        # A QP that never carried data needs no timewait: an attempt that was refused is no reason to accuse its retry.
        if timewait is None or conflict.owner_state not in CLOSED_STATES or conflict.other.established is None:
            continue
        if not timewait.start <= step.message.time < timewait.maximum or conflict.other.stale_by is not None:
            continue
        if ended_in_sight(conflict.other, timewait, view):
            yield conflict, timewait, step


def ended_in_sight(connection: Connection, timewait: Timewait, view: View) -> bool:
    """Whether nothing could end the connection unseen before this timewait is said to begin."""
    last = max((step.message.time for step in connection.steps if step.message.time <= timewait.start), default=0)
    return view.covered(connection, last, timewait.start)


def _reuse_verdict(event: Event, conflict: Conflict, timewait: Timewait, step: Step, limit: int, words: str) -> Verdict:
    old = conflict.other
    end = old.end(conflict.owner)
    after = step.message.time - timewait.start
    close = [s for s in old.steps if s.message.time <= timewait.start][-1:]
    parameters = {
        "local_ack_timeout": getattr(old.request, "primary_local_ack_timeout", None),
        "target_ack_delay": getattr(old.reply, "target_ack_delay", None),
    }
    same_psn = _starting_psn(event.connection, event.kind) == _starting_psn(
        old, "REQ" if end.role == "active" else "REP"
    )
    sentence = (
        f"{end_name(end)} opens a new connection with QPN {qpn(end.qpn or 0)} {duration(after)} after it closed "
        f"connection {old.id} (frame {close[0].message.frame if close else '?'}), before {words} "
        f"{duration(limit - timewait.start)}."
    )
    if timewait.assumed:
        sentence += " The Local ACK Timeout was not captured; a default stands in."
    return Verdict(
        sentence,
        (step,),
        {
            "qpn": qpn(end.qpn or 0),
            "reused_after_ns": after,
            "timewait_minimum_ns": timewait.minimum - timewait.start,
            "timewait_likely_ns": timewait.likely - timewait.start,
            "timewait_maximum_ns": timewait.maximum - timewait.start,
            "free_from_ns": timewait.likely,
            "same_starting_psn": same_psn,
            **parameters,
        },
        related=(old,),
    )


def _starting_psn(connection: Connection, kind: str) -> int | None:
    psn: int | None = getattr(connection.request if kind == "REQ" else connection.reply, "starting_psn", None)
    return psn


@rule(
    "T01",
    "qpn-reused-in-timewait",
    "A CA reuses its own QPN inside its own timewait",
    severity="error",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4, 12.9.7 (the QP stays in reset, init or error until timewait is over)",
    explanation="After a connection is closed, late packets to its QPN may still be in the network; a new connection "
    "on the same QPN would take them for its own and corrupt data. So the owner must not use the QPN before its "
    "timewait is over: wrong under both readings of the specification. Certain here: even the shortest timewait that "
    "any known implementation computes was not over. Linux leaves this duty to the consumer, and gives a QPN free at "
    "once when the process ends.",
    false_positives="Clock errors in merged captures; two machines with the same CA GUID; an XRC target QP that "
    "serves several initiators. Never raised for a connection that carried no data (its QP had nothing to wait for).",
    advice="Let the consumer keep its QP until the CM reports the end of timewait (RDMA_CM_EVENT_TIMEWAIT_EXIT), or "
    "take a fresh QP for each connection.",
)
def reused_in_timewait(event: Event, view: View) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        if step.message.time < timewait.minimum and not timewait.assumed:
            yield _reuse_verdict(event, conflict, timewait, step, timewait.minimum, "the shortest possible timewait of")


@rule(
    "T02",
    "qpn-reused-early",
    "A CA reuses its own QPN before its timewait is surely over",
    severity="warning",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4; durations by implementation",
    explanation="As T01, but after the shortest timewait: before the time that Linux would take (warning, probable) "
    "or before the longest that any implementation takes (info, possible). The active side's packet life is not on "
    "the wire, so the exact end of its timewait is not known.",
    false_positives="As T01; the sender's timewait is shorter than the model says.",
    advice="Let the consumer keep its QP until the CM reports the end of timewait, or take a fresh QP for each "
    "connection.",
)
def reused_early(event: Event, view: View) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        time = step.message.time
        if time < timewait.minimum and not timewait.assumed:
            continue
        if time < timewait.likely and not timewait.assumed:
            verdict = _reuse_verdict(
                event,
                conflict,
                timewait,
                step,
                timewait.likely,
                f"the timewait that {TIMEWAIT_MODELS[timewait.model]} keeps,",
            )
            yield verdict._replace(confidence="probable")
        else:
            verdict = _reuse_verdict(
                event, conflict, timewait, step, timewait.maximum, "the longest possible timewait of"
            )
            yield verdict._replace(confidence="possible", severity="info")


def _one_req(history: str) -> bool:
    """This REQ is all that was seen."""
    return history == "Q"


@rule(
    "T03",
    "comm-id-reused",
    "A Communication ID is used for a new connection while the old one lives",
    severity="error",
    on=("REQ",),
    history=_one_req,
    when=entangled,
    clause="IBA 12.7.1; REJ reason 30 exists for it",
    explanation="The REQ carries a Local Communication ID that the same CA uses in another connection which is open "
    "or in its timewait, with other content. All later messages are found by these ids, so they can go to the wrong "
    "connection. illumos answers with REJ 30; Linux takes the REQ for a repetition and drops it.",
    false_positives="A host that rebooted may draw an id again by chance; two machines with the same CA GUID; an id "
    "mapped by an SR-IOV host.",
    advice="Look at the CM of the side that sent the REQ: it gave an id away twice, or forgot the old connection "
    "(reboot).",
)
def comm_id_reused(event: Event, view: View) -> Iterator[Verdict]:
    connection, step, conflict = event.connection, event.step, event.connection.comm_id_conflict
    if conflict is None or step is None:
        return
    old = conflict.other
    timewait = old.end(conflict.owner).timewait
    if conflict.owner_state in CLOSED_STATES and not (timewait and step.message.time < timewait.minimum):
        return
    if not view.covered(old, old.steps[-1].message.time, step.message.time):
        return  # its end may not have been captured
    identifier = comm_id(connection.active.comm_id or 0)
    yield Verdict(
        f"{end_name(connection.active)} uses Local Communication ID {identifier} for a new connection while "
        f"connection {old.id} with the same id is "
        f"{'in timewait' if conflict.owner_state in CLOSED_STATES else 'open'} (opened "
        f"{duration(step.message.time - old.opened)} before).",
        (step,),
        {"comm_id": identifier, "age_ns": step.message.time - old.opened},
        "probable",
        related=(old,),
    )


@rule(
    "T04",
    "comm-id-refused",
    "REJ 30: the receiver knows this Local Communication ID already",
    severity="info",
    on=("REJ",),
    history=first,
    clause="IBA 12.6.7.2, reason 30",
    explanation="The receiver refused the REQ because the same CA uses the same Communication ID in a connection "
    "that it still has. Typical after the sender rebooted.",
    false_positives="None known.",
    advice="Look on the receiver for a connection of this peer that should be gone.",
)
def comm_id_refused(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is not None and step.message.fields.reason == DUPLICATE_COMM_ID:
        identifier = comm_id(connection.active.comm_id or 0)
        yield Verdict(
            f"{end_name(connection.passive)} refused Local Communication ID {identifier} of "
            f"{end_name(connection.active)} as a duplicate.",
            (step,),
            {"comm_id": identifier},
        )


def _ignored(connection: Connection, step: Step) -> bool:
    """Whether the receiver takes no notice of this message: so it is when a DREQ does not name its QPN."""
    return step.disposition == "ignored"


@rule(
    "T05",
    "dreq-wrong-qpn",
    "A DREQ names a QPN that is not the peer's",
    severity="error",
    on=("DREQ",),
    history=first,
    when=_ignored,
    clause="IBA table of DREQ (Remote QPN); Linux cm_dreq_handler",
    explanation="The Communication IDs belong to a known connection, but the Remote QPN is not the one that the peer "
    "named in its REQ or REP. The receiver must ignore such a DREQ; so it will be repeated until its retries are "
    "exhausted.",
    false_positives="Not raised where the peer's QPN is unknown (capture starts late) or the connection is XRC, "
    "whose QPN stands in another field.",
    advice="Look at the CM or consumer of the side that sent the DREQ: it mixes up two connections.",
)
def dreq_wrong_qpn(event: Event, view: View) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown" or connection.request is None:
        return
    named, right = step.message.fields.remote_qpn, connection.peer(step.sender).qpn
    if named is None or right is None or named == right or connection.request.transport_service_type == 3:
        return
    yield Verdict(
        f"DREQ of {end_name(connection.end(step.sender))} names QPN {qpn(named)}, but "
        f"{end_name(connection.peer(step.sender))} uses {qpn(right)} in this connection.",
        (step,),
        {"named_qpn": qpn(named), "qpn": qpn(right)},
    )


def _after_ignored(connection: Connection, step: Step) -> bool:
    """Whether the message before this one had no effect."""
    steps = connection.steps
    return len(steps) > 1 and steps[-2].disposition == "ignored"


@rule(
    "T06",
    "dreq-in-timewait",
    "A repeated DREQ was treated wrongly after the connection was closed",
    severity="warning",
    on=("DREQ_EXHAUSTED", "DREP"),
    when=_after_ignored,
    clause="IBA 12.9.7 (TimeWait: DREQ received)",
    explanation="A DREP may be lost; so a CM in timewait must answer a repeated DREQ again when it names the right "
    "QPN (warning if it does not), and ignore one with a wrong QPN (info if it answers: Linux does so statelessly "
    "once the connection is forgotten).",
    false_positives="The second DREP is missing from the capture: raised only when the DREQ was repeated more than "
    "once after the first DREP, until its sender gave up.",
    advice="Nothing is lost: both sides end in timewait. Look at the CM that does not answer if it happens often.",
)
def dreq_in_timewait(event: Event, view: View) -> Iterator[Verdict]:
    connection = event.connection
    if event.kind == "DREP":
        yield from _wrong_one_answered(event)
        return
    role = event.role
    dreqs = of_type(connection, "DREQ", sender=role)
    dreps = of_type(connection, "DREP", sender=None if role is None else PEER[role])
    if not dreqs or not dreps or dreqs[-1].retransmission_of is None or connection.request is None:
        return
    # One that is repeated once more was answered, in a message that is not in the capture: its sender was content.
    unanswered = [dreq for dreq in dreqs if dreq.message.time - dreps[-1].message.time >= DISORDER]
    if len(unanswered) < 2:
        return
    waited = event.time - dreqs[-1].message.time
    if not view.covered(connection, dreps[-1].message.time, event.time):
        return
    yield Verdict(
        f"DREQ repeated {times(len(unanswered))} after a DREP (which may have been lost), at last "
        f"{duration(dreqs[-1].message.time - dreps[-1].message.time)} after it, and not answered again within "
        f"{duration(waited)}.",
        (dreps[-1], dreqs[-1]),
        {"repetitions": len(unanswered), "waited_ns": waited},
        "probable",
    )


def _wrong_one_answered(event: Event) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    last = connection.steps[-2]
    right = connection.end(step.sender).qpn
    if last.message.type != "DREQ" or last.sender == step.sender or right is None:
        return
    named = last.message.fields.remote_qpn
    others = [
        s for s in of_type(connection, "DREQ") if s.sender == last.sender and s.message.fields.remote_qpn == right
    ]
    if named is not None and named != right and not others:
        yield Verdict(
            f"DREQ with the wrong QPN {qpn(named)} (right: {qpn(right)}) was answered with DREP.",
            (last, step),
            {"named_qpn": qpn(named), "qpn": qpn(right)},
            severity="info",
        )


@rule(
    "T07",
    "ghost-req",
    "A REQ of a connection that is over came again and was accepted",
    severity="warning",
    on=("REP",),
    history=first,
    when=entangled,
    clause="Linux: ids are forgotten on entering timewait",
    explanation="The REQ is byte for byte that of a connection which was closed. A CM that forgets ids when timewait "
    "begins takes the late duplicate for a new request and opens a phantom connection; its REP is repeated without "
    "an answer.",
    false_positives="A second sighting of the old packet: excluded by its PSN.",
    advice="The phantom goes away when its REP retries are exhausted. Look for what duplicates or delays packets.",
)
def ghost_req(event: Event, view: View) -> Iterator[Verdict]:
    connection, step, old = event.connection, event.step, event.connection.ghost_of
    if old is None or step is None:
        return
    request = of_type(connection, "REQ")[0]
    late = request.message.time - (old.closed or old.opened)
    yield Verdict(
        f"The REQ of connection {old.id} came again {duration(late)} after that connection was over, and "
        f"{end_name(connection.passive)} accepted it.",
        (request, step),
        {"after_close_ns": late},
        related=(old,),
    )


@rule(
    "T08",
    "short-timewait",
    "A CA keeps a shorter timewait than any model knows",
    severity="info",
    on=("REQ", "REP"),
    history=first,
    when=entangled,
    clause="IBA 12.4; connections/timers.py",
    explanation="At least three times this CA reused a QPN before the shortest timewait that the fields of its "
    "connections allow: it keeps a shorter one, or none. A statistic; the single cases are T01.",
    false_positives="As T01.",
    advice="If the CA's software is known to end timewait early on purpose, read its T01 findings in that light.",
)
def short_timewait(event: Event, view: View) -> Iterator[Verdict]:
    for conflict, timewait, step in _early_reuse(event, view):
        end, memory = conflict.other.end(conflict.owner), view.memory["T08"]
        if step.message.time >= timewait.minimum or timewait.assumed:
            continue
        count, shortest = memory.get(end.ca_guid, (0, step.message.time - timewait.start))
        count, shortest = count + 1, min(shortest, step.message.time - timewait.start)
        memory[end.ca_guid] = (count, shortest)
        if count == ENOUGH_REUSES:
            yield Verdict(
                f"{end_name(end)} has reused a QPN inside its own timewait {count} times, at the earliest after "
                f"{duration(shortest)}.",
                (step,),
                {"reuses": count, "shortest_ns": shortest},
            )


@rule(
    "T10",
    "reconnect-in-timewait",
    "The same consumer connects again inside timewait, with another QPN",
    severity="info",
    on=("REQ", "DREP"),
    history=first,
    clause="IBA 12.4 (timewait binds the QPN, not the consumer)",
    explanation="A consumer reconnects from the same address and port (or to the same service, without IP "
    "addressing) while the QP of its last connection is in timewait, and uses another QP: as it should be. Good to "
    "know when QPs run short.",
    false_positives="None: it accuses nobody.",
    advice="Nothing to do.",
)
def reconnect_in_timewait(event: Event, view: View) -> Iterable[Verdict]:
    connection, memory = event.connection, view.memory["T10"]
    guid = connection.active.ca_guid
    if not guid:
        return ()
    # One connection per CA: a reconnecting consumer comes back before others close theirs, or is not worth a line.
    if event.kind == "DREP":
        memory[guid] = (connection.active.name, connection)
        return ()
    name, old = memory.get(guid, (None, None))
    return _reconnect(event, old) if name == connection.active.name else ()


def _reconnect(event: Event, old: Connection) -> Iterator[Verdict]:
    connection, step, active = event.connection, event.step, event.connection.active
    if step is None or old is connection or old.active.timewait is None or not _same_consumer(old, connection):
        return
    after = step.message.time - old.active.timewait.start
    if old.active.qpn != active.qpn and 0 <= after < old.active.timewait.likely - old.active.timewait.start:
        yield Verdict(
            f"{end_name(active)} connects again {duration(after)} after it closed connection {old.id}, with "
            f"QPN {qpn(active.qpn or 0)} instead of {qpn(old.active.qpn or 0)}, which is in timewait.",
            (step,),
            {"after_close_ns": after, "timewait_likely_ns": old.active.timewait.likely - old.active.timewait.start},
            related=(old,),
        )


def _same_consumer(old: Connection, new: Connection) -> bool:
    same_target = old.service_id == new.service_id and old.passive.address.matches(new.passive.address)
    return same_target and old.active.address.matches(new.active.address)
