"""H13-H17: what a REJ says: its reason, the information that comes with that, the ids in it (IBA 12.6.7)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import LAST_REASON, PRIMARY_GID_REJECTED, UNASSIGNED_REASON
from ibcmtool.evidence import weakened
from ibcmtool.formatting import address, comm_id, guid
from ibcmtool.messages import Rej, Rep, Req
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, rej_reason, timed_out
from ibcmtool.rules.steps import fields_of, of_type
from ibcmtool.values import CommId, Guid, known

GUID_LENGTH: Final = 8
MAXIMUM_INFO_LENGTH: Final = 72
# Bytes of additional information that each reason needs: GID, LID, SL, traffic class, hop limit, rate, MTU, flow
# label, ClassPortInfo. What illumos insists on before it reads any; reason 4 has a rule of its own (H13).
INFO_LENGTHS: Final = {
    **dict.fromkeys((12, 18, 25), 16),
    **dict.fromkeys((13, 19), 2),
    **dict.fromkeys((14, 15, 16, 17, 20, 21, 22, 23, 26), 1),
    **dict.fromkeys((32, 33), 3),
    24: 72,
}

H13 = rule(
    "H13",
    "rej-timeout-no-guid",
    "A REJ for timeout does not say whose it is",
    severity="error",
    clause="IBA table REJ, note on reason 4 (Timeout): the receiver uses the CA GUID in the additional information",
    explanation="A side that gives up may not know its peer's Communication ID, so a REJ with reason 4 carries its CA"
    " GUID as additional information, and the receiver finds the connection by it. Without the GUID the receiver keeps"
    " a half-open connection until its own timers end.",
    false_positives="None known; not reported when the capture cut the message before the additional information.",
    advice="A fault of the CM that sent it. The peer's consumer has to wait for its own timeout.",
)


@H13.on_step("REJ", history=first, when=timed_out)
def rej_timeout_no_guid(connection: Connection, step: Step, context: Context) -> Verdicts:
    length, named = fields_of(step, Rej).reject_info_length, _named_guid(step)
    if length is None or (length >= GUID_LENGTH and named != 0):
        return
    what = f"{length} bytes of additional information, 8 are needed" if length < GUID_LENGTH else "GUID 0"
    yield Verdict(
        f"REJ 4 (timeout) with {what}: the receiver cannot tell whose connection it ends.",
        {"reject_info_length": length, "guid": known(Guid, named)},
    )


def _named_guid(step: Step) -> int | None:
    """The CA GUID in the additional information; None where the capture cut it off."""
    info = fields_of(step, Rej).additional_reject_info
    return None if info is None or len(info) < GUID_LENGTH else int.from_bytes(info[:GUID_LENGTH], "big")


H14 = rule(
    "H14",
    "rej-timeout-foreign-guid",
    "A REJ for timeout names another CA than its sender's",
    severity="error",
    clause="IBA table REJ, note on reason 4; Linux cm_acquire_rejected_id",
    explanation="The CA GUID in a REJ with reason 4 must be the one that the sender's REQ or REP carried: the receiver"
    " looks the connection up by it. With another GUID the REJ finds nothing, or ends the wrong connection.",
    false_positives="Proxies for virtual functions may put one GUID into the REQ and another into the REJ (mlx4"
    " SR-IOV): then the fault is the proxy's. Not reported where the sender's GUID is unknown or 0, and for a guessed"
    " connection.",
    advice="Compare the GUIDs: two CAs or ports of one host, or an SR-IOV proxy that rewrites only some messages.",
)


@H14.on_step("REJ", history=first, when=timed_out, needs=("sender",))
def rej_timeout_foreign_guid(connection: Connection, step: Step, context: Context) -> Verdicts:
    named, length = _named_guid(step), fields_of(step, Rej).reject_info_length
    source = next(iter(of_type(connection, "REQ" if step.sender == "active" else "REP")), None)
    if not named or source is None or length is None or length < GUID_LENGTH:
        return
    fields = source.message.fields
    own = fields.local_ca_guid if isinstance(fields, (Req, Rep)) else None
    if not own or own == named:
        return
    yield Verdict(
        f"REJ 4 names CA GUID {guid(named)}; the {source.message.type} of the same side carried {guid(own)}.",
        {"guid": Guid(named), "known_guid": Guid(own)},
        () if source.message.source.matches(step.message.source) else (weakened("same machine"),),
        steps=(source, step),
    )


H15 = rule(
    "H15",
    "rej-info-length",
    "A REJ says less than its reason promises",
    severity="warning",
    clause="IBA 12.6.7.2 (additional reject information by reason); illumos ibcm reads none that is shorter",
    explanation="Several reasons come with what the rejecting side would accept: a GID, LID, MTU, rate, or a place to"
    " connect to. A Reject Info Length below what the reason needs, or above the 72 bytes that there are, leaves the"
    " requester without it: it cannot correct its REQ and tries the same again.",
    false_positives="Linux sends reason 12 without a GID when it cannot read its GID table (information only). A newer"
    " edition of the specification may define other lengths.",
    advice="Correct the refused path value by hand (it is in the REQ); the REJ will not tell the right one.",
)


@H15.on_step("REJ", history=first)
def rej_info_length(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields = fields_of(step, Rej)
    length, reason = fields.reject_info_length, fields.reason
    if length is None or reason is None:
        return
    needed = INFO_LENGTHS.get(reason, 0)
    if needed <= length <= MAXIMUM_INFO_LENGTH:
        return
    limit = f"reason {reason} needs {needed}" if length < needed else f"the field holds {MAXIMUM_INFO_LENGTH}"
    yield Verdict(
        f"REJ with reason {reason} gives {length} bytes of additional information; {limit}.",
        {"reason": reason, "reject_info_length": length, "needed": needed},
        severity="info" if reason == PRIMARY_GID_REJECTED and length == 0 else None,
    )


H16 = rule(
    "H16",
    "rej-reserved-reason",
    "A REJ with a reason that is not defined",
    severity="warning",
    clause="IBA 12.6.7.2 (reasons 1-33 and 35)",
    explanation="The reason of a REJ is a number from a fixed table; 0, 34 and everything above 35 are not in it. The"
    " requester cannot tell what to change, and its consumer sees a number without a name. Consumers have reason 28"
    " for what they want to say, with codes of their own in the additional information or the private data.",
    false_positives="A newer edition of the specification may define more reasons.",
    advice="Look at the consumer or CM that sent it: it may have put an error number of its own into the reason.",
)


def _reserved(connection: Connection, step: Step) -> bool:
    """Whether the specification has no meaning for this reason."""
    reason = rej_reason(step)
    return reason is not None and (reason in (0, UNASSIGNED_REASON) or reason > LAST_REASON)


@H16.on_step("REJ", history=first, when=_reserved)
def rej_reserved_reason(connection: Connection, step: Step, context: Context) -> Verdicts:
    reason = rej_reason(step)
    yield Verdict(
        f"REJ of {address(step.message.source)} with reason {reason}, which is not defined.",
        {"reason": reason},
    )


H17 = rule(
    "H17",
    "rej-ece-leak",
    "The Local Communication ID of a REJ is the REQ's Vendor ID",
    severity="info",
    clause="Linux cm_issue_rej copies bytes 4-7 of the refused message",
    explanation="A Linux CM that refuses a REQ without keeping any state of it (reason 8, 10 and others) copies four"
    " bytes of the REQ into the REJ. A REQ with enhanced connection establishment (ECE) has its Vendor ID there, so"
    " this Local Communication ID names nothing, and no later message will have it. Reported once for each address.",
    false_positives="None known: a real Communication ID equals the Vendor ID once in four billion.",
    advice="Nothing to do; do not search the capture for this id.",
)


def _leaking(connection: Connection, step: Step) -> bool:
    """Whether this REJ has the Vendor ID of the REQ as its Local Communication ID."""
    request = connection.request
    if not isinstance(request, Req) or step.sender != "passive":
        return False
    return bool(request.ece_vendor_id) and fields_of(step, Rej).local_comm_id == request.ece_vendor_id


@H17.on_step("REJ", history=first, when=_leaking, once="port")
def rej_ece_leak(connection: Connection, step: Step, context: Context) -> Verdicts:
    vendor = fields_of(step, Rej).local_comm_id
    yield Verdict(
        f"REJ of {address(step.message.source)} has Local Communication ID {comm_id(vendor)}: the Vendor ID of the REQ,"
        " not an id of its sender.",
        {"local_comm_id": known(CommId, vendor), "reason": rej_reason(step)},
    )
