"""F05, F10, F11: the MAD around the message, and the QP that it comes from (IBA 13.4, 13.5).

What a sender does in all its messages is reported once for its port.
"""

from __future__ import annotations

from typing import Final

from dissectors.recognition import CM_CLASS, CM_CLASS_VERSION, GSI_Q_KEY, GSI_QPN
from ibcmtool.connections.codes import (
    AP_REDIRECTION,
    INVALID_CLASS_VERSION,
    PORT_AND_CM_REDIRECTION,
    SIDR_REDIRECTION,
)
from ibcmtool.evidence import unopposed
from ibcmtool.formatting import listed, qpn
from ibcmtool.messages import Rej
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.steps import sent_by
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.readers import field_values, layer_size, layout

# Not RTU and DREP: a CM that sends these sends others as well.
MESSAGES: Final = ("REQ", "MRA", "REJ", "REP", "DREQ", "LAP", "APR", "SIDR_REQ", "SIDR_REP")

F05 = rule(
    "F05",
    "reserved-bits",
    "Reserved bits are not zero",
    severity="info",
    clause="IBA 13.4 (MAD header), 12.6 (message formats): reserved fields are sent as 0 and ignored",
    explanation="A sender fills reserved fields with 0. Other values come from memory that was not cleared, from a"
    " layout that the receiver does not share, or from a newer edition. Receivers ignore them, so the connection does"
    " not suffer. Reported once for each port and message type.",
    false_positives="Fields that later editions defined (ECE vendor id, SAP Supported) are not counted, nor is the CM"
    " Q_Key that the first editions put into REQ and LAP, nor messages of another class version.",
    advice="Worth a look if the fields next to them look wrong as well: then the layouts differ.",
)

_WITH_OPTIONS: Final = ("REQ", "REP", "SIDR_REP")  # their Attribute Modifier holds the options of ECE
_OLD_Q_KEY_FIELDS: Final = (("REQ", "reserved_24"), ("LAP", "reserved_8"))  # in the first editions
_HEADER_FIELDS: Final = {
    kind: ("class_specific", "reserved_18", *(() if kind in _WITH_OPTIONS else ("attribute_modifier",)))
    for kind in MESSAGES
}
_DATA_FIELDS: Final = {
    kind: tuple(slot.name for slot in layout(f"CM_{kind}") if slot.name.startswith("reserved")) for kind in MESSAGES
}


def _reserved_mask(kind: str) -> tuple[int, int]:
    """How many bytes of a MAD hold all reserved bits of a message type, and the mask of these bits in them."""
    start = layer_size("MAD") * 8
    data = [slot._replace(bit_offset=start + slot.bit_offset) for slot in layout(f"CM_{kind}")]
    named = (*_HEADER_FIELDS[kind], *_DATA_FIELDS[kind])
    slots = [slot for slot in (*layout("MAD"), *data) if slot.name in named]
    size = (max(slot.bit_offset + slot.width for slot in slots) + 7) // 8
    return size, sum(((1 << slot.width) - 1) << (size * 8 - slot.bit_offset - slot.width) for slot in slots)


_RESERVED: Final = {kind: _reserved_mask(kind) for kind in MESSAGES}
_SEND: Final = 3  # method
_BAD_VERSION: Final = 0x0004  # status: class or base version not supported
_USUAL_HEADER: Final = bytes((1, CM_CLASS, CM_CLASS_VERSION, _SEND, 0, 0))  # base version to status
_FROM_QP1: Final = (GSI_QPN.to_bytes(3, "big"), b"")  # or a source that has no headers
_REDIRECTIONS: Final = {
    "REJ": ("reason", PORT_AND_CM_REDIRECTION),
    "APR": ("ap_status", AP_REDIRECTION),
    "SIDR_REP": ("status", SIDR_REDIRECTION),
}


def _unusual(connection: Connection, step: Step) -> bool:
    """Whether a MAD is not like nearly all of them: one look for the rules of this module."""
    message = step.message
    # The last bytes in front of a MAD are the DETH's source QP, unless immediate data stand there.
    if message.headers[-3:] not in _FROM_QP1 or message.mad[: len(_USUAL_HEADER)] != _USUAL_HEADER:
        return True
    size, mask = _RESERVED[message.type]
    return int.from_bytes(message.mad[:size], "big") & mask != 0 or _redirects(step)


def _redirects(step: Step) -> bool:
    known = _REDIRECTIONS.get(step.message.type)
    return known is not None and getattr(step.message.fields, known[0]) == known[1]


@F05.on_step(*MESSAGES, history=first, when=_unusual, needs=("intact",), once="subject")
def reserved_bits(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    kind, mad = message.type, message.mad
    if message.class_version != CM_CLASS_VERSION or len(mad) < _RESERVED[kind][0]:
        return
    header = field_values("MAD", mad)
    values = {name: value for name in _HEADER_FIELDS[kind] if isinstance(value := header[name], int) and value}
    for name in _DATA_FIELDS[kind]:
        value = getattr(message.fields, name)
        if value and not (value == GSI_Q_KEY and (kind, name) in _OLD_Q_KEY_FIELDS):
            values[name] = value
    if values:
        found = listed([f"{_place(name)} is 0x{value:x}" for name, value in values.items()])
        yield Verdict(f"In the {sent_by(step)} {found}.", values, subject=(message.source, kind))


def _place(name: str) -> str:
    if not name.startswith("reserved_"):
        return f"the {name.replace('_', ' ')} of the MAD header"
    where = "MAD header" if name == "reserved_18" else "data"
    return f"the reserved field at byte {name.removeprefix('reserved_')} of the {where}"


F10 = rule(
    "F10",
    "mad-header",
    "A CM message in a MAD of another kind",
    severity="warning",
    clause="IBA 13.4, 12.6 (class version 2, method Send, status 0); Linux mad.c registers for just that",
    explanation="CM messages are sent with class version 2, method Send (3) and status 0. Linux drops a MAD of another"
    " class version or method before its CM sees it, and illumos refuses another version with REJ 31: such a message"
    " is ignored, and its sender repeats it in vain. A wrong status alone does no harm at a Linux peer, no handler"
    " there looks at it: information. Reported once for each port.",
    false_positives="Peers of the first edition (class version 1) among themselves understand each other. The REJ 31"
    " of illumos has status 0x0004 (bad version) rightly and is not reported.",
    advice="Look at the CM that sent it: which edition it speaks, and whether it fills in the header.",
)


@F10.on_step(*MESSAGES, history=first, when=_unusual, needs=("intact",), once="subject")
def mad_header(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    status = int.from_bytes(message.mad[4:6], "big")
    fields, found = message.fields, []
    refused_version = isinstance(fields, Rej) and fields.reason == INVALID_CLASS_VERSION
    if message.class_version != CM_CLASS_VERSION:
        found.append(f"class version {message.class_version} instead of 2")
    if message.method != _SEND:
        found.append(f"method 0x{message.method:02x} instead of 3 (Send)")
    ignored = bool(found)
    if status and not (refused_version and status == _BAD_VERSION):  # illumos says it in both places
        found.append(f"status 0x{status:04x} instead of 0")
    if found:
        yield Verdict(
            f"{sent_by(step)} has {listed(found)}.",
            {"class_version": message.class_version, "method": message.method, "status": status},
            severity=None if ignored else "info",
            subject=(message.source, message.class_version, message.method, status),
        )


F11 = rule(
    "F11",
    "source-qp",
    "A CM message from another QP than QP1",
    severity="warning",
    clause="IBA 13.4, 13.5 (the general services interface is QP1; redirection)",
    explanation="CM messages go from QP1 to QP1 unless a CM has redirected its peers to another QP. A message from"
    " elsewhere comes from a program that builds its own, and the answer goes to QP1, where it is not known. Messages"
    " to other QPs are not looked at. Reported once for each port.",
    false_positives="Not reported for the rest of a capture that shows a redirection; one before its beginning is not"
    " seen.",
    advice="Find out which program on that port sends CM messages beside the kernel's CM.",
)


@F11.on_step(*MESSAGES, history=first, when=_unusual, needs=("intact",), once="port")
def source_qp(connection: Connection, step: Step, context: Context) -> Verdicts:
    around, redirections = envelope(step.message), context.memory["F11"]
    if _redirects(step):
        redirections["seen"] = True
    if around is not None and around.source_qp != GSI_QPN and not redirections:
        yield Verdict(
            f"{sent_by(step)} comes from QP {qpn(around.source_qp)} instead of QP1, and no redirection was captured.",
            {"source_qp": around.source_qp},
            (unopposed("complete"),),
        )
