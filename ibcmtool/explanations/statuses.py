"""Status codes of APR (alternate path response) and SIDR_REP (service ID resolution); from rdma/ib_cm.h and illumos."""

from __future__ import annotations

from dissectors.cm_codes import AP_STATUSES, SIDR_STATUSES
from ibcmtool.explanations.entry import Explanation

_PROPOSE = "Propose another alternate path; the additional information holds a value that would be accepted."
_LINUX = (
    "Upstream Linux since about 5.6 (as far as known) neither loads a path by LAP nor answers one, and no Linux does "
    "on RoCE: there no APR comes at all."
)

APR: dict[int, tuple[str, str]] = {
    0: ("The peer has loaded the alternate path that the LAP proposed.", "Nothing. " + _LINUX),
    1: (
        "The comm IDs of the LAP do not name a connection of the peer.",
        "Compare the pair of comm IDs with REQ and REP; the peer may have closed the connection.",
    ),
    2: (
        "The peer supports no automatic path migration for this connection.",
        "Run the connection without an alternate path. " + _LINUX,
    ),
    3: ("The peer does not accept the port of the proposed path.", "Propose a path to a port of the same CA."),
    4: (
        "CM messages for the new path go elsewhere: the additional information is a ClassPortInfo that says where.",
        "Send the LAP again to the port and QP in the ClassPortInfo.",
    ),
    5: (
        "The proposed alternate path is the path already in use: it would protect against nothing.",
        "Propose a path that differs in port, LID or service level.",
    ),
    6: (
        "The QPN in the LAP is not the peer's QPN of this connection.",
        "Compare Remote QPN of the LAP with Local QPN of the peer's REQ or REP: one side has mixed up two connections.",
    ),
    7: ("A LID of the proposed path is not usable.", _PROPOSE),
    8: ("A GID of the proposed path is not usable.", _PROPOSE),
    9: ("The flow label of the proposed path is not usable.", _PROPOSE),
    10: ("The traffic class of the proposed path is not usable.", _PROPOSE),
    11: ("The hop limit of the proposed path is not usable.", _PROPOSE),
    12: ("The packet rate of the proposed path is not usable.", _PROPOSE),
    13: ("The service level of the proposed path is not usable.", _PROPOSE),
}

SIDR: dict[int, tuple[str, str]] = {
    0: ("The service exists; the answer holds the QPN and Q_Key to send datagrams to.", "Nothing."),
    1: (
        "Nobody offers this service ID at the port that was asked.",
        "Start the service, or correct the port. It is the REJ 8 of datagram services.",
    ),
    2: (
        "The program behind the service refused; its private data may say why.",
        "Read the log of the refusing program.",
    ),
    3: ("The service has no queue pair left.", "Look for leaked QPs on the side that refused."),
    4: (
        (
            "The service is resolved elsewhere: the additional information is a ClassPortInfo that says where. "
            "Linux leaves its length field 0 even when it is there."
        ),
        "Send the SIDR_REQ again to the port and QP in the ClassPortInfo.",
    ),
    5: (
        "The receiver does not speak the version of this request.",
        "Look at Class Version in the MAD header and at the RDMA IP CM header in the private data of the SIDR_REQ.",
    ),
}


def _explanations(
    prefix: str, kind: str, titles: dict[int, str], table: dict[int, tuple[str, str]]
) -> list[Explanation]:
    return [
        Explanation(f"{prefix}:{status}", kind, titles[status], (("Meaning", meaning), ("What to do", advice)))
        for status, (meaning, advice) in table.items()
    ]


EXPLANATIONS = [
    *_explanations("apr", "APR status", AP_STATUSES, APR),
    *_explanations("sidr", "SIDR status", SIDR_STATUSES, SIDR),
]
