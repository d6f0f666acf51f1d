"""L: a second path for an open connection: who may load it, when, and how it is answered (IBA 12.8.1, 12.8.2).

Hardly any CM sends a LAP today (Linux gave up sending them), so the tracker keeps no state of the exchange: these rules
read it from the steps. Where a message that would explain another may only be missing from the capture, they say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from ibcmtool.connections.timers import exponent, response_wait
from ibcmtool.evidence import in_order, one_clock, unopposed, weakened
from ibcmtool.formatting import duration, end_name
from ibcmtool.messages import Apr, Lap
from ibcmtool.model import PEER, Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import again, anew, first, matches
from ibcmtool.rules.steps import (
    DISORDER,
    before,
    fields_of,
    names_another_qpn,
    numbered_before,
    of_type,
    receiver_end,
    sender_end,
)
from ibcmtool.values import Duration, Tid, Value

L01 = rule(
    "L01",
    "lap-outside-established",
    "A LAP from a side that is not connected yet, or no more",
    severity="error",
    clause="Linux cm_lap_handler takes a LAP in ESTABLISHED only",
    explanation="An alternate path is loaded into an established connection. A side that has sent its own DREQ, DREP"
    " or REJ has left that state, and an active side enters it with its RTU: a LAP outside is ignored, and its sender"
    " repeats it in vain.",
    false_positives="Only what the sender itself had said counts, 50 ms before at the least: a LAP that crosses the"
    " peer's DREQ is innocent. Before the RTU: not reported until the RTU comes, without the REQ, and when a repeated"
    " REP stands between (it may have asked for that RTU), or the RTU was held up by its number. Later than one"
    " response timeout after a DREP or REJ see H08.",
    advice="Look at the CM that sent the LAP: it does not follow the state of its own connection.",
)


def _unexpected(connection: Connection, step: Step) -> bool:
    """Whether its sender's state does not send such a message."""
    return step.disposition == "unexpected"


@L01.on_step("LAP", when=_unexpected, needs=("sender",))
def lap_after_the_end(connection: Connection, step: Step, context: Context) -> Verdicts:
    time, longest_wait = step.message.time, max(response_wait(connection.request, role).nominal for role in PEER)
    for earlier in before(connection, step):
        kind, own = earlier.message.type, earlier.sender == step.sender
        if kind == "REQ" or (kind == "LAP" and own and earlier.disposition == "unexpected"):
            return  # a new attempt since, or reported already
        gap = time - earlier.message.time
        if kind in ("DREP", "REJ") and gap > longest_wait:
            return  # H08's
        if own and kind in ("DREQ", "DREP", "REJ"):
            if gap > DISORDER:
                yield Verdict(
                    f"{end_name(sender_end(connection, step))} sent a LAP {duration(gap)} after its own {kind}.",
                    {"gap": Duration(gap)},
                    (one_clock(earlier, step), in_order(earlier.message, step.message)),
                    steps=(earlier, step),
                )
            return


# The first RTU, after a LAP.
@L01.on_step("RTU", history=matches("(?=.*L)[^U]*U[^U]*"), needs=("sender", "request"))
def lap_before_rtu(connection: Connection, step: Step, context: Context) -> Verdicts:
    for earlier in before(connection, step):
        if earlier.message.type == "REP":
            return
        gap = step.message.time - earlier.message.time
        if earlier.message.type == "LAP" and earlier.sender == "active" and gap > DISORDER:
            if numbered_before(step, earlier):
                return  # the RTU was held up
            yield Verdict(
                f"{end_name(connection.active)} sent a LAP {duration(gap)} before its RTU.",
                {"gap": Duration(gap)},
                (unopposed("complete"),),
                steps=(earlier, step),
            )
            return


L02 = rule(
    "L02",
    "apr-without-lap",
    "An APR answers a LAP that is not in the capture",
    severity="warning",
    clause="IBA 12.8.2, as far as known (APR); Linux cm_apr_handler",
    explanation="An APR exists only as the answer to a LAP. Its receiver drops one that it did not ask for: its sender"
    " believes in an alternate path that the other side never loaded.",
    false_positives="The capture lost the LAP (hence never more than probable). Not reported when the REQ was not"
    " captured, or nothing of the side that would have sent the LAP. A LAP up to 50 ms later counts, and one with its"
    " TransactionID at any time: captures have some disorder.",
    advice="Look for capture drops in front of the frame; else look at the CM that sent the APR.",
)


@L02.on_event("ENDED", history=matches("[^aA]*[aA].*"), needs=("request",))
def apr_without_lap(connection: Connection, event: Event, context: Context) -> Verdicts:
    for role in PEER:
        aprs, received = of_type(connection, "APR", sender=role), any(s.sender == PEER[role] for s in connection.steps)
        laps = of_type(connection, "LAP", sender=PEER[role])
        if not aprs or not received or any(_asks_for(lap, aprs[0]) for lap in laps):
            continue
        if context.covered(connection, connection.opened, aprs[0].message.time):
            yield Verdict(
                f"APR from {end_name(connection.end(role))}, but no LAP from {end_name(connection.peer(role))} was"
                " captured before it in this connection.",
                {"sender": role, "ap_status": fields_of(aprs[0], Apr).ap_status},
                (
                    context.witness.silent(
                        connection.peer(role).address, connection.steps[0].message.time, aprs[0].message.time
                    ),
                    unopposed("complete"),
                ),
                steps=(aprs[0],),
            )


def _asks_for(lap: Step, apr: Step) -> bool:
    """Whether a LAP is captured in time for its APR, or is by its TransactionID the one that was answered."""
    return lap.message.time <= apr.message.time + DISORDER or lap.message.tid == apr.message.tid


L03 = rule(
    "L03",
    "lap-from-passive",
    "The passive side asked for an alternate path",
    severity="info",
    clause="IBA 12.8.1, as far as known (LAP); Linux cm_lap_handler takes a LAP from either side",
    explanation="The side that opened the connection chooses its paths, so the LAP is its message. Other CMs may"
    " ignore one from the passive side. Upstream Linux since about 5.6 (as far as known) neither loads a path by LAP"
    ' nor answers one, from either side: its rdma_cm logs "RDMA CMA: unexpected IB CM event" and that is all.',
    false_positives="Not reported when the REQ was not captured, so that nobody knows which side is which.",
    advice="If the peer runs upstream Linux since about 5.6, switch path migration off: no LAP gets an answer there."
    " With another CM, let the active side send the LAP if it stays unanswered.",
)


@L03.on_step("LAP", history=matches("[^l]*l"), needs=("request",))
def lap_from_passive(connection: Connection, step: Step, context: Context) -> Verdicts:
    if step.sender == "passive":
        yield Verdict(f"LAP from the passive side, {end_name(connection.passive)}.", {"sender": step.sender})


L04 = rule(
    "L04",
    "parallel-laps",
    "A second LAP while the first one waits for its APR",
    severity="warning",
    clause="Linux lap_state LAP_SENT (one LAP at a time)",
    explanation="A connection has one alternate path, and one LAP may be under way for it. A second one with another"
    " TransactionID makes it open which path the APR accepts. Certain when the first LAP is repeated after the second"
    " was sent: both wait for an answer.",
    false_positives="The APR to the first LAP may be missing from the capture: information only, as long as the first"
    " is not repeated. Not reported once the first had an APR, or its last wait was over.",
    advice="Look at the CM that sent them, or at the manager that moves paths: it must wait for the APR. Upstream"
    " Linux since about 5.6 (as far as known) neither loads a path by LAP nor answers one: with such a peer switch"
    " path migration off.",
)


@L04.on_step("LAP", history=again, needs=("sender",))
def repeated_while_another_waits(connection: Connection, step: Step, context: Context) -> Verdicts:
    earlier = _laps_before(connection, step)
    other = _sent_meanwhile(earlier, step)
    if other is None or any(_sent_meanwhile(earlier[at + 1 :], old) for at, old in enumerate(earlier)):
        return  # or reported already
    yield Verdict(
        f"LAP repeated {duration(step.message.time - other.message.time)} after"
        f" {end_name(sender_end(connection, step))} had sent another one: both wait for an APR.",
        _compared(other, step),
        (one_clock(other, step),),
        steps=(step.retransmission_of or step, other, step),
    )


@L04.on_step("LAP", history=anew, needs=("sender",))
def another_lap(connection: Connection, step: Step, context: Context) -> Verdicts:
    earlier = _laps_before(connection, step)
    other = next((s for s in earlier if s.message.tid != step.message.tid), None)
    if other is None or _answered_since(connection, earlier, other):
        return
    gap = step.message.time - other.message.time
    if gap <= _lap_wait(connection, other):
        yield Verdict(
            f"Another LAP {duration(gap)} after the one before, whose APR was not captured: it may be missing here, or"
            " both are under way.",
            _compared(other, step),
            (weakened("complete"),),
            steps=(other, step),
            severity="info",
        )


def _laps_before(connection: Connection, step: Step) -> list[Step]:
    """Those that the sender of this one sent before, newest first."""
    return [s for s in before(connection, step) if s.message.type == "LAP" and s.sender == step.sender]


def _sent_meanwhile(earlier: Sequence[Step], step: Step) -> Step | None:
    """The newest LAP with another TransactionID between a LAP and this repetition of it, with a moment granted."""
    original = step.retransmission_of
    if original is None:
        return None
    since, until = original.message.time, step.message.time - DISORDER
    others = (s for s in earlier if s.message.tid != step.message.tid)
    return next((s for s in others if since < s.message.time < until), None)


def _compared(other: Step, step: Step) -> dict[str, Value | Sequence[Value]]:
    gap = step.message.time - other.message.time
    return {"gap": Duration(gap), "tids": (Tid(other.message.tid), Tid(step.message.tid))}


def _answered_since(connection: Connection, earlier: Sequence[Step], lap: Step) -> bool:
    """Whether an APR came after the first send of this LAP."""
    sent = min(s.message.time for s in earlier if s.message.tid == lap.message.tid)
    answers = of_type(connection, "APR", sender=receiver_end(connection, lap).role)
    return any(answer.message.time > sent - DISORDER for answer in answers)


def _lap_wait(connection: Connection, lap: Step) -> int:
    """How long the sender of a LAP waits for the APR: its own timeout field, and the path."""
    asked = fields_of(lap, Lap).remote_cm_response_timeout
    path = response_wait(connection.request, sender_end(connection, lap).role).nominal
    return max(0 if asked is None else exponent(asked), path)


L05 = rule(
    "L05",
    "lap-wrong-qpn",
    "A LAP names a QPN that is not the peer's",
    severity="error",
    clause="IBA 12.8.1, as far as known (Remote QPN of a LAP); APR status 6 (unknown QPN) exists for it",
    explanation="The Communication IDs belong to a known connection, but the Remote QPN is not the one that the peer"
    " named in its REQ or REP. The receiver must not load the path.",
    false_positives="Not reported where the peer's QPN is unknown (capture starts late), and for XRC (QPN in another"
    " field).",
    advice="Look at the CM of the side that sent the LAP: it mixes up two connections.",
)


@L05.on_step("LAP", history=first, needs=("sender", "request"))
def lap_wrong_qpn(connection: Connection, step: Step, context: Context) -> Verdicts:
    return names_another_qpn(connection, step, context)


L06 = rule(
    "L06",
    "lap-on-roce",
    "A path is to be loaded on RoCE",
    severity="warning",
    clause="Linux cm_lap_handler (drops a LAP on RoCE); RoCE adapters have no automatic path migration",
    explanation="LAP and APR load an alternate path for automatic path migration, a feature of InfiniBand links. On"
    " RoCE Linux drops a LAP without an answer, so that its sender waits until its retries are used up, and there is"
    " no path to change to when the link fails. Upstream Linux since about 5.6 (as far as known) does so on"
    " InfiniBand, too.",
    false_positives="None known.",
    advice="Switch path migration off in the sender's configuration; on RoCE, bonding below the RDMA device does it.",
)


def _on_roce(connection: Connection, step: Step) -> bool:
    return connection.transport != "InfiniBand"


# The first LAP or APR of the connection, whichever side sent it.
@L06.on_step("LAP", "APR", history=matches("[^LlAa]*[LlAa]"), when=_on_roce)
def lap_on_roce(connection: Connection, step: Step, context: Context) -> Verdicts:
    yield Verdict(f"{step.message.type} on {connection.transport}.", {"transport": connection.transport})
