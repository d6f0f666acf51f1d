"""Status codes of APR (alternate path response) and SIDR_REP (service ID resolution); from rdma/ib_cm.h and illumos."""

from __future__ import annotations

from ibcmtool.explanations.entry import Explanation

_PROPOSE = "Propose another alternate path; the additional information holds a value that would be accepted."
_ROCE = "Linux drops LAP and APR on RoCE: there no answer comes at all."

APR: dict[int, tuple[str, str, str]] = {
    0: ("alternate path loaded", "The peer has loaded the alternate path that the LAP proposed.", "Nothing. " + _ROCE),
    1: (
        "invalid communication instance",
        "The comm IDs of the LAP do not name a connection of the peer.",
        "Compare the pair of comm IDs with REQ and REP; the peer may have closed the connection.",
    ),
    2: (
        "alternate paths not supported",
        "The peer supports no automatic path migration for this connection.",
        "Run the connection without an alternate path. " + _ROCE,
    ),
    3: (
        "failover port rejected",
        "The peer does not accept the port of the proposed path.",
        "Propose a path to a port of the same CA.",
    ),
    4: (
        "redirect",
        "CM messages for the new path go elsewhere: the additional information is a ClassPortInfo that says where.",
        "Send the LAP again to the port and QP in the ClassPortInfo.",
    ),
    5: (
        "proposed path equals current primary",
        "The proposed alternate path is the path already in use: it would protect against nothing.",
        "Propose a path that differs in port, LID or service level.",
    ),
    6: (
        "QPN or EECN mismatch",
        "The QPN in the LAP is not the peer's QPN of this connection.",
        "Compare Remote QPN of the LAP with Local QPN of the peer's REQ or REP: one side has mixed up two connections.",
    ),
    7: ("proposed LID rejected", "A LID of the proposed path is not usable.", _PROPOSE),
    8: ("proposed GID rejected", "A GID of the proposed path is not usable.", _PROPOSE),
    9: ("proposed flow label rejected", "The flow label of the proposed path is not usable.", _PROPOSE),
    10: ("proposed traffic class rejected", "The traffic class of the proposed path is not usable.", _PROPOSE),
    11: ("proposed hop limit rejected", "The hop limit of the proposed path is not usable.", _PROPOSE),
    12: ("proposed packet rate rejected", "The packet rate of the proposed path is not usable.", _PROPOSE),
    13: ("proposed SL rejected", "The service level of the proposed path is not usable.", _PROPOSE),
}

SIDR: dict[int, tuple[str, str, str]] = {
    0: ("valid QPN", "The service exists; the answer holds the QPN and Q_Key to send datagrams to.", "Nothing."),
    1: (
        "service ID not supported",
        "Nobody offers this service ID at the port that was asked.",
        "Start the service, or correct the port. It is the REJ 8 of datagram services.",
    ),
    2: (
        "rejected by service provider",
        "The program behind the service refused; its private data may say why.",
        "Read the log of the refusing program.",
    ),
    3: ("no QP available", "The service has no queue pair left.", "Look for leaked QPs on the side that refused."),
    4: (
        "redirect",
        (
            "The service is resolved elsewhere: the additional information is a ClassPortInfo that says where. "
            "Linux leaves its length field 0 even when it is there."
        ),
        "Send the SIDR_REQ again to the port and QP in the ClassPortInfo.",
    ),
    5: (
        "version not supported",
        "The receiver does not speak the version of this request.",
        "Look at Class Version in the MAD header and at the RDMA IP CM header in the private data of the SIDR_REQ.",
    ),
}


def _explanations(prefix: str, kind: str, table: dict[int, tuple[str, str, str]]) -> list[Explanation]:
    return [
        Explanation(f"{prefix}:{status}", kind, title, (("Meaning", meaning), ("What to do", advice)))
        for status, (title, meaning, advice) in table.items()
    ]


EXPLANATIONS = _explanations("apr", "APR status", APR) + _explanations("sidr", "SIDR status", SIDR)
