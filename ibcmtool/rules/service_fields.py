"""F: what only some peers understand: ECE options, the IP CM header, service ids (IBA annexes A3, A11).

A packet with a wrong ICRC was dropped by its receiver, so it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibcmtool import services
from ibcmtool.formatting import address, end_name, service_id
from ibcmtool.model import CmMessage, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import news

CONSUMER_REJECT = 28  # REJ reason
IP_CM, AF_IB = 0x0000000001, 0x3F  # upper 40 bits of an RDMA IP CM service id; Linux's port space without the header
IP_CM_HEADER = 36  # bytes
IPV4_PADDING = bytes(12)
NO_OPTIONS = bytes(4)


def _options_alone(message: CmMessage) -> bool:
    """Whether a REQ has options without a vendor; a REP may be wrong for its REQ whatever it has."""
    return message.type == "REP" or (message.fields.ece_vendor_id == 0 and message.mad[20:24] != NO_OPTIONS)


def _one_sided_options(connection: Connection, step: Step) -> bool:
    message, request = step.message, connection.request
    if message.type == "REQ":
        return True
    fields = message.fields
    offered, low = None if request is None else request.ece_vendor_id, fields.ece_vendor_id_low
    if offered is None or low is None:
        return False
    if low or fields.ece_vendor_id_middle or fields.ece_vendor_id_high:
        return not offered
    return offered != 0 or message.mad[20:24] != NO_OPTIONS


@rule(
    "F12",
    "ece-one-sided",
    "Connection establishment options (ECE) from one side only",
    severity="warning",
    on=("REQ", "REP"),
    history=first,
    settings=_options_alone,
    when=_one_sided_options,
    clause="IBA, Enhanced Connection Establishment; Linux cm.c since 5.8",
    explanation=(
        "With ECE a REQ names a vendor and options in its Attribute Modifier, and the REP answers with those that it"
        " accepts. A REP without a vendor declines: the connection works without options (information). Options"
        " without a vendor, or a REP with a vendor that nobody asked for, mean that one CM fills the fields with"
        " something else. Told once for each port."
    ),
    false_positives="Kernels before 5.8 and consumers inside the kernel know no ECE: their REPs decline.",
    advice="For a declined offer nothing; else look at the CM that filled the fields in.",
)
def ece_one_sided(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message = step.message
    options, fields = int.from_bytes(message.mad[20:24], "big"), message.fields
    asked = connection.request.ece_vendor_id
    if message.type == "REQ":
        vendor = asked
    else:
        vendor = fields.ece_vendor_id_high << 16 | fields.ece_vendor_id_middle << 8 | fields.ece_vendor_id_low
    declined = bool(asked) and not vendor and not options
    if not news(view, "F12", (message.source, message.type, declined)):
        return ()
    if declined:
        sentence = f"The REQ offers options of vendor 0x{asked:06x}; {end_name(connection.passive)} takes none."
    elif vendor:
        sentence = f"REP of {address(message.source)} has options of vendor 0x{vendor:06x}; the REQ offered none."
    else:
        sentence = f"{message.type} of {address(message.source)} has options 0x{options:08x} without a vendor."
    evidence = {"vendor_id": vendor, "options": options, "offered_vendor_id": asked}
    return (Verdict(sentence, (step,), evidence, severity="info" if declined else None),)


def _odd_ip_header(connection: Connection, step: Step) -> bool:
    request, number, message = connection.request, connection.service_id, step.message
    if connection.passive.name or request is None or number is None:  # only a valid header gives names to both ends
        return False
    data = request.private_data
    if number >> 24 != IP_CM or number >> 16 & 0xFF == AF_IB or data is None or len(data) < IP_CM_HEADER:
        return False
    if message.type in ("REQ", "SIDR_REQ"):
        return bool(data[1] >> 4 == 4 and data[0] == 0 and (data[4:16] != IPV4_PADDING or data[20:32] != IPV4_PADDING))
    if data[0] == 0 and data[1] >> 4 in (0, 4, 6):
        return False
    refused = message.fields.reason == CONSUMER_REJECT if message.type == "REJ" else bool(message.fields.status)
    return bool(refused) and step.sender == "passive" and not any(message.fields.private_data or b"")


@rule(
    "F13",
    "ip-cm-header",
    "The private data of a request are no valid IP CM header",
    severity="warning",
    on=("REQ", "SIDR_REQ", "REJ", "SIDR_REP"),
    history=first,
    when=_odd_ip_header,
    clause="IBA annex A11 (RDMA IP CM Service); Linux cma_save_ip_info",
    explanation=(
        "A request for an RDMA IP CM service begins its private data with 36 bytes: version 0, IP version 4 or 6, the"
        " source port and two addresses. Linux refuses another version with REJ 28 and no private data of its own: told"
        " when such a refusal comes. An IPv4 address whose first twelve bytes are not 0 is information, told once for"
        " each port: some receivers compare all sixteen."
    ),
    false_positives=(
        "A listener on an AF_IB address expects no header: silent without a refusal, and where the first two bytes are"
        " 0, as consumers there keep them. A refusal may have another reason (possible only)."
    ),
    advice="Look at the connecting consumer: it uses an RDMA IP CM service id without the header that goes with it.",
)
def ip_cm_header(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    message, data = step.message, connection.request.private_data
    evidence = {"version": data[0], "ip_version": data[1] >> 4}
    if message.type in ("REQ", "SIDR_REQ"):
        if not news(view, "F13", message.source):
            return ()
        sentence = f"The IP CM header of the {message.type} has an IPv4 address whose first twelve bytes are not 0."
        return (Verdict(sentence, (step,), evidence, "possible", severity="info"),)
    wrong = f"version 0x{data[0]:02x}" if data[0] else f"IP version {data[1] >> 4}"
    request = connection.steps[0]
    sentence = (
        f"The {request.message.type} for {services.name(connection.service_id or 0)} has {wrong} in its IP CM header;"
        f" {end_name(connection.passive)} refused it, as Linux does for that reason."
    )
    return (Verdict(sentence, (request, step), evidence, "possible"),)


def _private_service(message: CmMessage) -> bool:
    number = message.fields.service_id
    return number is not None and number >> 56 > 2 and services.name(number).startswith("0x")


@rule(
    "F14",
    "unknown-service-id",
    "A service id of no class that we know",
    severity="info",
    on=("REQ", "SIDR_REQ"),
    history=first,
    settings=_private_service,
    clause="IBA annexes A3 (the first byte of a service id says who assigned it) and A11",
    explanation=(
        "The first byte of a service id is 0 (IBTA), 1 (IETF) or 2 (locally administered); Linux adds 0x10 for IPoIB"
        " connected mode, and SRP targets take their GUID. Another id is a private one of some application, or its"
        " bytes are in the wrong order, which is said where it shows. Told once for each id."
    ),
    false_positives="Private ids are harmless. An id with the vendor part of a GUID in the REQ is taken for SRP's.",
    advice="If the target does not know the service (REJ 8), compare the id with the one that it listens on.",
)
def unknown_service_id(event: Event, view: Context) -> Iterable[Verdict]:
    step = event.step
    if step is None or step.message.icrc_ok is False:
        return ()
    fields = step.message.fields
    number = fields.service_id
    if _of_a_guid(number, fields) or not news(view, "F14", number):
        return ()
    turned = int.from_bytes(number.to_bytes(8, "little"), "big")
    swapped = turned >> 24 == IP_CM
    hint = f" With its bytes turned round it is {services.name(turned)}." if swapped else ""
    return (
        Verdict(
            f"{step.message.type} for service id {service_id(number)}, of no known class.{hint}",
            (step,),
            {"service_id": service_id(number)},
            "probable" if swapped else "possible",
        ),
    )


def _of_a_guid(number: int, fields: object) -> bool:
    """Whether the id has the vendor part of a GUID or interface id in the REQ (whose universal bit may be flipped)."""
    guids = [getattr(fields, "local_ca_guid", None) or 0]
    guids += [
        int.from_bytes(gid[8:], "big")
        for name in ("primary_local_gid", "primary_remote_gid")
        if (gid := getattr(fields, name, None)) is not None
    ]
    return any((number ^ known) >> 40 & 0xFDFFFF == 0 for known in guids)
