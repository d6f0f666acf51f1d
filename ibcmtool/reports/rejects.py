"""Why a connection was refused, in one sentence: the reason, and what it means for the reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dissectors.cm_codes import SIDR_STATUSES
from ibcmtool import formatting, services
from ibcmtool.analysis import Finding
from ibcmtool.connections.codes import CONSUMER_REJECT, INVALID_SERVICE_ID, STALE_CONNECTION, TIMEOUT
from ibcmtool.connections.matching import rej_reason
from ibcmtool.messages import Rej, SidrRep
from ibcmtool.model import Connection, Step
from ibcmtool.reports import message_summary
from ibcmtool.views.tally import refusing_step

PROGRAM_ENDED, VERSION_STEP = "H24", "H25"
NEGOTIATED = "its requester came again with a lower version: a negotiation, no failure"
ENDED = "the program that served it ended"
STALE = "the receiver still holds a connection with this QPN"
NO_REASON = "the application, or the kernel for it, refused and gave no reason"


def reason(conn: Connection) -> int | None:
    """The reason code of the REJ that ended the connection; None without one, or where the capture cut it off."""
    return None if conn.reject is None else rej_reason(conn.reject.message)


def named(code: int | None) -> str:
    """For counts and columns: "8 invalid service ID"; empty for None."""
    return "" if code is None else f"{code} {message_summary.reject_reason(code)}"


def status_named(status: int | None) -> str:
    """ "SIDR status 1 service ID not supported"."""
    return "SIDR status unknown" if status is None else f"SIDR status {status} {SIDR_STATUSES.get(status, 'unknown')}"


def sentence(conn: Connection, several_files: bool, found: Sequence[Finding] = ()) -> str:
    """ "REJ 8 invalid service ID by the passive side, frame 2: nobody listens for ..."; empty without a refusal.

    found: the findings that concern it.
    """
    step = refusing_step(conn)
    code = reason(conn)
    if step is None or (conn.outcome != "rejected" if conn.sidr else code is None):
        return ""
    message, fields, said = step.message, step.message.fields, meaning(conn, found)
    frame = formatting.frames([(message.file, message.frame)], several_files)
    by = "" if step.sender == "unknown" else f" by the {step.sender} side"
    name = status_named(fields.status) if isinstance(fields, SidrRep) else f"REJ {named(code)}{by}"
    return f"{name}, {frame}" + (f": {said}" if said else "")


def meaning(conn: Connection, found: Sequence[Finding] = ()) -> str:
    """What the refusal of a connection says beyond its reason or status, and who it is that says so; or ""."""
    step, code = refusing_step(conn), reason(conn)
    if step is None:
        return ""
    if code == TIMEOUT:
        return "its sender gave up waiting"
    if conn.crossing is not None and conn.gave_way():
        return f"its sender had called at the same time, and that came up (connection {conn.crossing.id})"
    if code == INVALID_SERVICE_ID:
        return f"nobody listens for {services.connection_service(conn)}"
    if code == STALE_CONNECTION:
        return STALE
    if any(finding.code == VERSION_STEP for finding in found):
        return NEGOTIATED
    said = services.refusal_words(conn, step.message)
    if said or code != CONSUMER_REJECT:
        return said
    return ENDED if by_ended_program(found) else _without_words(conn, step)


def _without_words(conn: Connection, step: Step) -> str:
    """The same for a REJ 28 whose private data are empty, or were cut off."""
    fields = step.message.fields
    if isinstance(fields, Rej) and fields.private_data is None:
        return ""
    if step.sender != "passive":
        return NO_REASON
    if "p" in conn.history:
        return "after its REP: its program closed the connection, or ended, before it was established"
    return without_words(services.connection_service(conn))


def by_ended_program(found: Iterable[Finding]) -> bool:
    """Whether one of the findings that concern a connection says that its server's program ended."""
    return any(finding.code == PROGRAM_ENDED for finding in found)


def without_words(service: str) -> str:
    """Who refused without giving a reason, as far as that can be told."""
    protocol = services.refuses_with_words(service)
    if not protocol:
        return NO_REASON
    return (
        f"no reason, which {protocol} always gives: the kernel refused for it, or it ended (`ibcmtool explain rej:28`)"
    )
