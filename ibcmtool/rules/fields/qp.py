"""F01-F04, F15: what REQ and REP say of the two QPs: number, service, depths, codes (IBA 12.6.5, 12.6.8)."""

from __future__ import annotations

from typing import Final

from ibcmtool.connections.codes import EXTENDED, RC, RD, UC, XRC
from ibcmtool.connections.matching import is_xrc, reply_qpn
from ibcmtool.evidence import Ground, proved, unopposed, weakened
from ibcmtool.formatting import end_name, listed, qpn
from ibcmtool.messages import Dreq, Lap, Rep, Req
from ibcmtool.model import Connection, Step
from ibcmtool.rules.api import Context, Verdict, Verdicts, rule
from ibcmtool.rules.conditions import first, over_ipoib
from ibcmtool.rules.steps import fields_of, sent_by
from ibcmtool.values import Qpn

SPECIAL_QPNS: Final = {0: "QP0", 1: "QP1", 0xFFFFFF: "the multicast QPN"}
# None: not captured.
_PATH_MTUS: Final = frozenset((None, *range(1, 6)))
NEWEST_RATE: Final = 25  # 1600 Gb/s, of Linux 7.2
_RATES: Final = frozenset((None, 0, *range(2, NEWEST_RATE + 1)))
_FAILOVERS: Final = frozenset((None, 0, 1, 2))
_CODES: Final = {
    "REQ": (("path_mtu", _PATH_MTUS), ("primary_packet_rate", _RATES), ("alternate_packet_rate", _RATES)),
    "REP": (("failover_accepted", _FAILOVERS),),
    "LAP": (("alternate_packet_rate", _RATES),),
}


def _notable(connection: Connection, step: Step) -> bool:
    """One look for the rules of this module: nearly all messages concern none of them."""
    fields = step.message.fields
    if isinstance(fields, Req):
        if fields.transport_service_type not in (RC, UC) or fields.srq or fields.local_qpn in SPECIAL_QPNS:
            return True
    elif isinstance(fields, Rep):
        if fields.srq or fields.local_qpn in SPECIAL_QPNS:
            return True
    elif isinstance(fields, (Dreq, Lap)) and fields.remote_qpn in SPECIAL_QPNS:
        return True
    for name, defined in _CODES.get(step.message.type, ()):  # noqa: SIM110 (a generator costs as much as all before it)
        if getattr(fields, name) not in defined:
            return True
    return False


F01 = rule(
    "F01",
    "bad-qpn",
    "A QPN that no connection can have",
    severity="error",
    clause="IBA volume 1 (QPNs 0, 1 and 0xFFFFFF have fixed uses)",
    explanation="QPNs 0 and 1 belong to the management interfaces and 0xFFFFFF to multicast. A REQ or REP that names"
    " one as its connection's QP makes the peer send its data there; a DREQ or LAP that does so can reach no"
    " connection.",
    false_positives="An XRC target's REP has its QPN in the field Local EE Context Number, which is judged instead;"
    " reliable datagrams have none (not reported). A DREQ or LAP is judged only if what it should name was not"
    " captured, else T05 and L05 do (then probable, since the service is not known).",
    advice="Look at the consumer or CM that sent it: the QP was not created when the message was made.",
)


@F01.on_step("REQ", "REP", "DREQ", "LAP", history=first, when=_notable, needs=("intact",))
def bad_qpn(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields, request = step.message.fields, connection.request
    if isinstance(request, Req) and request.transport_service_type == RD:
        return
    number: int | None = None
    name, service = "Local QPN", proved("complete")
    if isinstance(fields, Rep):
        number = reply_qpn(connection, fields)
        if number != fields.local_qpn:
            name = "Local EE Context Number, the QPN of an XRC target,"
    elif isinstance(fields, Req):
        number = fields.local_qpn
    elif (request if step.sender == "passive" else connection.reply) is None and isinstance(fields, (Dreq, Lap)):
        number, name, service = fields.remote_qpn, "Remote QPN", unopposed("complete")
    if number is not None and number in SPECIAL_QPNS:
        sentence = f"{sent_by(step)} has {name} {qpn(number)}: {SPECIAL_QPNS[number]}."
        yield Verdict(sentence, {"qpn": Qpn(number)}, (service,))


F02 = rule(
    "F02",
    "read-depth",
    "A REP wants more outstanding reads than the REQ offers",
    severity="warning",
    clause="IBA 12.7 (Initiator Depth, Responder Resources)",
    explanation="Responder Resources of the REQ is how many RDMA reads and atomics the active side can serve at a"
    " time; Initiator Depth of the REP is how many the passive side wants to have outstanding, and must not be more."
    " If it uses them, the active side's QP refuses what is too much, and the connection breaks under load.",
    false_positives="Reliable connections only. A consumer that fills in its maximum and never reads is not harmed"
    " (hence a warning, not an error).",
    advice="Let the accepting consumer take the smaller of its own limit and the REQ's Responder Resources.",
)


def _too_deep(connection: Connection, step: Step) -> tuple[int, int] | None:
    """How many reads a REQ offers, and how many the REP wants, if these are more."""
    request, reply = connection.request, step.message.fields
    if not (isinstance(request, Req) and isinstance(reply, Rep)) or request.transport_service_type != RC:
        return None
    offered, wanted = request.responder_resources, reply.initiator_depth
    return None if offered is None or wanted is None or wanted <= offered else (offered, wanted)


@F02.on_step("REP", history=first, when=_too_deep, needs=("intact",))
def read_depth(connection: Connection, step: Step, context: Context) -> Verdicts:
    offered, wanted = _too_deep(connection, step) or (0, 0)
    yield Verdict(
        f"{end_name(connection.passive)} wants Initiator Depth {wanted}, but the REQ offers Responder Resources"
        f" {offered}.",
        {"initiator_depth": wanted, "responder_resources": offered},
        steps=(connection.steps[0], step),
    )


F03 = rule(
    "F03",
    "transport-type",
    "A REQ for a transport service that nobody implements",
    severity="warning",
    clause="IBA 12.7 (Transport Service Type); Linux cm_req_get_qp_type",
    explanation="CMs in use connect RC and UC (types 0 and 1) and XRC (type 3 with Extended Transport Type 1)."
    " Reliable datagrams (type 2) were never built; of other extended types nothing is known. illumos refuses such a"
    " REQ (REJ 9), Linux rdma_cm fails at once, with a REJ 28 without private data.",
    false_positives="An edition of the specification newer than this tool may define another extended type.",
    advice="Look at what the connecting consumer asks for; if it is right, the tool wants to hear of it.",
)


@F03.on_step("REQ", history=first, when=_notable, needs=("intact",))
def transport_type(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields = fields_of(step, Req)
    service, extended = fields.transport_service_type, fields.extended_transport_type
    datagrams = service == RD
    if not datagrams and (service != EXTENDED or extended in (None, XRC)):
        return
    what = "2 (reliable datagrams)" if datagrams else f"3 with Extended Transport Type {extended}"
    yield Verdict(
        f"REQ of {end_name(connection.active)} asks for Transport Service Type {what}.",
        {"transport_service_type": service, "extended_transport_type": extended},
        (proved("meaning") if datagrams else unopposed("meaning"),),
    )


F04 = rule(
    "F04",
    "undefined-code",
    "A field holds a code that is not defined",
    severity="warning",
    clause="IBA 12.7 (Path Packet Payload MTU 1-5, Packet Rate, Failover Accepted 0-2)",
    explanation="Path MTU is 1 to 5 (256 to 4096 bytes), a packet rate 0 or one of the static rates 2 to 25, Failover"
    " Accepted 0 to 2. A receiver that gets another value refuses the message, or takes it for something else.",
    false_positives="Rates above 25 (1600 Gb/s) may come with newer links (possible, information).",
    advice="Look at the CM or consumer that filled the field in.",
)

_CODE_NAMES: Final = {
    "path_mtu": "Path Packet Payload MTU",
    "primary_packet_rate": "Primary Packet Rate",
    "alternate_packet_rate": "Alternate Packet Rate",
    "failover_accepted": "Failover Accepted",
}


@F04.on_step("REQ", "REP", "LAP", history=first, when=_notable, needs=("intact",))
def undefined_code(connection: Connection, step: Step, context: Context) -> Verdicts:
    message = step.message
    values = {name: (getattr(message.fields, name), defined) for name, defined in _CODES[message.type]}
    wrong = {name: value for name, (value, defined) in values.items() if value not in defined}
    if not wrong:
        return
    newer = all(name.endswith("rate") and value > NEWEST_RATE for name, value in wrong.items())
    found = listed([f"{_CODE_NAMES[name]} {value}" for name, value in wrong.items()])
    yield Verdict(
        f"{sent_by(step)} has {found}, which {'no known edition defines' if newer else 'is not defined'}.",
        wrong,
        (weakened("meaning") if newer else proved("meaning"),),
        severity="info" if newer else None,
    )


F15 = rule(
    "F15",
    "srq-flow-control",
    "A QP with a shared receive queue and settings that do not suit it",
    severity="info",
    clause="IBA 9.7.7.2 (end-to-end credits), 9.7.5.2.8 (RNR NAK)",
    explanation="The receives of a shared receive queue belong to no single QP, so end-to-end credits cannot be"
    " counted for it: the flow control bit has no effect. And the queue may run empty at any time: RNR Retry Count 0"
    " tells the other side not to try again then, so that the first such packet ends the connection. Reported once for"
    " each port.",
    false_positives="A hint, not a breach. XRC (whose fields mean less) and IPoIB connected mode (which asks for no"
    " retries on purpose) are left out.",
    advice="For RNR Retry Count 0: let the consumer ask for 7 (without limit) unless it never runs out of receives.",
)


@F15.on_step("REQ", "REP", history=first, when=_notable, needs=("intact", "request"), once="subject")
def srq_flow_control(connection: Connection, step: Step, context: Context) -> Verdicts:
    fields = step.message.fields
    if not isinstance(fields, (Req, Rep)) or is_xrc(connection) or over_ipoib(connection):
        return
    no_retry = fields.rnr_retry_count == 0
    if not fields.srq or not (no_retry or fields.end_to_end_flow_control == 1):
        return
    ground: Ground = unopposed("meaning") if no_retry else weakened("meaning")
    why = (
        "RNR Retry Count 0: one packet that finds the queue empty ends the connection."
        if no_retry
        else "end-to-end flow control, which has no effect there."
    )
    yield Verdict(
        f"{sent_by(step)} announces a shared receive queue and {why}",
        {"rnr_retry_count": fields.rnr_retry_count, "end_to_end_flow_control": fields.end_to_end_flow_control},
        (ground,),
        subject=(step.message.source, no_retry),
    )
