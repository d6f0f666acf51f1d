"""The private data of CM messages, by the upper protocol that sent it.

One file per protocol; `PROTOCOLS` is the registry: the first that recognises a REQ is it. REP and REJ carry no service
id, they are read as what the REQ of their connection was:

    protocol = recognise(req.service_id, req.private_data)
    dissect(protocol, "REQ", req.private_data).show()
    dissect(protocol, "REP", rep.private_data).show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ip_cm, ipoib_cm, iser, libfabric, lustre, nfs, nvme, rds, rsockets, rtrs, sdp, srp
from .ip_cm import RDMA_IP_CM, RDMA_IP_CM_SERVICE, ip_cm_reject_words
from .ipoib_cm import IPoIB_CM
from .iser import iSER_CM
from .libfabric import LIBFABRIC_XRC
from .lustre import KIB_MSG, KIB_MSG_BE, KIB_REJ, KIB_REJ_BE
from .nfs import RPCRDMA_CM
from .nvme import NVMe_REJ, NVMe_REP, NVMe_REQ
from .protocol import ConsumerData, PrivateData, Protocol
from .rds import RDS6_CM, RDS_CM, RDS_REJ, RDS_REJ_BE
from .rsockets import RSOCKETS_CM
from .rtrs import RTRS_REQ, RTRS_RSP
from .sdp import SDP_HELLO, SDP_HELLO_ACK
from .srp import SRP_LOGIN_REJ, SRP_LOGIN_REQ, SRP_LOGIN_REQ_RDMA, SRP_LOGIN_RSP

if TYPE_CHECKING:
    from scapy.packet import Packet

__all__ = [
    "KIB_MSG",
    "KIB_MSG_BE",
    "KIB_REJ",
    "KIB_REJ_BE",
    "LIBFABRIC_XRC",
    "PROTOCOLS",
    "RDMA_IP_CM",
    "RDMA_IP_CM_SERVICE",
    "RDS6_CM",
    "RDS_CM",
    "RDS_REJ",
    "RDS_REJ_BE",
    "RPCRDMA_CM",
    "RSOCKETS_CM",
    "RTRS_REQ",
    "RTRS_RSP",
    "SDP_HELLO",
    "SDP_HELLO_ACK",
    "SRP_LOGIN_REJ",
    "SRP_LOGIN_REQ",
    "SRP_LOGIN_REQ_RDMA",
    "SRP_LOGIN_RSP",
    "ConsumerData",
    "IPoIB_CM",
    "NVMe_REJ",
    "NVMe_REP",
    "NVMe_REQ",
    "PrivateData",
    "Protocol",
    "dissect",
    "iSER_CM",
    "ip_cm_reject_words",
    "recognise",
    "words",
]

# A service id of its own comes first, then a well-known port or a magic, then what only its form tells.
PROTOCOLS: tuple[Protocol, ...] = (
    ipoib_cm.PROTOCOL,
    sdp.PROTOCOL,
    iser.PROTOCOL,
    nfs.PROTOCOL,
    rds.IPV4_PROTOCOL,
    rds.IPV6_PROTOCOL,
    lustre.PROTOCOL,
    rtrs.PROTOCOL,
    srp.RDMA_CM_PROTOCOL,
    srp.PROTOCOL,
    rsockets.PROTOCOL,
    libfabric.PROTOCOL,
    nvme.PROTOCOL,
    ip_cm.RDMA_IP_CM_SERVICE,
)


def recognise(service_id: int, private_data: bytes) -> Protocol | None:
    """The protocol of a REQ with this service id and private data.

    `RDMA_IP_CM_SERVICE` for an unknown protocol of its class; None where neither id nor data are of a known format.
    """
    consumer_data = _split(private_data)[1]
    for protocol in PROTOCOLS:
        if protocol.recognises(service_id, consumer_data if protocol.over_ip_cm else private_data):
            return protocol
    return None


def dissect(protocol: Protocol, message_type: str, private_data: bytes) -> Packet | None:
    """The layers of the private data of a message (REQ, REP, REJ, SIDR_REQ); they build to the same bytes.

    In a REQ or SIDR_REQ the RDMA IP CM header comes first, if there is one. None where the bytes are not in the form
    that the protocol has for this message.
    """
    header, message = _read(protocol, message_type, private_data)
    if header is None:
        return message
    return RDMA_IP_CM(private_data) if message is None else RDMA_IP_CM(header) / message


def words(protocol: Protocol, message_type: str, private_data: bytes) -> list[tuple[str, str]]:
    """The telling fields of the protocol's private data as (name, value); empty where it is not in its form."""
    message = _read(protocol, message_type, private_data)[1]
    return [] if message is None else message.words()


def _read(protocol: Protocol, message_type: str, private_data: bytes) -> tuple[bytes | None, PrivateData | None]:
    """The RDMA IP CM header, if there is one, and the protocol's own layer, if the bytes are in its form."""
    header, data = None, private_data
    if protocol.over_ip_cm and message_type in ("REQ", "SIDR_REQ"):
        header, data = _split(private_data)
    layer = next((layer for layer in protocol.layers.get(message_type, ()) if layer.fits(data)), None)
    return header, None if layer is None else layer(data)


def _split(private_data: bytes) -> tuple[bytes | None, bytes]:
    """The RDMA IP CM header of a REQ's private data, if it has one, and the consumer data."""
    if RDMA_IP_CM.fits(private_data):
        return private_data[: ip_cm.SIZE], private_data[ip_cm.SIZE :]
    return None, private_data
