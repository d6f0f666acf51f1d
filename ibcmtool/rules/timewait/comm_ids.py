"""T03, T04, T07: Communication IDs that are used again, and a REQ that comes again when all is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibcmtool.connections.codes import DUPLICATE_COMM_ID
from ibcmtool.connections.connection_index import CLOSED_STATES
from ibcmtool.evidence import Ground, unopposed, weakened
from ibcmtool.formatting import comm_id, duration, end_name
from ibcmtool.model import Conflict, Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import entangled, first, matches, rejects_for
from ibcmtool.rules.facts.coverage import WHOLE_MAD
from ibcmtool.rules.stale.holders import last_message
from ibcmtool.rules.steps import of_type
from ibcmtool.values import CommId, Duration

T03 = rule(
    "T03",
    "comm-id-reused",
    "A Communication ID is used for a new connection while the old one lives",
    severity="error",
    clause="IBA 12.7.1; REJ reason 30 exists for it",
    explanation="The REQ carries a Local Communication ID that the same CA uses in another connection which is open "
    "or in its timewait, with other content. All later messages are found by these ids, so they can go to the wrong "
    "connection. illumos answers with REJ 30; Linux takes the REQ for a repetition and drops it.",
    false_positives="A host that rebooted may draw an id again by chance; two machines with the same CA GUID; an id "
    "mapped by an SR-IOV host. Information if the REQ of the old connection was not captured: it may be a copy of it.",
    advice="Look at the CM of the side that sent the REQ: it gave an id away twice, or forgot the old connection "
    "(reboot).",
)


FIXED: Final = Ground("meaning", "weakened", "an id that was there before, as in each life of a CM with fixed ids")

GIVEN_UP: Final = Ground("received", "weakened", "the old attempt may have been given up without a word")

UNSEEN: Final = Ground("meaning", "weakened", "the REQ that had that id was not captured, and may have been the same")


@T03.on_step("REQ", history=matches("Q"), when=entangled)
def comm_id_reused(connection: Connection, step: Step, context: Context) -> Verdicts:
    conflict, time = connection.comm_id_conflict, step.message.time
    if conflict is None or conflict.other.late_duplicate_of is not None:
        return  # its owner knows nothing of a phantom
    old, closed = conflict.other, conflict.owner_state in CLOSED_STATES
    timewait = old.end(conflict.owner).timewait
    if closed and not (timewait and time < timewait.minimum):
        return
    if not context.covered(old, old.steps[-1].message.time, time):
        return  # its end may not have been captured
    identifier = connection.active.comm_id or 0
    yield Verdict(
        f"{end_name(connection.active)} uses Local Communication ID {comm_id(identifier)} for a new connection while "
        f"connection {old.id} with the same id is {'in timewait' if closed else 'open'} (opened "
        f"{duration(time - old.opened)} before).",
        {"comm_id": CommId(identifier), "age": Duration(time - old.opened)},
        (
            unopposed("same machine"),
            context.witness.heard(old.peer(conflict.owner).address),
            _kept(conflict, time, context),
            *(() if old.comm_id_conflict is None else (FIXED,)),
            *(() if old.request is not None else (UNSEEN,)),
            *(() if old.established is not None else (GIVEN_UP,)),
        ),
        related=(old,),
    )


def _kept(conflict: Conflict, time: int, context: Context) -> Ground:
    """The owner of the id has not let go of the old connection unseen, for which it has to send a DREQ or a DREP."""
    old = conflict.other
    whole = context.witness.complete(old.end(conflict.owner).address, last_message(old, time), time)
    closing = bool(of_type(old, "DREQ"))
    return weakened("complete") if closing or whole.strength == "unopposed" else whole


T04 = rule(
    "T04",
    "comm-id-refused",
    "REJ 30: the receiver knows this Local Communication ID already",
    severity="info",
    clause="IBA 12.6.7.2, reason 30",
    explanation="The receiver refused the REQ because the same CA uses the same Communication ID in a connection "
    "that it still has. Typical after the sender rebooted.",
    false_positives="None known.",
    advice="Look on the receiver for a connection of this peer that should be gone.",
)


@T04.on_step("REJ", history=first, when=rejects_for(DUPLICATE_COMM_ID))
def comm_id_refused(connection: Connection, step: Step, context: Context) -> Verdicts:
    identifier = connection.active.comm_id or 0
    yield Verdict(
        f"{end_name(connection.passive)} refused Local Communication ID {comm_id(identifier)} of "
        f"{end_name(connection.active)} as a duplicate.",
        {"comm_id": CommId(identifier)},
    )


T07 = rule(
    "T07",
    "ghost-req",
    "A REQ of a connection that is over came again and was accepted",
    severity="warning",
    clause="Linux: ids are forgotten on entering timewait",
    explanation="The REQ is byte for byte that of a connection which was closed. A CM that forgets ids when "
    "timewait begins takes the late duplicate for a new request and opens a phantom connection; its REP is repeated "
    "without an answer.",
    false_positives="A second sighting of the old packets: not reported where the REP came before the end, too, nor of"
    " a host that has restarted since: it cannot remember. A new connection of a CM that gives each the same ids and"
    " TransactionID: only possible where it may be one, as its REQ was not captured, or came with other contents"
    " behind the late copy.",
    advice="The phantom goes away when its REP retries are exhausted. Look for what duplicates or delays packets.",
    rests_on=(),  # a REP with an id of its own tells, whatever else of the connection was missed
)


@T07.on_step("REP", history=first, when=entangled)
def ghost_req(connection: Connection, step: Step, context: Context) -> Verdicts:
    old = connection.late_duplicate_of
    if old is None or any(step.message.mad == first.message.mad for first in of_type(old, "REP")):
        return  # its answer was seen before the end
    request = of_type(connection, "REQ")[0]
    late = request.message.time - (old.closed or old.opened)
    yield Verdict(
        f"The REQ of connection {old.id} came again {duration(late)} after that connection was over, and "
        f"{end_name(connection.passive)} accepted it.",
        {"after_close": Duration(late)},
        tuple(_copied(connection, old, step, context)),
        steps=(request, step),
        related=(old,),
    )


def _copied(connection: Connection, old: Connection, step: Step, context: Context) -> Iterator[Ground]:
    """What the REP answers is a copy of the old REQ, not the REQ of a new life with the same ids and TransactionID.

    And who accepted it is whoever had the old connection: a host that has restarted since has nothing to remember.
    """
    first_answer = next((reply.message.time for reply in of_type(old, "REP")), old.opened)
    yield context.witness.same_life(connection.passive.address, first_answer, step.message.time)
    closing, asked = of_type(old, "DREQ", "DREP", "REJ"), of_type(connection, "REQ")[0]
    if closing:
        clock = context.one_clock(closing[-1], asked)
        yield from (clock,) if clock.strength == "weakened" else ()  # else it is the second answer that tells
    if any(other.message.mad != asked.message.mad for other in of_type(connection, "REQ")):
        yield FIXED  # one with other contents came, too: a new life, and the answer may be to that
    request, known = asked.message, {(sent.message.file, sent.message.frame) for sent in of_type(old, "REQ")}
    if (request.file, request.frame) not in known:
        if len(request.mad) < WHOLE_MAD:
            yield Ground("not a copy", "weakened", "the REQs were cut")
        return
    # It was not captured.
    if not of_type(old, "DREQ", "DREP"):
        yield unopposed("not a copy")  # it may have been a repetition
    port, ports = old.active, (old.active.address, old.passive.address)
    ends = [end for one in context.comm_ids.between(*ports) for end in (one.active, one.passive)]
    if any(end.address == port.address and end.comm_id != port.comm_id for end in ends):
        return  # its ids are no fixed ones
    yield context.witness.silent(port.address, old.steps[-1].message.time, step.message.time)
    if old.comm_id_conflict is not None or connection.passive.comm_id == old.passive.comm_id:
        yield FIXED
