"""Why a connection was refused, in one sentence: the reason, and what it means for the reader."""

from __future__ import annotations

from ibcmtool import formatting, services
from ibcmtool.connections.codes import CONSUMER_REJECT, INVALID_SERVICE_ID, STALE_CONNECTION, TIMEOUT
from ibcmtool.connections.matching import rej_reason
from ibcmtool.model import Connection
from ibcmtool.reports import message_summary

STALE = "the receiver still holds a connection with this QPN"
NO_REASON = "the application, or the kernel for it, refused and gave no reason"


def reason(conn: Connection) -> int | None:
    """The reason code of the REJ that ended the connection; None without one, or where the capture cut it off."""
    return None if conn.reject is None else rej_reason(conn.reject.message)


def named(code: int | None) -> str:
    """For counts and columns: "8 invalid service ID"; empty for None."""
    return "" if code is None else f"{code} {message_summary.reject_reason(code)}"


def sentence(conn: Connection, several_files: bool) -> str:
    """ "REJ 8 invalid service ID by the passive side, frame 2: nobody listens for ..."; empty without a REJ."""
    code, step = reason(conn), conn.reject
    if code is None or step is None:
        return ""
    message = step.message
    by = "" if step.sender == "unknown" else f" by the {step.sender} side"
    frame = formatting.frames([(message.file, message.frame)], several_files)
    meaning = _meaning(conn, code)
    return f"REJ {named(code)}{by}, {frame}" + (f": {meaning}" if meaning else "")


def _meaning(conn: Connection, code: int) -> str:
    assert conn.reject is not None
    if conn.crossing is not None and conn.gave_way():
        return f"its sender had called at the same time, and that came up (connection {conn.crossing.id})"
    said = message_summary.line(list(services.private_data(conn, conn.reject.message) or ()))
    if said:
        return said
    if code == INVALID_SERVICE_ID:
        return f"nobody listens for {services.connection_service(conn)}"
    return {TIMEOUT: "its sender gave up waiting", STALE_CONNECTION: STALE, CONSUMER_REJECT: NO_REASON}.get(code, "")
