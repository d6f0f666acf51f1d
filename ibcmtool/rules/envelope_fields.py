"""F: the MAD around the message, and the QP that it comes from (IBA 13.4, 13.5).

What a sender does in all its messages is told once for its port. A packet with a wrong ICRC was dropped by its
receiver, so it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dissectors.recognition import CM_CLASS, CM_CLASS_VERSION, GSI_Q_KEY, GSI_QPN
from dissectors.slots import Slot
from ibcmtool.formatting import address, listed, qpn
from ibcmtool.model import CmMessage, Event
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import news
from ibcmtool.wire.envelope import envelope
from ibcmtool.wire.readers import field_values, layer_size, layout

# Not RTU and DREP: a CM that sends these sends others as well.
MESSAGES = ("REQ", "MRA", "REJ", "REP", "DREQ", "LAP", "APR", "SIDR_REQ", "SIDR_REP")
SEND = 3  # MAD method
OPTIONS = frozenset({"REQ", "REP", "SIDR_REP"})  # their Attribute Modifier holds the options of ECE

_USUAL_HEADER = bytes((1, CM_CLASS, CM_CLASS_VERSION, SEND, 0, 0))  # base version to status
_FROM_QP1 = (GSI_QPN.to_bytes(3, "big"), b"")  # or a source that has no headers
_REDIRECTIONS = {"REJ": ("reason", 24), "APR": ("ap_status", 4), "SIDR_REP": ("status", 4)}
_OLD_Q_KEY_FIELDS = frozenset({("REQ", "reserved_24"), ("LAP", "reserved_8")})  # in the first editions
_HEADER_FIELDS = ("class_specific", "reserved_18")
_DATA_FIELDS = {
    kind: tuple(slot.name for slot in layout(f"CM_{kind}") if slot.name.startswith("reserved")) for kind in MESSAGES
}


def behind(slots: Iterable[Slot], layer: str) -> list[Slot]:
    """The fields of a layer that stands behind another one, counted from where that begins."""
    return [slot._replace(bit_offset=slot.bit_offset + layer_size(layer) * 8) for slot in slots]


def mask_of(slots: Sequence[Slot]) -> tuple[int, int]:
    """How many bytes these fields are in, from the first byte of all on, and a mask of their bits in them."""
    size = (max(slot.bit_offset + slot.width for slot in slots) + 7) // 8
    return size, sum(((1 << slot.width) - 1) << (size * 8 - slot.bit_offset - slot.width) for slot in slots)


def _reserved_mask(kind: str) -> tuple[int, int]:
    """The bytes of a MAD in which all reserved bits of a message type stand, and the mask of these bits."""
    slots = [slot for slot in layout("MAD") if slot.name in _HEADER_FIELDS or _modifier_of(kind, slot.name)]
    slots += [slot for slot in behind(layout(f"CM_{kind}"), "MAD") if slot.name in _DATA_FIELDS[kind]]
    return mask_of(slots)


def _modifier_of(kind: str, name: str) -> bool:
    """Whether this is the Attribute Modifier of a message that has no options to put there."""
    return name == "attribute_modifier" and kind not in OPTIONS


_RESERVED = {kind: _reserved_mask(kind) for kind in MESSAGES}


def _unusual(message: CmMessage) -> bool:
    """Whether a MAD is not like nearly all of them: one look for the rules of this module."""
    mad, kind = message.mad, message.type
    # The last bytes in front of a MAD are the DETH's source QP, unless immediate data stand there.
    if mad[:6] != _USUAL_HEADER or message.headers[-3:] not in _FROM_QP1:
        return True
    size, mask = _RESERVED[kind]
    return int.from_bytes(mad[:size], "big") & mask != 0 or _redirects(message)


def _redirects(message: CmMessage) -> bool:
    known = _REDIRECTIONS.get(message.type)
    return known is not None and getattr(message.fields, known[0]) == known[1]


@rule(
    "F05",
    "reserved-bits",
    "Reserved bits are not zero",
    severity="info",
    on=MESSAGES,
    history=first,
    settings=_unusual,
    clause="IBA 13.4 (MAD header), 12.6 (message formats): reserved fields are sent as 0 and ignored",
    explanation=(
        "A sender fills reserved fields with 0. Other values come from memory that was not cleared, from a layout that"
        " the receiver does not share, or from a newer edition. Receivers ignore them, so the connection does not"
        " suffer. Told once for each port and message type."
    ),
    false_positives=(
        "Fields that later editions defined (ECE vendor id, SAP Supported) are not counted, nor is the CM Q_Key that"
        " the first editions put into REQ and LAP, nor messages of another class version."
    ),
    advice="Worth a look if the fields next to them look wrong as well: then the layouts differ.",
)
def reserved_bits(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False or step.message.class_version != CM_CLASS_VERSION:
        return ()
    message = step.message
    if len(message.mad) < _RESERVED[message.type][0]:
        return ()
    header = field_values("MAD", message.mad)
    values = {
        name: value
        for name, value in header.items()
        if isinstance(value, int) and value and (name in _HEADER_FIELDS or _modifier_of(message.type, name))
    }
    for name in _DATA_FIELDS[message.type]:
        value = getattr(message.fields, name)
        if value and not (value == GSI_Q_KEY and (message.type, name) in _OLD_Q_KEY_FIELDS):
            values[name] = value
    if not values or not news(view, "F05", (message.source, message.type)):
        return ()
    found = listed([f"{_place(name)} is 0x{value:x}" for name, value in values.items()])
    return (Verdict(f"In the {message.type} of {address(message.source)} {found}.", (step,), values),)


def _place(name: str) -> str:
    if not name.startswith("reserved_"):
        return f"the {name.replace('_', ' ')} of the MAD header"
    where, offset = ("MAD header", name[9:]) if name == "reserved_18" else ("data", name[9:])
    return f"the reserved field at byte {offset} of the {where}"


@rule(
    "F10",
    "mad-header",
    "A CM message in a MAD of another kind",
    severity="warning",
    on=MESSAGES,
    history=first,
    settings=_unusual,
    clause="IBA 13.4, 12.6 (class version 2, method Send, status 0); Linux mad.c registers for just that",
    explanation=(
        "CM messages are sent with class version 2, method Send (3) and status 0. Linux does not even see MADs of"
        " another class version or method; illumos refuses another version with REJ 31. So the message is ignored, and"
        " its sender repeats it in vain. Told once for each port."
    ),
    false_positives="Peers of the first edition (class version 1) among themselves understand each other.",
    advice="Look at the CM that sent it: which edition does it speak, does it fill in the header?",
)
def mad_header(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message = step.message
    status = int.from_bytes(message.mad[4:6], "big")
    found = []
    if message.class_version != CM_CLASS_VERSION:
        found.append(f"class version {message.class_version} instead of 2")
    if message.method != SEND:
        found.append(f"method 0x{message.method:02x} instead of 3 (Send)")
    if status:
        found.append(f"status 0x{status:04x} instead of 0")
    if not found or not news(view, "F10", (message.source, message.class_version, message.method, status)):
        return ()
    return (
        Verdict(
            f"{message.type} of {address(message.source)} has {listed(found)}.",
            (step,),
            {"class_version": message.class_version, "method": message.method, "status": status},
        ),
    )


@rule(
    "F11",
    "source-qp",
    "A CM message from another QP than QP1",
    severity="warning",
    on=MESSAGES,
    history=first,
    settings=_unusual,
    clause="IBA 13.4, 13.5 (the general services interface is QP1; redirection)",
    explanation=(
        "CM messages go from QP1 to QP1 unless a CM has redirected its peers to another QP. A message from elsewhere"
        " comes from a program that builds its own, and the answer goes to QP1, where it is not known. Messages to"
        " other QPs are not looked at. Told once for each port."
    ),
    false_positives=(
        "Silent for the rest of a capture that shows a redirection; one before its beginning is not seen."
    ),
    advice="Find out which program on that port sends CM messages beside the kernel's CM.",
)
def source_qp(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message, told = step.message, view.memory["F11"]
    if _redirects(message):
        told["redirection"] = True
    around = envelope(message)
    if around is None or around.source_qp == GSI_QPN or "redirection" in told:
        return ()
    if not news(view, "F11", message.source):
        return ()
    return (
        Verdict(
            f"{message.type} of {address(message.source)} comes from QP {qpn(around.source_qp)} instead of QP1, and no"
            " redirection was captured.",
            (step,),
            {"source_qp": around.source_qp},
            "probable",
        ),
    )
