"""What people see of it on the requester's host: the words that tie a capture to a log.

Only what Linux and SPDK are known to say: the log lines of nvme-rdma (nvme_rdma_conn_rejected, nvme_rdma_alloc_queue;
as in 6.1 and 6.12) and of SPDK's initiator, and for other users of the RDMA CM the event that they get.
"""

from __future__ import annotations

from typing import Final

from ibcmtool.model import Connection

IP_CM: Final = 0x0000000001  # the upper 40 bits of the RDMA IP CM's service ids
NVME: Final = 0x0000000001061144  # NVMe over RDMA at its own port, 4420
STALE: Final = "stale conn"  # Linux's name of REJ reason 10
CONNECTION_RESET: Final = -104  # what nvme-rdma makes of every failed attempt
TIMED_OUT: Final = -110
_FAILED: Final = (
    f'"nvme nvmeN: rdma connection establishment failed ({CONNECTION_RESET})" (level info; older kernels: '
    f'"rdma_resolve_addr wait failed ({CONNECTION_RESET}).")'
)


def of_stale_refusal(connection: Connection) -> str:
    """What the sender of a REQ sees when it is refused with REJ 10; empty for other users than the RDMA CM's."""
    log = (
        f'Linux nvme-rdma logs "Connect rejected: status 10 ({STALE})." and {_FAILED} for it; SPDK prints '
        '"RDMA_CM_EVENT_REJECTED (8) from CM event channel (status = 10)".'
    )
    return _seen(connection, log, "RDMA_CM_EVENT_REJECTED with status 10")


def of_silence(connection: Connection) -> str:
    """What the sender of a REQ sees when all of them stay unanswered; empty for other users than the RDMA CM's."""
    log = (
        f"Linux nvme-rdma logs {_FAILED} when its REQs have run out; before 6.0 it gave up after 3 s already (REJ 4, "
        f"status {TIMED_OUT})."
    )
    return _seen(connection, log, f"RDMA_CM_EVENT_UNREACHABLE with status {TIMED_OUT}")


def _seen(connection: Connection, log: str, event: str) -> str:
    if connection.service_id == NVME:
        return log
    by_rdma_cm = connection.service_id is not None and connection.service_id >> 24 == IP_CM
    return f"The requester's consumer gets {event}." if by_rdma_cm else ""
