"""H04: an RTU that fits no REP (IBA 12.9.7.1)."""

from __future__ import annotations

from ibcmtool.evidence import unopposed, weakened
from ibcmtool.formatting import comm_id, end_name
from ibcmtool.messages import Rep, Rtu
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches
from ibcmtool.rules.steps import DISORDER, fields_of, heard, of_type
from ibcmtool.values import CommId, known

H04 = rule(
    "H04",
    "rtu-unmatched",
    "An RTU that fits no REP",
    severity="error",
    clause="IBA 12.9.7.1; Linux cm_rtu_handler looks up both Communication IDs",
    explanation="An RTU completes a handshake and names both ends by their Communication IDs. One with a Remote"
    " Communication ID that no REP of this exchange gave is ignored by the receiver, which repeats its REP until it"
    " gives up. With no REP captured at all it is information: the RTU itself shows that there was one.",
    false_positives="The capture dropped the REP, or begins after it, or has it with another connection: then only"
    " information. Not reported when nothing from the passive side's address was ever captured.",
    advice="Compare the RTU's Remote with the REP's Local Communication ID; check the capture for drops.",
)


@H04.on_event("ENDED", history=matches("(?=.*p).*U.*"), needs=("request",))
def rtu_unmatched(connection: Connection, event: Event, context: Context) -> Verdicts:
    """At the end, as its REP may be captured after it."""
    for step in connection.steps:
        if step.message.type == "RTU":
            if step.disposition != "ignored" or (connection.closed or event.time) < step.message.time:
                return ()  # behind the end it belongs to another life of these ids
            return _unmatched(connection, step, context)
    return ()


def _unmatched(connection: Connection, step: Step, context: Context) -> Verdicts:
    named = fields_of(step, Rtu).remote_comm_id
    replies = of_type(connection, "REP")
    given = [fields_of(reply, Rep).local_comm_id for reply in replies]
    if named in given or not given:
        return
    if not context.covered(connection, replies[-1].message.time, step.message.time):
        return  # another REP may have come meanwhile
    yield Verdict(
        f"RTU names Remote Communication ID {comm_id(named)}; the REP gave {comm_id(given[-1])}.",
        {"remote_comm_id": known(CommId, named), "reply_comm_id": known(CommId, given[-1])},
        (
            context.witness.silent(connection.passive.address, connection.opened, step.message.time),
            # A REP that comes again shows that its sender did not take the RTU for the answer.
            (unopposed if replies[-1].message.time > step.message.time + DISORDER else weakened)("received"),
        ),
        steps=(replies[0], step),
    )


@H04.on_event("ENDED", history=matches("[^p]*U.*"), needs=("request",))
def rtu_without_rep(connection: Connection, event: Event, context: Context) -> Verdicts:
    """At the end, as a REP may be captured after its RTU."""
    rtu = of_type(connection, "RTU")[0]
    if connection.reply is not None or event.time - rtu.message.time <= DISORDER:
        return
    if heard(context, connection, "passive"):
        named = fields_of(rtu, Rtu).remote_comm_id
        yield Verdict(
            f"RTU names Remote Communication ID {comm_id(named)}, but no REP to this REQ was captured from"
            f" {end_name(connection.passive)}: the capture missed it.",
            {"remote_comm_id": known(CommId, named)},
            (weakened("complete"),),
            steps=(connection.steps[0], rtu),
            severity="info",
        )
