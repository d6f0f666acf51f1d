"""X07: whose CM it is, where that changes how a capture reads."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.timers import DEFAULT_MAX_CM_RETRIES, linux
from ibcmtool.connections.timewait import timewait
from ibcmtool.evidence import recognised
from ibcmtool.formatting import duration, end_name, guid
from ibcmtool.model import Connection, End, Event, TimewaitModel
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.values import Duration, Guid

NOBODYS: Final[tuple[TimewaitModel, ...]] = ("auto", "iba")  # timewait models that speak of nobody in particular
OFED, ILLUMOS = "MLNX OFED", "illumos"
SENDS: Final = 1 + DEFAULT_MAX_CM_RETRIES
OFED_BUDGET, UPSTREAM_BUDGET = SENDS * linux(22), SENDS * linux(20)

HABITS: Final = {
    OFED: f"It gives up an unanswered REQ, REP or DREQ after {duration(OFED_BUDGET)} at the earliest, upstream Linux"
    f" after {duration(UPSTREAM_BUDGET)}. Timewait, and the answer to a QPN in timewait (policy relaxed), are those of"
    " Linux.",
    ILLUMOS: "It refuses a REQ whose QPN is in its timewait (policy strict), repeats a DREQ on the scale of the ACK"
    " delay, leaves a DREQ that it does not know unanswered, and says REJ 4 when its retries end.",
}

X07 = rule(
    "X07",
    "other-implementation",
    "A CA runs another CM than upstream Linux",
    severity="info",
    clause="Linux cma.c and cm.c, illumos ibcm: timers and TransactionIDs (connections/implementation.py)",
    explanation="Each CM shows itself by how it numbers its requests and by the timers that it asks for. Reported once"
    " for each CA that is not the usual Linux, because it changes what is normal: how long a peer is waited for, how"
    " long timewait lasts, and whether a REQ whose QPN is in timewait is refused. illumos gets its own timewait model."
    " Also reported where --timewait-model was chosen and what was recognised contradicts it.",
    false_positives="Any Linux whose rdma_cm was built with CM response timeouts of 22 reads as MLNX OFED (hence"
    " probable). A CA whose messages contradict each other (a CM in user space, two machines with one GUID, ids that"
    " an SR-IOV host rewrites) counts as unknown and is not reported, nor is a CA that only a REJ 4 hints at.",
    advice="Judge this CA's waits by its own timers; --timewait-model sets one model for every CA.",
)


@X07.on_event("ENDED", once="subject")
def other_implementation(connection: Connection, event: Event, context: Context) -> Verdicts:
    for end in (connection.active, connection.passive):
        known, chosen, ca = end.implementation, end.timewait, end.ca_guid or 0
        if known is None or not (_unusual(end) or _contradicted(end)):
            continue
        sentence = f"{end_name(end)} (CA {guid(ca)}) runs the CM of {known.name}, by {known.sign}"
        verdict = Verdict(
            f"{sentence}. {HABITS.get(known.name, '')}",
            {"implementation": known.name, "ca_guid": Guid(ca)},
            (recognised(known),),
            steps=[step for step in connection.steps if step.sender == end.role][:1],
            subject=ca,
        )
        if _unusual(end):
            yield verdict
        if chosen is not None and _contradicted(end):
            model: TimewaitModel = "illumos" if known.name == ILLUMOS else "linux"
            fits = timewait(chosen.start, connection.request, connection.reply, end.role, model)
            took, takes = Duration(chosen.likely - chosen.start), Duration(fits.likely - fits.start)
            yield verdict._replace(
                message=f"{sentence}, but --timewait-model {chosen.model} was chosen: its timewait was taken for"
                f" {duration(took.ns)} instead of {duration(takes.ns)}.",
                evidence={**verdict.evidence, "timewait_model": chosen.model, "chosen": took, "recognised": takes},
                advice="Without --timewait-model each CA gets the timewait of its own CM.",
                subject=(ca, "contradicted"),
            )


def _unusual(end: End) -> bool:
    """Whether this is surely not the usual CM."""
    known = end.implementation
    return known is not None and known.name in HABITS and known.confidence != "possible"


def _contradicted(end: End) -> bool:
    """Whether the timewait of this end was computed for another implementation than was recognised."""
    chosen, known = end.timewait, end.implementation
    if chosen is None or known is None or chosen.model in NOBODYS or known.confidence == "possible":
        return False
    return (chosen.model == "illumos") != (known.name == ILLUMOS)
