"""F12-F14: what only some peers understand: ECE options, the IP CM header, service ids (IBA annexes A3, A11)."""

from __future__ import annotations

from typing import Final

from ibcmtool import services
from ibcmtool.connections.codes import CONSUMER_REJECT
from ibcmtool.evidence import unopposed, weakened
from ibcmtool.formatting import end_name, service_id
from ibcmtool.messages import Rej, Rep, Req, SidrRep, SidrReq
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.steps import sent_by
from ibcmtool.values import ServiceId

F12 = rule(
    "F12",
    "ece-one-sided",
    "Connection establishment options (ECE) from one side only",
    severity="warning",
    clause="IBA, Enhanced Connection Establishment; Linux cm.c since 5.8",
    explanation="With ECE a REQ names a vendor and options in its Attribute Modifier, and the REP answers with those"
    " that it accepts. A REP without a vendor declines: the connection works without options (information). Options"
    " without a vendor, or a REP with a vendor that nobody asked for, mean that one CM fills the fields with something"
    " else. Reported once for each port.",
    false_positives="Kernels before 5.8 and consumers inside the kernel know no ECE: their REPs decline.",
    advice="For a declined offer nothing; else look at the CM that filled the fields in.",
)

NO_OPTIONS: Final = bytes(4)


def _options(step: Step) -> bytes:
    """The Attribute Modifier, where ECE has its options."""
    return step.message.mad[20:24]


def _one_sided_options(connection: Connection, step: Step) -> bool:
    request, fields = connection.request, step.message.fields
    if isinstance(fields, Req):
        return fields.ece_vendor_id == 0 and _options(step) != NO_OPTIONS
    if not (isinstance(request, Req) and isinstance(fields, Rep)):
        return False
    offered = request.ece_vendor_id
    if offered is None or fields.ece_vendor_id_low is None:
        return False
    if fields.ece_vendor_id_low or fields.ece_vendor_id_middle or fields.ece_vendor_id_high:
        return not offered
    return offered != 0 or _options(step) != NO_OPTIONS


@F12.on_step("REQ", "REP", history=first, when=_one_sided_options, needs=("intact",), once="subject")
def ece_one_sided(connection: Connection, step: Step, context: Context) -> Verdicts:
    message, request = step.message, connection.request
    options, fields = int.from_bytes(_options(step), "big"), message.fields
    vendor = asked = request.ece_vendor_id if isinstance(request, Req) else None
    if isinstance(fields, Rep):
        high, middle, low = fields.ece_vendor_id_high, fields.ece_vendor_id_middle, fields.ece_vendor_id_low
        vendor = (high or 0) << 16 | (middle or 0) << 8 | (low or 0)
    declined = bool(asked) and not vendor and not options
    if declined:
        sentence = f"The REQ offers options of vendor 0x{asked:06x}; {end_name(connection.passive)} takes none."
    elif vendor:
        sentence = f"{sent_by(step)} has options of vendor 0x{vendor:06x}; the REQ offered none."
    else:
        sentence = f"{sent_by(step)} has options 0x{options:08x} without a vendor."
    yield Verdict(
        sentence,
        {"vendor_id": vendor, "options": options, "offered_vendor_id": asked},
        severity="info" if declined else None,
        subject=(message.source, message.type, declined),
    )


F13 = rule(
    "F13",
    "ip-cm-header",
    "The private data of a request are no valid IP CM header",
    severity="warning",
    clause="IBA annex A11 (RDMA IP CM Service); Linux cma_save_ip_info",
    explanation="A request for an RDMA IP CM service begins its private data with 36 bytes: version 0, IP version 4 or"
    " 6, the source port and two addresses. Linux refuses another version with REJ 28 and no private data of its own:"
    " reported when such a refusal comes. An IPv4 address whose first twelve bytes are not 0 is information, reported"
    " once for each port: some receivers compare all sixteen.",
    false_positives="A listener on an AF_IB address expects no header: not reported without a refusal, and where the"
    " first two bytes are 0, as consumers there keep them. A refusal may have another reason (possible only).",
    advice="Look at the connecting consumer: it uses an RDMA IP CM service id without the header that goes with it.",
)

IP_CM, AF_IB = 0x0000000001, 0x3F  # upper 40 bits of an RDMA IP CM service id; Linux's port space without the header
IP_CM_HEADER: Final = 36  # bytes
IPV4_PADDING: Final = bytes(12)


def _nameless_header(connection: Connection) -> bytes | None:
    """The private data where an IP CM header should be that gives names to both ends, and does not."""
    request, number = connection.request, connection.service_id
    if connection.passive.name or request is None or number is None:
        return None
    data: bytes | None = request.private_data
    if number >> 24 != IP_CM or number >> 16 & 0xFF == AF_IB or data is None or len(data) < IP_CM_HEADER:
        return None
    return data


def _versions(connection: Connection) -> dict[str, int]:
    data = _nameless_header(connection) or bytes(2)
    return {"version": data[0], "ip_version": data[1] >> 4}


def _odd_padding(connection: Connection, step: Step) -> bool:
    """Whether an IPv4 address has something in front of it."""
    data = _nameless_header(connection)
    if data is None or data[0] or data[1] >> 4 != 4:
        return False
    return data[4:16] != IPV4_PADDING or data[20:32] != IPV4_PADDING


@F13.on_step("REQ", "SIDR_REQ", history=first, when=_odd_padding, needs=("intact",), once="port")
def odd_address(connection: Connection, step: Step, context: Context) -> Verdicts:
    yield Verdict(
        f"The IP CM header of the {step.message.type} has an IPv4 address whose first twelve bytes are not 0.",
        _versions(connection),
        (weakened("meaning"),),
        severity="info",
    )


def _refuses_header(connection: Connection, step: Step) -> bool:
    """Whether the passive side refuses, without a word of its consumer, a request with another version."""
    data, fields = _nameless_header(connection), step.message.fields
    if data is None or (data[0] == 0 and data[1] >> 4 in (0, 4, 6)) or step.sender != "passive":
        return False
    if isinstance(fields, Rej):
        return fields.reason == CONSUMER_REJECT and not any(fields.private_data or b"")
    return isinstance(fields, SidrRep) and bool(fields.status) and not any(fields.private_data or b"")


@F13.on_step("REJ", "SIDR_REP", history=first, when=_refuses_header, needs=("intact",))
def header_refused(connection: Connection, step: Step, context: Context) -> Verdicts:
    request, versions = connection.steps[0], _versions(connection)
    version = versions["version"]
    wrong = f"version 0x{version:02x}" if version else f"IP version {versions['ip_version']}"
    yield Verdict(
        f"The {request.message.type} for {services.name(connection.service_id or 0)} has {wrong} in its IP CM header;"
        f" {end_name(connection.passive)} refused it, as Linux does for that reason.",
        versions,
        (weakened("meaning"),),
        steps=(request, step),
    )


F14 = rule(
    "F14",
    "unknown-service-id",
    "A service id of no class that we know",
    severity="info",
    clause="IBA annexes A3 (the first byte of a service id says who assigned it) and A11",
    explanation="The first byte of a service id is 0 (IBTA), 1 (IETF) or 2 (locally administered); Linux adds 0x10 for"
    " IPoIB connected mode, and SRP targets take their GUID. Another id is a private one of some application, or its"
    " bytes are in the wrong order, which is said where it shows. Reported once for each id.",
    false_positives="Private ids are harmless. An id with the vendor part of a GUID in the REQ is taken for SRP's.",
    advice="If the target does not know the service (REJ 8), compare the id with the one that it listens on.",
)


def _unknown_id(connection: Connection, step: Step) -> int | None:
    """The service id that a request names, if no class that we know has it."""
    fields = step.message.fields
    number = fields.service_id if isinstance(fields, (Req, SidrReq)) else None
    if number is None or number >> 56 <= 2 or not services.name(number).startswith("0x"):
        return None
    return None if isinstance(fields, Req) and _of_a_guid(number, fields) else number


@F14.on_step("REQ", "SIDR_REQ", history=first, when=_unknown_id, needs=("intact",), once="subject")
def unknown_service_id(connection: Connection, step: Step, context: Context) -> Verdicts:
    number = _unknown_id(connection, step) or 0
    turned = int.from_bytes(number.to_bytes(8, "little"), "big")
    swapped = turned >> 24 == IP_CM
    hint = f" With its bytes turned round it is {services.name(turned)}." if swapped else ""
    yield Verdict(
        f"{step.message.type} for service id {service_id(number)}, of no known class.{hint}",
        {"service_id": ServiceId(number)},
        (unopposed("meaning") if swapped else weakened("meaning"),),
        subject=number,
    )


def _of_a_guid(number: int, request: Req) -> bool:
    """Whether the id has the vendor part of a GUID or interface id in the REQ (whose universal bit may be flipped)."""
    gids = (request.primary_local_gid, request.primary_remote_gid)
    guids = [request.local_ca_guid or 0, *(int.from_bytes(gid[8:], "big") for gid in gids if gid is not None)]
    return any((number ^ known) >> 40 & 0xFDFFFF == 0 for known in guids)
