"""F: what REQ and REP say of the two QPs: number, transport service, depths, codes, flow control (IBA 12.6.5, 12.6.8).

A packet with a wrong ICRC was dropped by its receiver, so its contents are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibcmtool import services
from ibcmtool.connections.matching import is_xrc
from ibcmtool.formatting import address, end_name, listed, qpn
from ibcmtool.model import PEER, CmMessage, Connection, Event, Step
from ibcmtool.rules.catalogue import Verdict, rule
from ibcmtool.rules.conditions import first
from ibcmtool.rules.context import Context
from ibcmtool.rules.once import news

RC, RD, EXTENDED, XRC = 0, 2, 3, 1  # Transport Service Type; XRC is an Extended Transport Type

SPECIAL_QPNS = {0: "QP0", 1: "QP1", 0xFFFFFF: "the multicast QPN"}
_QPN_FIELDS = {"REQ": "local_qpn", "REP": "local_qpn", "DREQ": "remote_qpn", "LAP": "remote_qpn"}

# None: not captured.
_PATH_MTUS = frozenset((None, *range(1, 6)))
_RATES = frozenset((None, 0, *range(2, 25)))
_FAILOVERS = frozenset((None, 0, 1, 2))
_CODES = {
    "REQ": (("path_mtu", _PATH_MTUS), ("primary_packet_rate", _RATES), ("alternate_packet_rate", _RATES)),
    "REP": (("failover_accepted", _FAILOVERS),),
    "LAP": (("alternate_packet_rate", _RATES),),
}
NEWEST_RATE = 24
_CODE_NAMES = {
    "path_mtu": "Path Packet Payload MTU",
    "primary_packet_rate": "Primary Packet Rate",
    "alternate_packet_rate": "Alternate Packet Rate",
    "failover_accepted": "Failover Accepted",
}


def judged(step: Step | None) -> Step | None:
    """The step, unless its receiver cannot have read it."""
    return None if step is None or step.message.icrc_ok is False else step


def _special_qpn(connection: Connection, step: Step) -> bool:
    message = step.message
    if message.type in ("REQ", "REP"):
        return message.fields.local_qpn in SPECIAL_QPNS
    if connection.request is not None and connection.reply is not None:
        return False  # what it should name is known
    return message.fields.remote_qpn in SPECIAL_QPNS


@rule(
    "F01",
    "bad-qpn",
    "A QPN that no connection can have",
    severity="error",
    on=("REQ", "REP", "DREQ", "LAP"),
    history=first,
    when=_special_qpn,
    clause="IBA volume 1 (QPNs 0, 1 and 0xFFFFFF have fixed uses)",
    explanation=(
        "QPNs 0 and 1 belong to the management interfaces and 0xFFFFFF to multicast. A REQ or REP that names one as its"
        " connection's QP makes the peer send its data there; a DREQ or LAP that does so can reach no connection."
    ),
    false_positives=(
        "An XRC target's REP has its QPN in the field Local EE Context Number, which is judged instead; reliable"
        " datagrams have none (silent). A DREQ or LAP is judged only if what it should name was not captured, else T05"
        " and L05 do (then probable, since the service is not known)."
    ),
    advice="Look at the consumer or CM that sent it: the QP was not created when the message was made.",
)
def bad_qpn(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, judged(event.step)
    if step is None:
        return ()
    message, request = step.message, connection.request
    fields, certain = message.fields, True
    number, name = getattr(fields, _QPN_FIELDS[message.type]), "Local QPN"
    if getattr(request, "transport_service_type", RC) == RD:
        return ()
    if message.type == "REP":
        if is_xrc(connection) or (request is None and fields.local_eecn):
            number, name = fields.local_eecn, "Local EE Context Number, the QPN of an XRC target,"
    elif message.type != "REQ":
        role = PEER[step.sender] if step.sender != "unknown" else "passive"
        if (request if role == "active" else connection.reply) is not None:
            return ()
        name, certain = "Remote QPN", False
    if number not in SPECIAL_QPNS:
        return ()
    return (
        Verdict(
            f"{message.type} of {address(message.source)} has {name} {qpn(number)}: {SPECIAL_QPNS[number]}.",
            (step,),
            {"qpn": qpn(number)},
            "certain" if certain else "probable",
        ),
    )


def _too_deep(connection: Connection, step: Step) -> bool:
    request, wanted = connection.request, step.message.fields.initiator_depth
    offered: int | None = None if request is None else request.responder_resources
    return offered is not None and wanted is not None and wanted > offered


@rule(
    "F02",
    "read-depth",
    "A REP wants more outstanding reads than the REQ offers",
    severity="warning",
    on=("REP",),
    history=first,
    when=_too_deep,
    clause="IBA 12.7 (Initiator Depth, Responder Resources)",
    explanation=(
        "Responder Resources of the REQ is how many RDMA reads and atomics the active side can serve at a time;"
        " Initiator Depth of the REP is how many the passive side wants to have outstanding, and must not be more. If"
        " it uses them, the active side's QP refuses what is too much, and the connection breaks under load."
    ),
    false_positives=(
        "Reliable connections only. A consumer that fills in its maximum and never reads is not harmed (hence a"
        " warning, not an error)."
    ),
    advice="Let the accepting consumer take the smaller of its own limit and the REQ's Responder Resources.",
)
def read_depth(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, judged(event.step)
    if step is None or connection.request.transport_service_type != RC:
        return ()
    offered, wanted = connection.request.responder_resources, step.message.fields.initiator_depth
    return (
        Verdict(
            f"{end_name(connection.passive)} wants Initiator Depth {wanted}, but the REQ offers Responder Resources"
            f" {offered}.",
            (connection.steps[0], step),
            {"initiator_depth": wanted, "responder_resources": offered},
        ),
    )


def _other_service(message: CmMessage) -> bool:
    fields = message.fields
    service = fields.transport_service_type
    return service == RD or (service == EXTENDED and fields.extended_transport_type not in (None, XRC))


@rule(
    "F03",
    "transport-type",
    "A REQ for a transport service that nobody implements",
    severity="warning",
    on=("REQ",),
    history=first,
    settings=_other_service,
    clause="IBA 12.7 (Transport Service Type); Linux cm_req_get_qp_type",
    explanation=(
        "CMs in use connect RC and UC (types 0 and 1) and XRC (type 3 with Extended Transport Type 1). Reliable"
        " datagrams (type 2) were never built; of other extended types nothing is known. illumos refuses such a REQ"
        " (REJ 9), Linux passes it on and fails later."
    ),
    false_positives="An edition of the specification newer than this tool may define another extended type.",
    advice="Look at what the connecting consumer asks for; if it is right, the tool wants to hear of it.",
)
def transport_type(event: Event, view: Context) -> Iterable[Verdict]:
    step = judged(event.step)
    if step is None:
        return ()
    fields = step.message.fields
    service, extended = fields.transport_service_type, fields.extended_transport_type
    datagrams = service == RD
    what = "2 (reliable datagrams)" if datagrams else f"3 with Extended Transport Type {extended}"
    return (
        Verdict(
            f"REQ of {end_name(event.connection.active)} asks for Transport Service Type {what}.",
            (step,),
            {"transport_service_type": service, "extended_transport_type": extended},
            "certain" if datagrams else "probable",
        ),
    )


def _undefined_code(message: CmMessage) -> bool:
    return any(getattr(message.fields, name) not in defined for name, defined in _CODES[message.type])


@rule(
    "F04",
    "undefined-code",
    "A field holds a code that is not defined",
    severity="warning",
    on=("REQ", "REP", "LAP"),
    history=first,
    settings=_undefined_code,
    clause="IBA 12.7 (Path Packet Payload MTU 1-5, Packet Rate, Failover Accepted 0-2)",
    explanation=(
        "Path MTU is 1 to 5 (256 to 4096 bytes), a packet rate 0 or one of the static rates 2 to 24, Failover Accepted"
        " 0 to 2. A receiver that gets another value refuses the message, or takes it for something else."
    ),
    false_positives="Rates above 24 may come with newer links (possible, information).",
    advice="Look at the CM or consumer that filled the field in.",
)
def undefined_code(event: Event, view: Context) -> Iterable[Verdict]:
    step = judged(event.step)
    if step is None:
        return ()
    fields = step.message.fields
    wrong = {
        name: value for name, defined in _CODES[step.message.type] if (value := getattr(fields, name)) not in defined
    }
    newer = all(name.endswith("rate") and value > NEWEST_RATE for name, value in wrong.items())
    found = listed([f"{_CODE_NAMES[name]} {value}" for name, value in wrong.items()])
    return (
        Verdict(
            f"{step.message.type} of {address(step.message.source)} has {found}, which no known edition defines."
            if newer
            else f"{step.message.type} of {address(step.message.source)} has {found}, which is not defined.",
            (step,),
            wrong,
            "possible" if newer else "certain",
            severity="info" if newer else None,
        ),
    )


def _srq_limits(message: CmMessage) -> bool:
    fields = message.fields
    return bool(fields.srq) and (fields.end_to_end_flow_control == 1 or fields.rnr_retry_count == 0)


@rule(
    "F15",
    "srq-flow-control",
    "A QP with a shared receive queue and settings that do not suit it",
    severity="info",
    on=("REQ", "REP"),
    history=first,
    settings=_srq_limits,
    clause="IBA 9.7.7.2 (end-to-end credits), 9.7.5.2.8 (RNR NAK)",
    explanation=(
        "The receives of a shared receive queue belong to no single QP, so end-to-end credits cannot be counted for it:"
        " the flow control bit has no effect. And the queue may run empty at any time: RNR Retry Count 0 tells the"
        " other side not to try again then, so that the first such packet ends the connection. Told once for each port."
    ),
    false_positives=(
        "A hint, not a breach. XRC (whose fields mean less) and IPoIB connected mode (which asks for no retries on"
        " purpose) are left out."
    ),
    advice="For RNR Retry Count 0: let the consumer ask for 7 (without limit) unless it never runs out of receives.",
)
def srq_flow_control(event: Event, view: Context) -> Iterable[Verdict]:
    connection, step = event.connection, judged(event.step)
    if step is None or connection.request is None or is_xrc(connection):
        return ()
    if services.name(connection.service_id or 0).startswith("IPoIB"):
        return ()
    fields = step.message.fields
    no_retry = fields.rnr_retry_count == 0
    if not news(view, "F15", (step.message.source, no_retry)):
        return ()
    why = (
        "RNR Retry Count 0: one packet that finds the queue empty ends the connection."
        if no_retry
        else "end-to-end flow control, which has no effect there."
    )
    return (
        Verdict(
            f"{step.message.type} of {address(step.message.source)} announces a shared receive queue and {why}",
            (step,),
            {"rnr_retry_count": fields.rnr_retry_count, "end_to_end_flow_control": fields.end_to_end_flow_control},
            "probable" if no_retry else "possible",
        ),
    )
