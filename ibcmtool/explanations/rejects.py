"""The REJ reasons: what each says, who sends it in practice, and what to do about it.

Numbers: IBA 12.6.7.2; constants: rdma/ib_cm.h of Linux. What Linux sends was read in drivers/infiniband/core/cm.c and
cma.c, what illumos sends in its ibcm. Linux itself sends 4, 8, 10, 12, 18, 28 and 35 only; a consumer that uses ib_cm
directly (an SRP target, say) may send any.
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
        "A CM that allocates the QP itself. " + _NEVER_LINUX,
        "Look for leaked connections on the passive side, or raise the number of QPs that its CA or its consumer "
        "allows.",
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
        "ID 0); it is silent when the retries run out. illumos sends it when the retries run out, for a REQ (0) or "
        "a REP (1).",
        "Find out why the other side did not answer: the frames before this REJ show whether it sent anything, and "
        "how late. A killed or impatient client gives the same REJ.",
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
        "Nobody listens on this service ID (for RDMA IP CM services: on this port).",
        "Linux, and every other CM. It sends this without any connection state: its Local Communication ID is a "
        "copy of REQ bytes 4 to 7, not a comm ID.",
        "Start the service, or correct the port. Check that it listens on this address and this RDMA device (`rdma "
        "resource show cm_id`), and that the program asked for the port space (TCP, IB) that the server listens in.",
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
        "connection. One of the two sides has lost that connection without the other knowing. The receiver of the "
        "REJ goes to timewait (IBA 12.9.8.3.1).",
        "Linux, illumos and others, for a QPN of a connected QP; Linux since about 4.10 then sends a DREQ on the "
        "old connection. Linux up to 2.6.18 and illumos also for a QPN in their timewait (policy strict).",
        "Find the old connection: `ibcmtool explain S02`. The usual cause is a peer that crashed, rebooted or was "
        "cut off, so that its DREQ never came. Once the refusing side has sent its DREQ the old connection is "
        "gone: connecting again succeeds.",
    ),
    11: Reject(
        "RDC_NOT_EXIST",
        "The reliable datagram channel that the REQ names does not exist.",
        "Nobody in practice: no current stack implements reliable datagrams.",
        "Check that the REQ asks for RC, UC or XRC.",
    ),
    12: Reject(
        "INVALID_GID",
        "The primary path's remote GID is none of the passive side's. The additional information holds a GID that "
        "would be accepted.",
        "Linux, when it cannot resolve the primary path of the REQ to a GID of its own; it offers its GID at index 0.",
        "Compare the REQ's Primary Remote Port GID with the GIDs of the passive port (`rdma link`, `ibv_devinfo "
        "-v`): on RoCE an address that moved, a missing GID type (v1 or v2) or a VLAN that only one side has.",
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
        "The active side has to send its REQ again to the port and QP in the ClassPortInfo. CM messages that go to "
        "a QP other than 1 are easily missed by capture filters.",
    ),
    25: Reject(
        "PORT_REDIRECT",
        "The service is reached at another port: the additional information is its GID.",
        "Targets with several ports that balance their load. " + _NEVER_LINUX,
        "The active side has to look up a path to that GID and connect there; SRP initiators do.",
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
        "The CM accepted, but the program above it refused. Why stands in the private data, in the format of the "
        "upper protocol.",
        "Linux, when a program calls rdma_reject, when it dies or closes before the connection is established, and "
        "when the RDMA IP CM header of the REQ is unusable (then without private data).",
        "Read the private data (`ibcmtool timeline` names it for NVMe, SRP and iSER) and the log of the refusing "
        "program: access lists, wrong target names, full queues.",
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
