"""H: what an MRA or a REJ says about itself, held against what it answers (IBA 12.6.6, 12.6.7)."""

from __future__ import annotations

from collections.abc import Iterator

from ibcmtool.formatting import guid
from ibcmtool.model import PEER, Connection, Event, Role, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first, timed_out
from ibcmtool.rules.context import Context
from ibcmtool.rules.steps import of_type

MRA_OF_REQ, MRA_OF_REP, MRA_OF_LAP = 0, 1, 2
MRAED = {MRA_OF_REQ: "REQ", MRA_OF_REP: "REP", MRA_OF_LAP: "LAP"}

GUID_LENGTH = 8
MAXIMUM_INFO_LENGTH = 72
# Bytes of additional information that each reason needs: GID, LID, SL, traffic class, hop limit, rate, MTU, flow
# label, ClassPortInfo. What illumos insists on before it reads any; reason 4 has a rule of its own (H13).
INFO_LENGTHS = {
    **dict.fromkeys((12, 18, 25), 16),
    **dict.fromkeys((13, 19), 2),
    **dict.fromkeys((14, 15, 16, 17, 20, 21, 22, 23, 26), 1),
    **dict.fromkeys((32, 33), 3),
    24: 72,
}
INVALID_GID = 12


@rule(
    "H09",
    "mra-wrong-message",
    "An MRA acknowledges a message that its sender never got",
    severity="error",
    on=("MRA",),
    history=first,
    clause="IBA 12.6.6 (Message MRAed); Linux cm_mra_handler checks the state",
    explanation=(
        "An MRA buys time for the answer to a message that was received: the passive side sends it for a REQ (0), the"
        " active side for a REP (1), either for a LAP (2); 3 is undefined. One about another message is ignored, so it"
        " buys no time and the peer goes on repeating."
    ),
    false_positives=(
        "Silent when the REQ was not captured and the sender's role is a guess. A LAP that the capture dropped makes"
        " an MRA for it look wrong (then probable)."
    ),
    advice="Look at the CM that sent it: the Message MRAed field does not fit its role.",
)
def mra_wrong_message(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    mraed = step.message.fields.message_mraed
    if mraed is None:
        return
    evidence = {"message_mraed": mraed, "sender": step.sender}
    if mraed not in MRAED:
        yield Verdict(f"MRA with Message MRAed {mraed}, which is undefined.", (step,), evidence)
    elif connection.request is None:
        return
    elif (mraed, step.sender) in ((MRA_OF_REQ, "active"), (MRA_OF_REP, "passive")):
        yield Verdict(
            f"MRA from the {step.sender} side acknowledges a {MRAED[mraed]} ({mraed}), a message that this side sends"
            " itself.",
            (step,),
            evidence,
        )
    elif mraed == MRA_OF_LAP and not of_type(connection, "LAP", sender=PEER[step.sender]):
        yield Verdict(
            f"MRA from the {step.sender} side acknowledges a LAP, but no LAP from the other side was captured.",
            (step,),
            evidence,
            confidence="probable",
        )


@rule(
    "H13",
    "rej-timeout-no-guid",
    "A REJ for timeout does not say whose it is",
    severity="error",
    on=("REJ",),
    history=first,
    when=timed_out,
    clause="IBA table REJ, note on reason 4 (Timeout): the receiver uses the CA GUID in the additional information",
    explanation=(
        "A side that gives up may not know its peer's Communication ID, so a REJ with reason 4 carries its CA GUID as"
        " additional information, and the receiver finds the connection by it. Without the GUID the receiver keeps a"
        " half-open connection until its own timers end."
    ),
    false_positives="None known; silent when the capture cut the message before the additional information.",
    advice="A fault of the CM that sent it. The peer's consumer has to wait for its own timeout.",
)
def rej_timeout_no_guid(event: Event, view: Context) -> Iterator[Verdict]:
    step = event.step
    if step is None:
        return
    length, named = step.message.fields.reject_info_length, _named_guid(step)
    if length is None or (length >= GUID_LENGTH and named != 0):
        return
    what = f"{length} bytes of additional information, 8 are needed" if length < GUID_LENGTH else "GUID 0"
    yield Verdict(
        f"REJ 4 (timeout) with {what}: the receiver cannot tell whose connection it ends.",
        (step,),
        {"reject_info_length": length, "guid": named},
    )


@rule(
    "H14",
    "rej-timeout-foreign-guid",
    "A REJ for timeout names another CA than its sender's",
    severity="error",
    on=("REJ",),
    history=first,
    when=timed_out,
    clause="IBA table REJ, note on reason 4; Linux cm_acquire_rejected_id",
    explanation=(
        "The CA GUID in a REJ with reason 4 must be the one that the sender's REQ or REP carried: the receiver looks"
        " the connection up by it. With another GUID the REJ finds nothing, or ends the wrong connection."
    ),
    false_positives=(
        "Proxies for virtual functions may put one GUID into the REQ and another into the REJ (mlx4 SR-IOV): then the"
        " fault is the proxy's. Silent where the sender's GUID is unknown or 0, and for a guessed connection."
    ),
    advice="Compare the GUIDs: two CAs or ports of one host, or an SR-IOV proxy that rewrites only some messages.",
)
def rej_timeout_foreign_guid(event: Event, view: Context) -> Iterator[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.sender == "unknown":
        return
    named, source = _named_guid(step), _guid_source(connection, step.sender)
    length = step.message.fields.reject_info_length
    if not named or source is None or length is None or length < GUID_LENGTH:
        return
    known = source.message.fields.local_ca_guid
    if not known or known == named:
        return
    yield Verdict(
        f"REJ 4 names CA GUID {guid(named)}; the {source.message.type} of the same side carried {guid(known)}.",
        (source, step),
        {"guid": named, "known_guid": known},
        confidence="certain" if source.message.source.matches(step.message.source) else "possible",
    )


@rule(
    "H15",
    "rej-info-length",
    "A REJ says less than its reason promises",
    severity="warning",
    on=("REJ",),
    history=first,
    clause="IBA 12.6.7.2 (additional reject information by reason); illumos ibcm reads none that is shorter",
    explanation=(
        "Several reasons come with what the rejecting side would accept: a GID, LID, MTU, rate, or a place to connect"
        " to. A Reject Info Length below what the reason needs, or above the 72 bytes that there are, leaves the"
        " requester without it: it cannot correct its REQ and tries the same again."
    ),
    false_positives=(
        "Linux sends reason 12 without a GID when it cannot read its GID table (information only). A newer edition of"
        " the specification may define other lengths."
    ),
    advice="Correct the refused path value by hand (it is in the REQ); the REJ will not tell the right one.",
)
def rej_info_length(event: Event, view: Context) -> Iterator[Verdict]:
    step = event.step
    if step is None:
        return
    fields = step.message.fields
    length, reason = fields.reject_info_length, fields.reason
    if length is None or reason is None:
        return
    needed = INFO_LENGTHS.get(reason, 0)
    if needed <= length <= MAXIMUM_INFO_LENGTH:
        return
    limit = f"reason {reason} needs {needed}" if length < needed else f"the field holds {MAXIMUM_INFO_LENGTH}"
    yield Verdict(
        f"REJ with reason {reason} gives {length} bytes of additional information; {limit}.",
        (step,),
        {"reason": reason, "reject_info_length": length, "needed": needed},
        severity="info" if reason == INVALID_GID and length == 0 else None,
    )


def _named_guid(step: Step) -> int | None:
    """The CA GUID in the additional information; None where the capture cut it off."""
    info = step.message.fields.additional_reject_info
    return None if info is None or len(info) < GUID_LENGTH else int.from_bytes(info[:GUID_LENGTH], "big")


def _guid_source(connection: Connection, sender: Role) -> Step | None:
    """The message that told this end's CA GUID; None if it was not captured."""
    carrier = "REQ" if sender == "active" else "REP"
    return next((step for step in connection.steps if step.message.type == carrier), None)
