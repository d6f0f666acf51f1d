"""H25: a REQ that was refused for its version, and came again with a lower one (RDS: rds_rdma_cm_event_handler_cmn)."""

from __future__ import annotations

from ibcmtool import services
from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.evidence import unopposed
from ibcmtool.formatting import duration, end_name
from ibcmtool.model import Connection, Event, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import matches, rej_reason
from ibcmtool.rules.steps import between
from ibcmtool.values import Duration

H25 = rule(
    "H25",
    "version-step",
    "A REQ was refused for its version, and came again with a lower one",
    severity="info",
    clause="Linux net/rds (RDS_RDMA_REJ_INCOMPAT); no clause of the specification: consumers negotiate as they like",
    explanation="RDS tells its protocol version in the private data of the REQ. A peer that does not know it refuses"
    " with REJ 28, and the requester asks again with the next lower one (4.1, then 3.1). So versions are negotiated:"
    " the refused attempt is no failure.",
    false_positives="RDS refuses in the same words for other reasons (it is connected to this peer already, or is"
    " connecting): the lower version tells that this was not one of them. Reported only if the newest REQ to the"
    " same service is the one with the lower version.",
    advice="Nothing to do. With the same version of RDS on both hosts there is one attempt less.",
)


@H25.on_event("ENDED", history=matches(r"Q(\^Q)*j"))
def version_step(connection: Connection, event: Event, context: Context) -> Verdicts:
    reject = connection.reject
    if reject is None or rej_reason(reject) != CONSUMER_REJECT:
        return
    refused, request = connection.steps[0], context.restarts.next_request(connection, "active", reject.message.time)
    before, after = (_version(connection, step) for step in (refused, request))
    if request is not None and before is not None and after is not None and after < before:
        versions = [".".join(map(str, version)) for version in (before, after)]
        yield Verdict(
            f"{services.connection_service(connection)}: {end_name(connection.passive)} refused version {versions[0]},"
            f" and {end_name(connection.active)} asked again {duration(between(reject, request))} later with version"
            f" {versions[1]} (frame {request.message.frame}). So versions are negotiated: no failure.",
            {"versions": versions, "after": Duration(between(reject, request))},
            (unopposed("meaning"),),
            steps=(refused, reject, request),
        )


def _version(connection: Connection, step: Step | None) -> tuple[int, ...] | None:
    """The protocol version that a REQ to the connection's service names in its private data."""
    said = dict(services.private_data(connection, step.message) or ()) if step is not None else {}
    parts = said.get("version", "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None
