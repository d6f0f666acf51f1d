"""The private data of CM messages, by the upper protocol that sent it.

One file per protocol, found by its `PROTOCOLS`; the first that recognises a REQ is it, the surest are asked first. REP
and REJ carry no service id, they are read as what the REQ of their connection was:

    protocol = recognise(req.service_id, req.private_data)
    dissect(protocol, "REQ", req.private_data).show()
    dissect(protocol, "REP", rep.private_data).show()
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from .ip_cm import RDMA_IP_CM, RDMA_IP_CM_SERVICE, SIZE, ip_cm_reject_words
from .protocol import KNOWN_BY, ConsumerData, PrivateData, Protocol

if TYPE_CHECKING:
    from scapy.packet import Packet

    def __getattr__(name: str) -> Any:
        """The layers, by their names."""


_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_LAYERS = {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, PrivateData) and value.fields_desc
}
globals().update(_LAYERS)
PROTOCOLS: tuple[Protocol, ...] = tuple(
    sorted(
        (protocol for module in _MODULES for protocol in getattr(module, "PROTOCOLS", ())),
        key=lambda protocol: KNOWN_BY.index(protocol.known_by),
    )
)

__all__ = [
    *_LAYERS,
    "PROTOCOLS",
    "RDMA_IP_CM_SERVICE",
    "ConsumerData",
    "PrivateData",
    "Protocol",
    "dissect",
    "ip_cm_reject_words",
    "recognise",
    "words",
]


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
        return private_data[:SIZE], private_data[SIZE:]
    return None, private_data
