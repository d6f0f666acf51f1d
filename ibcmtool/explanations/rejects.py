"""The REJ reasons: what each says, who sends it in practice, and what to do about it.

Numbers: IBA 12.6.7.2; constants: rdma/ib_cm.h of Linux. What Linux sends was read in drivers/infiniband/core/cm.c and
cma.c, what illumos sends in its ibcm. The CM of Linux sends 4, 8, 10, 12, 18, 28 and 35 only; a consumer that uses
ib_cm directly (IPoIB in connected mode, an SRP target) may send any.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.cm_codes import REJ_REASONS
from ibcmtool.explanations.entry import Explanation


class Reject(NamedTuple):
    """What one reason of a REJ means to whom."""

    constant: str
    meaning: str
    sender: str
    advice: str


_NEVER_LINUX = "Linux never sends it by itself."
_PATH_VALUE = (
    "An InfiniBand CM that checks the path in the REQ, with an acceptable value in the additional reject information. "
    + _NEVER_LINUX
)
_ASK_SM = (
    "Compare the path in the REQ (`ibcmtool decode FILE --frame N`) with the value that the REJ offers; then ask "
    "the subnet manager for the path between the two ports (saquery), and look for a stale path cache on the host "
    "that sent the REQ."
)
_ALTERNATE = "Leave the alternate path out of the REQ, or correct it: the primary path was not what was refused."


def _unusable(path: str, value: str, constant: str) -> Reject:
    advice = _ASK_SM if path == "primary" else _ALTERNATE
    return Reject(constant, f"The {value} of the {path} path is not usable.", _PATH_VALUE, advice)


REJECTS: dict[int, Reject] = {
    1: Reject(
        "NO_QP",
        "The passive side has no queue pair left for this connection.",
        "A CM that allocates the QP itself. On Linux IPoIB in connected mode, on adapters without shared receive "
        "queues, when it has as many connections as its module parameter max_nonsrq_conn_qp allows. The CM of Linux "
        "never sends it by itself.",
        "Look for connections on the passive side that should be gone, or raise the number of QPs that its CA or its "
        "consumer allows (IPoIB: max_nonsrq_conn_qp).",
    ),
    2: Reject(
        "NO_EEC",
        "The passive side has no end-to-end context left. Only reliable datagrams use these.",
        "Nobody in practice: no current stack implements reliable datagrams.",
        "Check that the REQ asks for RC, UC or XRC: reliable datagram is not implemented anywhere today.",
    ),
    3: Reject(
        "NO_RESOURCES",
        "The passive side lacks memory or another resource that the connection needs.",
        "Consumers that use ib_cm directly, such as an SRP target. Linux ib_cm never sends it by itself: short of "
        "memory it drops the REQ, so that the peer tries again.",
        "Read the kernel log of the side that refused, at the time of the REJ.",
    ),
    4: Reject(
        "TIMEOUT",
        "The sender gives up: it got no answer in time to its REQ or REP, or its program closed the connection "
        "while it waited. Because the peer's comm ID may not be known yet, the additional information carries the "
        "CA GUID of the sender.",
        "Linux, when a connection is destroyed while its REQ is unanswered (message field 2, Remote Communication "
        "ID 0); it sends nothing when the retries run out. illumos sends it when the retries run out, for a REQ (0) or "
        "a REP (1).",
        "Find out why the other side did not answer: the frames before this REJ show whether it sent anything, and "
        "how late. Nothing at all is H18; an MRA and then nothing means that its CM is alive and its program hangs "
        "(R17). A killed or impatient client gives the same REJ; nvme-rdma before Linux 6.0 was impatient after 3 s, "
        "so there it mostly means that no answer came.",
    ),
    5: Reject(
        "UNSUPPORTED",
        "The receiver does not support what the message asks for.",
        _NEVER_LINUX,
        "Compare transport type, SRQ, XRC and ECE fields of the REQ with what the passive side can do.",
    ),
    6: Reject(
        "INVALID_COMM_ID",
        "The message names a comm ID that the receiver does not know. It may have rebooted since.",
        _NEVER_LINUX + " Linux ignores such a message, and answers a DREQ with a DREP.",
        "Treat the connection as lost and connect again; if it returns, look for a reboot or a driver reload of the "
        "receiver.",
    ),
    7: Reject(
        "INVALID_COMM_INSTANCE",
        "The comm ID is known, but not together with the other values of the message: the pair of comm IDs, or the "
        "QPN of a DREQ. Each side holds another connection under that ID.",
        _NEVER_LINUX + " Linux ignores such a message.",
        "Compare both comm IDs and the QPN with those of the REQ and REP of the connection; one side has mixed up "
        "two connections.",
    ),
    8: Reject(
        "INVALID_SERVICE_ID",
        "Nobody on this RDMA device listens on this service ID. For RDMA IP CM services that means: on this port. The "
        "service ID holds the port space (TCP, IB) and the port, no IP address.",
        "Linux, and every other CM. It sends this without any connection state: its Local Communication ID is a "
        "copy of REQ bytes 4 to 7, not a comm ID.",
        "On the target, see whether the service runs and listens on this port (`rdma resource show cm_id`); start "
        "it, or correct the port on the host that connects. If it does listen, then on another RDMA device, or in "
        "another port space (TCP, IB). A wrong IP address is not the reason: a listener on another address of the "
        "same device refuses with REJ 28 without private data instead.",
    ),
    9: Reject(
        "INVALID_TRANSPORT_TYPE",
        "The passive side does not accept this transport (RC, UC, RD, XRC) for the service.",
        "Windows IBAL; illumos. " + _NEVER_LINUX,
        "Look at Transport Service Type and Extended Transport Type of the REQ.",
    ),
    10: Reject(
        "STALE_CONN",
        "The REQ or REP names a QPN of the sender's CA that the receiver still holds as the remote end of another "
        "connection. One of the two sides has lost that connection without the other knowing (IBA 12.9.8.3.1). In "
        "Linux the receiver of the REJ goes to timewait. In a capture a DREQ of the refusing side follows, mostly "
        "within milliseconds, and its remote QPN is the one just refused: together they prove the old connection, "
        "also where the capture began after it. A peer that rebooted answers this DREQ with a DREP at once.",
        "Linux, illumos and others, for a QPN of a connected QP; Linux since 4.10 then sends a DREQ on the old "
        "connection. Linux up to 2.6.18 and illumos also for a QPN in their timewait (policy strict).",
        "Now: connect again with another QPN, which gets through at once, or wait. The DREQ of the refusing side does "
        "not free the QPN when it is sent, but when it is answered or its retries run out: up to about 70 s with "
        "upstream Linux, 270 s with MLNX OFED. Until then every attempt with this QPN is refused. An NVMe target "
        '(nvmet) also ends the old connection by itself, and logs "ctrl N keep-alive timer (N seconds) expired!". '
        "Restarting the target's service drops every host, so it comes last. Then: find out why the old connection was "
        "left. Mostly the peer crashed, rebooted or was cut off, so that its DREQ never came: `ibcmtool explain S02`."
        " If two machines have one CA GUID (clones, virtual functions without one), nothing was left: X12.",
    ),
    11: Reject(
        "RDC_NOT_EXIST",
        "The reliable datagram channel that the REQ names does not exist.",
        "Nobody in practice: no current stack implements reliable datagrams.",
        "Check that the REQ asks for RC, UC or XRC.",
    ),
    12: Reject(
        "INVALID_GID",
        "The primary path of the REQ does not fit the passive port: its remote GID is none of that port's or, in "
        "Linux, its P_Key is not in that port's table. The additional information holds a GID that would be "
        "accepted.",
        "Linux, when it cannot resolve the primary path of the REQ: no such GID, or a valid GID with a P_Key that the "
        "port does not have. It offers its GID at index 0.",
        "Read the REQ (`ibcmtool decode FILE --frame N`) and compare it with the passive port. First its Primary "
        "Remote Port GID with /sys/class/infiniband/DEV/ports/N/gids/* or `ibv_devinfo -v` (`rdma link` shows no "
        "GIDs, as far as known): on RoCE the address may have moved, or one side lacks the GID type (v1 or v2) or "
        "the VLAN. If the GID is there, then its Partition Key with /sys/class/infiniband/DEV/ports/N/pkeys/*: on "
        "InfiniBand find out why the subnet manager did not put this port into the partition.",
    ),
    13: Reject(
        "INVALID_LID",
        "The primary path's remote LID is not one of this port.",
        _PATH_VALUE,
        _ASK_SM,
    ),
    14: _unusable("primary", "service level", "INVALID_SL"),
    15: _unusable("primary", "traffic class", "INVALID_TRAFFIC_CLASS"),
    16: _unusable("primary", "hop limit", "INVALID_HOP_LIMIT"),
    17: _unusable("primary", "packet rate", "INVALID_PACKET_RATE"),
    18: Reject(
        "INVALID_ALT_GID",
        "The alternate path's remote GID is not accepted.",
        "Linux, when it cannot resolve the alternate path of the REQ; it offers its primary GID.",
        _ALTERNATE,
    ),
    19: Reject(
        "INVALID_ALT_LID",
        "The alternate path's remote LID is not one of this CA.",
        _PATH_VALUE,
        _ALTERNATE,
    ),
    20: _unusable("alternate", "service level", "INVALID_ALT_SL"),
    21: _unusable("alternate", "traffic class", "INVALID_ALT_TRAFFIC_CLASS"),
    22: _unusable("alternate", "hop limit", "INVALID_ALT_HOP_LIMIT"),
    23: _unusable("alternate", "packet rate", "INVALID_ALT_PACKET_RATE"),
    24: Reject(
        "PORT_CM_REDIRECT",
        "The service is reached at another port, and its CM at another QP: the additional information is a "
        "ClassPortInfo that says where.",
        "Embedded targets and gateways. " + _NEVER_LINUX,
        "The active side has to send its REQ again to the port and QP in the ClassPortInfo (Linux ib_srp does). CM "
        "messages that go to a QP other than 1 are easily missed by capture filters.",
    ),
    25: Reject(
        "PORT_REDIRECT",
        "The service is reached at another port: the additional information is its GID.",
        "Targets with several ports that balance their load. " + _NEVER_LINUX,
        "The active side has to look up a path to that GID and connect there. Do not count on it: Linux ib_srp fails "
        "with -ECONNRESET. It follows reason 24, and 25 only from old Topspin and Cisco gateways, which mean 24 by "
        "it.",
    ),
    26: Reject(
        "INVALID_MTU",
        "The path MTU of the REQ is larger than the passive side can take; the additional information holds the MTU "
        "that it accepts.",
        _NEVER_LINUX,
        "Compare the MTU of both ports (`ibv_devinfo`); on RoCE it follows the MTU of the network device.",
    ),
    27: Reject(
        "INSUFFICIENT_RESP_RESOURCES",
        "One side asks for more outstanding RDMA reads and atomics than the other can serve.",
        _NEVER_LINUX + " Consumers that use ib_cm directly may.",
        "Ask for a smaller Initiator Depth: at most the other side's Responder Resources.",
    ),
    28: Reject(
        "CONSUMER_DEFINED",
        "The CM had no objection; what stands above it refused. With private data it was the program, which says why "
        "there in the format of its protocol. Without any, the kernel mostly refused on the program's behalf.",
        "Linux, when a program calls rdma_reject, and when it dies or closes before the connection is established. "
        "Without private data also when the interface of the address is down, when no network device fits the REQ, "
        "when the route back does not lead through the network device that got it (two ports in one subnet), when the "
        "program listens on another IP address, IP version or QP type (F03), and when the RDMA IP CM header of the REQ "
        "is unusable (F13).",
        "With private data: read them (the table of connections and `ibcmtool timeline` have the reason of NVMe, SRP, "
        "Lustre, RDS and RTRS in words, and others as text or bytes) and the log of the refusing program: access "
        "lists, wrong target names, full queues. NVMe, SRP, Lustre, RDS and RTRS always say why. Without: on the "
        "host that refused, check in this order that the interface with the address is up (`ip addr`), that the "
        "program listens on this address and IP version (`rdma resource show cm_id`), that the route back leaves by "
        "the same interface (`ip route get ADDRESS`), and that the program was not killed (H24). An iSER target never "
        "gives private data: read its log.",
    ),
    29: Reject(
        "INVALID_RNR_RETRY",
        "The RNR Retry Count of the other side is not acceptable.",
        _NEVER_LINUX,
        "Ask for another RNR Retry Count (7 means without end).",
    ),
    30: Reject(
        "DUPLICATE_LOCAL_COMM_ID",
        "The REQ uses a comm ID that its CA already uses in another open connection, as after a reboot that the "
        "receiver has not noticed.",
        "illumos. Linux drops such a REQ silently.",
        "The active side has to take a new comm ID. See `ibcmtool explain T03`.",
    ),
    31: Reject(
        "INVALID_CLASS_VERSION",
        "The MAD has a class version that the receiver does not speak.",
        "illumos. Linux drops such a MAD silently.",
        "Look at Class Version in the MAD header of the refused message: Linux and illumos speak version 2 only.",
    ),
    32: _unusable("primary", "flow label", "INVALID_FLOW_LABEL"),
    33: _unusable("alternate", "flow label", "INVALID_ALT_FLOW_LABEL"),
    35: Reject(
        "VENDOR_OPTION_NOT_SUPPORTED",
        "The REQ offered enhanced connection establishment (a vendor ID and options), and the passive side does not "
        "accept them.",
        "Linux, when the program calls rdma_reject_ece.",
        "Switch ECE off on the active side, or bring both sides to the same vendor's drivers.",
    ),
}

EXPLANATIONS = [
    Explanation(
        f"rej:{reason}",
        "REJ reason",
        REJ_REASONS[reason],
        (
            ("Meaning", reject.meaning),
            ("Sent by", reject.sender),
            ("What to do", reject.advice),
            ("Known as", f"IB_CM_REJ_{reject.constant} in Linux"),
        ),
    )
    for reason, reject in REJECTS.items()
]
