"""The consumers that the reports are about: their service ids, and their private data as Linux fills it in."""

from __future__ import annotations

from dissectors.private_data import RPCRDMA_CM, IPoIB_CM, NVMe_REP, NVMe_REQ

from .wire import Service

TCP = 0x0000000001060000  # RDMA IP CM service ids of TCP ports
NFS = Service(TCP | 20049, bytes(RPCRDMA_CM()), bytes(RPCRDMA_CM()))


def tcp(port: int) -> Service:
    """An application of its own at an RDMA TCP port, without private data."""
    return Service(TCP | port)


def nvme(qid: int, entries: int = 32) -> Service:
    """A queue of an NVMe host; the admin queue has id 0."""
    request = NVMe_REQ(qid=qid, hrqsize=entries, hsqsize=entries - 1)
    return Service(TCP | 4420, bytes(request), bytes(NVMe_REP(crqsize=entries)))


def mesh(port: int) -> Service:
    """A service id that the operating system gave out (IB_CM_ASSIGN_SERVICE_ID): no RDMA IP CM header."""
    return Service(0x0200000000000000 | port, ip_cm=False)


def ipoib(ud_qpn: int, peer_ud_qpn: int) -> Service:
    """IPoIB connected mode to the interface with UD QPN `peer_ud_qpn`, from the one with `ud_qpn`."""
    return Service(
        0x1000000000000000 | peer_ud_qpn,
        bytes(IPoIB_CM(ud_qpn=ud_qpn)),
        bytes(IPoIB_CM(ud_qpn=peer_ud_qpn)),
        ip_cm=False,
    )
