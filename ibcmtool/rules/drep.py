"""R07, R16: DREQs whose DREP never came, or came late (IBA 12.9.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibcmtool.connections.deadlines import SLACK
from ibcmtool.connections.timers import max_cm_retries, response_wait
from ibcmtool.formatting import address, duration, end_name, qpn
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import DISORDER, heard, of_type, sends

TOLD_KEPT = 4096  # connections that R07 has spoken of; far more than wait for a DREP at one time
NOTABLE = 1_000_000_000  # ns; what is answered sooner is not late by any timer in use


@rule(
    "R07",
    "drep-missing",
    "A DREQ got no DREP",
    severity="warning",
    on=("DREQ_LAPSED", "DREQ_EXHAUSTED"),
    clause="IBA 12.9.7 (DREQ sent: to TimeWait when the retries are used up); Linux cm_process_send_error",
    explanation=(
        "A DREQ is repeated until its DREP comes. Without one, the sender waits through every retry (73 s with upstream"
        " RoCE defaults, minutes with OFED's) before its timewait begins, and the other side may hold the connection"
        " still. Warning when every send allowed was captured, information when the sender stopped earlier. A DREQ sent"
        " exactly once is told by S12."
    ),
    false_positives=(
        "If nothing was captured from the other side's address, its direction is probably missing (possible only); a"
        " DREP lost before the capture point looks like none. Linux ignores a DREQ whose Remote QPN is wrong (T05)."
    ),
    advice=(
        "See whether the peer is alive. If it is, it dropped or never got the DREQ: its end of the connection stays"
        " open until it notices, and a REQ that reuses the QPN will be refused as stale."
    ),
)
def drep_missing(event: Event, view: Context) -> Iterator[Verdict]:
    connection, told = event.connection, view.memory["R07"]
    role = event.role or "active"
    dreqs = of_type(connection, "DREQ", sender=role)
    if not dreqs:
        return
    tries = sends(connection, dreqs[-1])
    begin = tries[0].message.time - DISORDER
    if any(drep.message.time >= begin for drep in of_type(connection, "DREP", sender=PEER[role])):
        return  # captured before the DREQ that it answers
    retries = max_cm_retries(connection.request)
    exhausted = retries is not None and len(tries) > retries
    if exhausted != (event.kind == "DREQ_EXHAUSTED") or (len(tries) == 1 and retries != 0):
        return
    if not exhausted:
        if connection.id in told or tries[-1].message.time > event.time:
            return  # sent again after all: not the end yet
        told[connection.id] = True  # the newest last
        while len(told) > TOLD_KEPT:
            del told[next(iter(told))]
    last = tries[-1].message.time
    if not view.covered(connection, last, min(event.time, last + response_wait(connection.request, role).nominal)):
        return
    span = last - tries[0].message.time
    peer = connection.peer(role)
    known = heard(view, connection, PEER[role])
    sent = f"{len(tries)} of {retries + 1}" if retries is not None else f"{len(tries)}"
    yield Verdict(
        f"{sent} sends of the {role} side's DREQ over {duration(span)}, and no DREP from {end_name(peer)} was captured."
        + ("" if known else " Nothing of that address was: perhaps only one direction is captured.")
        + _asked_again_at_last(view, connection, role, tries),
        (tries[0], tries[-1]) if len(tries) > 1 else (tries[0],),
        {"sends": len(tries), "allowed": None if retries is None else retries + 1, "span_ns": span},
        confidence="certain" if known and exhausted else "probable" if known else "possible",
        severity="warning" if exhausted and known else "info",
        advice=_released(connection, role) if exhausted else None,
    )


def _asked_again_at_last(view: Context, connection: Connection, role: Role, dreqs: list[Step]) -> str:
    """Whether the sender of the DREQs has asked its peer for a new connection since, and had waited for the retries."""
    request = view.restarts.newest_request(connection.end(role))
    if request is None or request.message.destination != connection.peer(role).address:
        return ""
    after, rest = (request.message.time - dreq.message.time for dreq in (dreqs[0], dreqs[-1]))
    if rest <= 0:
        return ""
    waited = rest * 10 >= response_wait(connection.request, role).minimum * 9
    return f" Its next REQ came {duration(after)} after the first DREQ (frame {request.message.frame})" + (
        ": so long it had waited for the DREP." if waited else "."
    )


def _released(connection: Connection, role: Role) -> str:
    """What holds once all DREQs of `role` went unanswered."""
    name, peer = end_name(connection.end(role)), connection.peer(role)
    if connection.stale_by is not None and connection.stale_by.active.ca_guid == peer.ca_guid:
        return (
            f"{name} has let go: it takes QPN {qpn(peer.qpn)} again. Find out why no DREQ was answered: they went to "
            f"{address(peer.address)}."
        )
    return (
        f"{name} has let go and begins its timewait. {end_name(peer)} may hold its half still: until its consumer or "
        f"its transport retries end it, a REQ with QPN {qpn(connection.end(role).qpn)} will be refused there as stale. "
        "See whether it is alive and gets the DREQs."
    )


def _one_dreq_answered(history: str) -> bool:
    lower = history.lower()
    return first(history) and lower.count("d") == 1 and lower.count("e") == 1


def _late(connection: Connection, step: Step) -> bool:
    """Whether this DREP comes long after what was said before it."""
    steps = connection.steps
    return len(steps) > 1 and step.message.time - steps[-2].message.time > NOTABLE


@rule(
    "R16",
    "drep-late",
    "A DREP came late, and its DREQ had not been repeated",
    severity="info",
    on=("DREP",),
    history=_one_dreq_answered,
    when=_late,
    clause="Linux ib_destroy_cm_id (one DREQ, no wait for the DREP); IBA 12.10.8",
    explanation="The DREP came later than the timeout of the DREQ, which its sender would have repeated by then if it "
    "had still been there: a process that ends or crashes leaves a single DREQ. Its peer got it and let go in the end, "
    "so that nothing stays behind; until the DREP it held its half of the connection.",
    false_positives="Repetitions of the DREQ that are missing from the capture (never more than probable).",
    advice="Nothing to do if the process ended on purpose. What the peer's consumer did until the DREP is its own.",
)
def drep_late(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown" or connection.established is None or connection.request is None:
        return ()
    (dreq,) = of_type(connection, "DREQ")
    wait = response_wait(connection.request, PEER[step.sender]).nominal
    gap = step.message.time - dreq.message.time
    if dreq.sender != PEER[step.sender] or gap <= wait + wait // SLACK:
        return ()
    if not view.covered(connection, dreq.message.time, step.message.time):
        return ()
    end, peer = end_name(connection.end(PEER[step.sender])), end_name(connection.end(step.sender))
    return (
        Verdict(
            f"DREP {duration(gap)} after the only DREQ, which {end} did not repeat after {duration(wait)}: its owner "
            f"had ended, it seems. Until then {peer} held its half of the connection.",
            (dreq, step),
            {"gap_ns": gap, "timeout_ns": wait},
            "probable",
        ),
    )
