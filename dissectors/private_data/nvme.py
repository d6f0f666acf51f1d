"""NVMe over RDMA (NVMe RDMA Transport specification 1.0): little endian, port 4420 unless configured otherwise.

An association has one connection per queue: queue id 0 is the admin queue, then come the I/O queues.
"""

from __future__ import annotations

from ..fields import BytesField, CodeField, HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, is_zero, tcp_port

PORT = 4420

STATUS = {
    1: "invalid private data length",
    2: "invalid record format (RECFMT)",
    3: "invalid queue id (QID)",
    4: "invalid host send queue size (HSQSIZE)",
    5: "invalid host receive queue size (HRQSIZE)",
    6: "no resources",
    7: "invalid inbound read depth (IRD)",
    8: "invalid outbound read depth (ORD)",
    9: "invalid controller id (CNTLID)",
}


class NVMe_REQ(PrivateData):
    """Sizes are in entries; `hsqsize` counts from 0 by the specification. Linux sends no controller id."""

    name = "NVMe/RDMA request"
    fields_desc = [
        NumberField("recfmt", 0, -16),
        NumberField("qid", 0, -16),
        NumberField("hrqsize", 32, -16),
        NumberField("hsqsize", 31, -16),
        HexField("cntlid", 0, -16),
        BytesField("reserved_10", 22),
    ]

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("qid", "hrqsize", "hsqsize", *(["cntlid"] if self.cntlid else []))


class NVMe_REP(PrivateData):
    """What the controller answers (NVMe/RDMA transport, Accept private data)."""

    name = "NVMe/RDMA reply"
    fields_desc = [
        NumberField("recfmt", 0, -16),
        NumberField("crqsize", 32, -16),
        BytesField("reserved_4", 28),
    ]

    def words(self) -> list[tuple[str, str]]:
        return self.field_words("crqsize")


class NVMe_REJ(PrivateData):
    """Why the controller refuses (NVMe/RDMA transport, Reject private data)."""

    name = "NVMe/RDMA reject"
    fields_desc = [NumberField("recfmt", 0, -16), CodeField("status", 6, -16, STATUS)]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return is_zero(data[:2]) and not is_zero(data[2:4]) and is_zero(data[4:])

    def words(self) -> list[tuple[str, str]]:
        return [] if self.status is None else [("reason", STATUS.get(self.status, self.repr_of("status")))]


check_layout(NVMe_REQ, 32)
check_layout(NVMe_REP, 32)
check_layout(NVMe_REJ, 4)


def _recognises(service_id: int, data: bytes) -> bool:
    port = tcp_port(service_id)
    if port is None or port == PORT:
        return port == PORT
    # Another port: nothing but two queue sizes that belong together, as every host sends them.
    if len(data) < 32 or not is_zero(data[:2]) or not is_zero(data[10:]):
        return False
    hrqsize, hsqsize = int.from_bytes(data[4:6], "little"), int.from_bytes(data[6:8], "little")
    return hrqsize == hsqsize + 1 and hsqsize > 0


PROTOCOLS = (
    Protocol(
        "NVMe/RDMA",
        known_by="loose form",
        ports=(PORT,),
        over_ip_cm=True,
        recognises=_recognises,
        layers={"REQ": (NVMe_REQ,), "REP": (NVMe_REP,), "REJ": (NVMe_REJ,)},
    ),
)
