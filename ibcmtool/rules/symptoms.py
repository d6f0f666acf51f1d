"""What people see of it on the requester's host: the words that tie a capture to a kernel log.

Only what Linux is known to say: nvme-rdma's log lines (nvme_rdma_conn_rejected, nvme_rdma_alloc_queue), and for other
users of the RDMA CM the event that they get.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.model import Connection

IP_CM: Final = 0x0000000001  # the upper 40 bits of the RDMA IP CM's service ids
NVME: Final = 0x0000000001061144  # NVMe over RDMA at its own port, 4420
STALE: Final = "stale conn"  # Linux's name of REJ reason 10
CONNECTION_RESET: Final = -104  # what nvme-rdma makes of every failed attempt
TIMED_OUT: Final = -110


def of_stale_refusal(connection: Connection) -> str:
    """What the sender of a REQ sees when it is refused with REJ 10; empty for other users than the RDMA CM's."""
    log = f'"Connect rejected: status 10 ({STALE})." and "rdma connection establishment failed ({CONNECTION_RESET})"'
    return _seen(connection, f"{log} for it", "RDMA_CM_EVENT_REJECTED with status 10")


def of_silence(connection: Connection) -> str:
    """What the sender of a REQ sees when all of them stay unanswered; empty for other users than the RDMA CM's."""
    log = f'"rdma connection establishment failed ({CONNECTION_RESET})"'
    return _seen(connection, log, f"RDMA_CM_EVENT_UNREACHABLE with status {TIMED_OUT}")


def _seen(connection: Connection, log: str, event: str) -> str:
    if connection.service_id == NVME:
        return f"The host's kernel logs {log}."
    by_rdma_cm = connection.service_id is not None and connection.service_id >> 24 == IP_CM
    return f"The requester's consumer gets {event}." if by_rdma_cm else ""
