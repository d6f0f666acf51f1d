"""NFS/RDMA: the RPC-over-RDMA version 1 private message (RFC 8797) in REQ and REP, port 20049. A REJ has no format.

A peer without the message has the defaults of RPC-over-RDMA version 1: 1024 bytes inline, no remote invalidation.
"""

from __future__ import annotations

from ..fields import HexField, NumberField, check_layout
from .protocol import PrivateData, Protocol, tcp_port

PORT = 20049
MAGIC = 0xF6AB0E18


class InlineSizeField(NumberField):
    """An inline size in units of 1024 bytes, less one."""

    def words(self, x: int) -> str:
        return f"{x} ({(x + 1) * 1024} bytes)"


class RPCRDMA_CM(PrivateData):
    """The RPC-over-RDMA private message (RFC 8797)."""

    name = "RPC-over-RDMA"
    fields_desc = [
        HexField("magic", MAGIC, 32),
        NumberField("version", 1, 8),
        NumberField("reserved_5", 0, 7),
        NumberField("remote_invalidation", 1, 1),
        InlineSizeField("send_size", 3, 8),
        InlineSizeField("receive_size", 3, 8),
    ]

    @classmethod
    def fits(cls, data: bytes) -> bool:
        return data[:4] == MAGIC.to_bytes(4, "big")

    def words(self) -> list[tuple[str, str]]:
        sizes = [
            (f"inline {name} size", f"{(value + 1) * 1024} bytes")
            for name, value in (("send", self.send_size), ("receive", self.receive_size))
            if value is not None
        ]
        if self.remote_invalidation is not None:
            sizes.append(("remote invalidation", "yes" if self.remote_invalidation else "no"))
        return sizes


check_layout(RPCRDMA_CM, 8)

PROTOCOLS = (
    Protocol(
        "NFS/RDMA",
        known_by="port",
        ports=(PORT,),
        over_ip_cm=True,
        recognises=lambda service_id, data: (
            tcp_port(service_id) == PORT or (tcp_port(service_id) is not None and RPCRDMA_CM.fits(data))
        ),
        layers={"REQ": (RPCRDMA_CM,), "REP": (RPCRDMA_CM,)},
    ),
)
