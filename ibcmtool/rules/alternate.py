"""L: a second path for an open connection: who may load it, when, and how it is answered (IBA 12.6.9, 12.6.10, 12.9.8).

Hardly any CM sends a LAP today (Linux gave up sending them), so the tracker keeps no state of the exchange: these rules
read it from the steps. Where a message that would explain another may only be missing from the capture, they say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.connections.timers import exponent, response_wait
from ibcmtool.formatting import duration, end_name, qpn
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, before, of_type, one_capture, role_of

XRC = 3  # transport service type that asks for the extended one


def _lap_or_first_rtu(history: str) -> bool:
    """This message is a LAP, or the first RTU behind one."""
    return history[-1:] in "Ll" or ("L" in history and history.count("U") == 1)


def _unexpected(connection: Connection, step: Step) -> bool:
    """Whether its sender's state does not send such a message; every RTU is worth the look that it is asked for."""
    return step.disposition == "unexpected" or step.message.type == "RTU"


@rule(
    "L01",
    "lap-outside-established",
    "A LAP from a side that is not connected yet, or no more",
    severity="error",
    on=("LAP", "RTU"),
    history=_lap_or_first_rtu,
    when=_unexpected,
    clause="IBA 12.9.8 (LAP in Established only); Linux cm_lap_handler",
    explanation=(
        "An alternate path is loaded into an established connection. A side that has sent its own DREQ, DREP or REJ has"
        " left that state, and an active side enters it with its RTU: a LAP outside is ignored, and its sender repeats"
        " it in vain."
    ),
    false_positives=(
        "Only what the sender itself had said counts, 50 ms before at the least: a LAP that crosses the peer's DREQ is"
        " innocent. Before the RTU: silent until the RTU comes, and when a repeated REP stands between (it may have"
        " asked for that RTU). Later than one response timeout after a DREP or REJ it is told by H08."
    ),
    advice="Look at the CM that sent the LAP: it does not follow the state of its own connection.",
)
def lap_outside_established(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    if step.message.type == "RTU":
        yield from _before_rtu(connection, step)
        return
    own: Step | None = None
    for earlier in before(connection, step):
        kind = earlier.message.type
        if kind == "REQ" or (kind == "LAP" and earlier.sender == step.sender and earlier.disposition == "unexpected"):
            return  # a new attempt since, or told already
        if kind in ("DREP", "REJ") and step.message.time - earlier.message.time > _longest_wait(connection):
            return  # H08's
        if kind in ("DREQ", "DREP", "REJ") and earlier.sender == step.sender:
            own = earlier
            break
    if own is None:
        return
    gap = step.message.time - own.message.time
    if gap > DISORDER:
        yield Verdict(
            f"{end_name(connection.end(step.sender))} sent a LAP {duration(gap)} after its own {own.message.type}.",
            (own, step),
            {"gap_ns": gap},
            confidence="certain" if one_capture(own, step) else "probable",
        )


def _before_rtu(connection: Connection, rtu: Step) -> Iterator[Verdict]:
    """The verdict on a LAP of the active side that came before its RTU."""
    for earlier in before(connection, rtu):
        if earlier.message.type == "REP":
            return
        gap = rtu.message.time - earlier.message.time
        if earlier.message.type == "LAP" and earlier.sender == "active" and gap > DISORDER:
            yield Verdict(
                f"{end_name(connection.active)} sent a LAP {duration(gap)} before its RTU.",
                (earlier, rtu),
                {"gap_ns": gap},
                confidence="probable",
            )
            return


def _longest_wait(connection: Connection) -> int:
    return max(response_wait(connection.request, role).nominal for role in PEER)


def _with_apr(history: str) -> bool:
    return "a" in history or "A" in history


@rule(
    "L02",
    "apr-without-lap",
    "An APR answers a LAP that is not in the capture",
    severity="warning",
    on=("ENDED",),
    history=_with_apr,
    clause="IBA 12.6.10; Linux cm_apr_handler",
    explanation=(
        "An APR exists only as the answer to a LAP. Its receiver drops one that it did not ask for: its sender believes"
        " in an alternate path that the other side never loaded."
    ),
    false_positives=(
        "The capture lost the LAP (hence never more than probable). Silent when the REQ was not captured, or nothing of"
        " the side that would have sent the LAP. A LAP up to 50 ms later counts: captures have some disorder."
    ),
    advice="Look for capture drops in front of the frame; else look at the CM that sent the APR.",
)
def apr_without_lap(event: Event, view: Context) -> Iterator[Verdict]:
    connection = event.connection
    if connection.request is None:
        return
    for role in PEER:
        aprs, heard = of_type(connection, "APR", sender=role), any(s.sender == PEER[role] for s in connection.steps)
        laps = of_type(connection, "LAP", sender=PEER[role])
        if not aprs or not heard or (laps and laps[0].message.time <= aprs[0].message.time + DISORDER):
            continue
        if not view.covered(connection, connection.opened, aprs[0].message.time):
            continue
        yield Verdict(
            f"APR from {end_name(connection.end(role))}, but no LAP from {end_name(connection.peer(role))} was captured"
            " before it in this connection.",
            (aprs[0],),
            {"sender": role, "ap_status": aprs[0].message.fields.ap_status},
            confidence="probable",
        )


def _first_of_passive(history: str) -> bool:
    return history[-1:] == "l" and history.count("l") == 1


@rule(
    "L03",
    "lap-from-passive",
    "The passive side asked for an alternate path",
    severity="info",
    on=("LAP",),
    history=_first_of_passive,
    clause="IBA 12.6.9 (the active side loads the path); Linux takes a LAP from either side",
    explanation=(
        "The side that opened the connection chooses its paths, so the LAP is its message. Linux answers one from the"
        " other side as well; other CMs may ignore it."
    ),
    false_positives="Silent when the REQ was not captured, so that nobody knows which side is which.",
    advice="If the LAP stays unanswered, let the active side send it.",
)
def lap_from_passive(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is not None and step.sender == "passive" and connection.request is not None:
        yield Verdict(f"LAP from the passive side, {end_name(connection.passive)}.", (step,), {"sender": step.sender})


def _lap_again(history: str) -> bool:
    """Its sender sent a LAP before."""
    return history[-1:] in history[:-1]


@rule(
    "L04",
    "parallel-laps",
    "A second LAP while the first one waits for its APR",
    severity="warning",
    on=("LAP",),
    history=_lap_again,
    clause="IBA 12.9.8 (one LAP at a time); Linux lap_state LAP_SENT",
    explanation=(
        "A connection has one alternate path, and one LAP may be under way for it. A second one with another"
        " TransactionID makes it open which path the APR accepts. Certain when the first LAP is repeated after the"
        " second was sent: both wait for an answer."
    ),
    false_positives=(
        "The APR to the first LAP may be missing from the capture: information only, as long as the first is not"
        " repeated. Silent once the first had an APR, or its last wait was over."
    ),
    advice="Look at the CM that sent them, or at the manager that moves paths: it must wait for the APR.",
)
def parallel_laps(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    role = None if step is None else role_of(step)
    if step is None or role is None:
        return
    earlier = [s for s in before(connection, step) if s.message.type == "LAP" and s.sender == role]  # newest first
    if step.retransmission_of is not None:
        other = _sent_meanwhile(earlier, step)
        if other is None or any(_sent_meanwhile(earlier[at + 1 :], old) for at, old in enumerate(earlier)):
            return  # or told already
        yield Verdict(
            f"LAP repeated {duration(step.message.time - other.message.time)} after"
            f" {end_name(connection.end(role))} had sent another one: both wait for an APR.",
            (step.retransmission_of, other, step),
            _compared(other, step),
            confidence="certain" if one_capture(other, step) else "probable",
        )
        return
    other = next((s for s in earlier if s.message.tid != step.message.tid), None)
    if other is None or _answered_since(connection, role, earlier, other):
        return
    gap = step.message.time - other.message.time
    if gap <= _lap_wait(connection, other, role):
        yield Verdict(
            f"Another LAP {duration(gap)} after the one before, whose APR was not captured: it may be missing here, or"
            " both are under way.",
            (other, step),
            _compared(other, step),
            confidence="possible",
            severity="info",
        )


def _sent_meanwhile(earlier: list[Step], step: Step) -> Step | None:
    """The newest LAP with another TransactionID between a LAP and this repetition of it, with a moment granted."""
    original = step.retransmission_of
    if original is None:
        return None
    since, until = original.message.time, step.message.time - DISORDER
    others = (s for s in earlier if s.message.tid != step.message.tid)
    return next((s for s in others if since < s.message.time < until), None)


def _compared(other: Step, step: Step) -> dict[str, object]:
    return {"gap_ns": step.message.time - other.message.time, "tids": [other.message.tid, step.message.tid]}


def _answered_since(connection: Connection, role: Role, earlier: list[Step], lap: Step) -> bool:
    """Whether an APR came after the first send of this LAP."""
    sent = min(s.message.time for s in earlier if s.message.tid == lap.message.tid)
    return any(apr.message.time > sent - DISORDER for apr in of_type(connection, "APR", sender=PEER[role]))


def _lap_wait(connection: Connection, lap: Step, role: Role) -> int:
    """How long the sender of a LAP waits for the APR: its own timeout field, and the path."""
    asked = lap.message.fields.remote_cm_response_timeout
    return max(0 if asked is None else exponent(asked), response_wait(connection.request, role).nominal)


@rule(
    "L05",
    "lap-wrong-qpn",
    "A LAP names a QPN that is not the peer's",
    severity="error",
    on=("LAP",),
    history=first,
    clause="IBA 12.6.9 (Remote QPN); APR status 6 (unknown QPN) exists for it",
    explanation=(
        "The Communication IDs belong to a known connection, but the Remote QPN is not the one that the peer named in"
        " its REQ or REP. The receiver must not load the path."
    ),
    false_positives="Silent where the peer's QPN is unknown (capture starts late), and for XRC (QPN in another field).",
    advice="Look at the CM of the side that sent the LAP: it mixes up two connections.",
)
def lap_wrong_qpn(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown" or connection.request is None:
        return
    named, right = step.message.fields.remote_qpn, connection.peer(step.sender).qpn
    if named is None or right is None or named == right or connection.request.transport_service_type == XRC:
        return
    yield Verdict(
        f"LAP of {end_name(connection.end(step.sender))} names QPN {qpn(named)}, but"
        f" {end_name(connection.peer(step.sender))} uses {qpn(right)} in this connection.",
        (step,),
        {"named_qpn": qpn(named), "qpn": qpn(right)},
    )


def _first_of_path(history: str) -> bool:
    """The first LAP or APR of the connection, whichever side sent it."""
    return sum(history.count(letter) for letter in "LlAa") == 1


def _on_roce(connection: Connection, step: Step) -> bool:
    return connection.transport != "InfiniBand"


@rule(
    "L06",
    "lap-on-roce",
    "A path is to be loaded on RoCE",
    severity="warning",
    on=("LAP", "APR"),
    history=_first_of_path,
    when=_on_roce,
    clause="Linux cm_lap_handler (drops a LAP on RoCE); RoCE adapters have no automatic path migration",
    explanation=(
        "LAP and APR load an alternate path for automatic path migration, a feature of InfiniBand links. On RoCE Linux"
        " drops a LAP without an answer, so that its sender waits until its retries are used up, and there is no path"
        " to change to when the link fails."
    ),
    false_positives="None known.",
    advice="Switch path migration off in the sender's configuration; on RoCE, bonding below the RDMA device does it.",
)
def lap_on_roce(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is not None:
        yield Verdict(f"{step.message.type} on {connection.transport}.", (step,), {"transport": connection.transport})
